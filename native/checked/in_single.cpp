#include "in_single.hpp"

#include "equilibrate.hpp"
#include "kernels/norms.hpp"

template <class T> size_t InSingle<T>::nbytes(const CheckedMatrix<T>* before) const {
    const auto* other = static_cast<const InSingle*>(before);
    return this->m_.size() * sizeof(T) + this->powers_.size() * sizeof(int) + low_->nbytes(other ? other->low_.get() : nullptr);
}

template <class T> void InSingle<T>::apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const {
    this->with_width(width, [&](auto known) { apply<known>(b, x, op, add, work); });
}

// Columns are scaled by powers of two, so that none of a residual leaves the range.
template <class T> template <int width> void InSingle<T>::apply(const T* b, T* x, char op, bool add, Work& work) const {
    constexpr int MOST = 1000;  // beyond it a power or its inverse is none of the normal range
    const Index n = this->pattern_->columns().size(), size = n * width;
    if (!work.single) work.single = std::make_unique<typename CheckedMatrix<S>::Work>();
    std::vector<S>&given = work.single->given, &found = work.single->x;
    given.resize(size);
    found.resize(size);
    R most[width], power[width];
    max_norms<width>(b, n, most);
    for (int c = 0; c < width; c++) power[c] = std::ldexp(R(1), std::clamp(exponent_of(most[c]), -MOST, MOST));
    for (Index i = 0; i < size; i += width)
        for (int c = 0; c < width; c++) given[i + c] = S(b[i + c] / power[c]);
    low_->apply_inverse(width, given.data(), found.data(), op, false, *work.single);
    for (Index i = 0; i < size; i += width)
        for (int c = 0; c < width; c++) x[i + c] = (add ? x[i + c] : T(0)) + T(found[i + c]) * power[c];
}

#define FOR(T) template class InSingle<T>;
EACH_DOUBLE(FOR)
