// P M P^H = L L^H of a matrix M that is looked at: no pivot ever moves, and one that is not positive declines.
#include "checked_cholesky.hpp"

#include "equilibrate.hpp"
#include "limits.hpp"

template <class T> void CheckedCholesky<T>::use(const SymmetricPattern& pattern) {
    this->pattern_ = symmetric_ = &pattern;
    cholesky_ = std::make_shared<Cholesky<T>>(pattern.fronts);
}

template <class T> bool CheckedCholesky<T>::factor(const SymmetricPattern& pattern, const T* values, bool in_slots, int threads, Work& work, T* panels) {
    use(pattern);
    if (panels) {
        use_large_pages(panels, pattern.fronts->entries() * sizeof(T));
        cholesky_->borrow(panels);
    }
    if (!look(values, in_slots, nullptr, work)) return false;
    Crew crew(threads);
    const std::vector<Index>& to = pattern.permuted;
    if (!to.empty()) {
        work.z.resize(m_.size());
        for (size_t s = 0; s < m_.size(); s++) work.z[to[s]] = m_[s];
    }
    const bool accepted = cholesky_->factor(to.empty() ? m_.data() : work.z.data(), crew);
    is_interrupted = is_interrupted || crew.is_interrupted();
    return accepted && is_calm(work);
}

// The Hermitian part, of what is Hermitian up to the rounding and the differences that ldiv.structures.asymmetry allows.
template <class T> bool CheckedCholesky<T>::gather(const T* values, bool in_slots) {
    Base::gather(values, in_slots);
    const R tolerance = std::pow(eps<T>, R(SYMMETRIC));
    for (size_t s = 0; s < m_.size(); s++) {
        const size_t other = size_t(symmetric_->mirror[s]);
        if (other < s) continue;
        const T x = m_[s], y = conj_of(m_[other]);
        if (x == y) continue;
        if (!(size_of(x - y) <= tolerance * std::max(size_of(x), size_of(y)))) return false;
        m_[s] = (x + y) / R(2);
        m_[other] = conj_of(m_[s]);
    }
    return true;
}

template <class T> bool CheckedCholesky<T>::slogdet(T* sign, R* size) const {
    *sign = T(1);
    *size = unscaled(R(cholesky_->log_det()));
    return true;
}

template <class T> bool CheckedCholesky<T>::inverse_entries(T* entries, int threads, Work& work) const {
    Crew crew(threads);
    work.z.resize(m_.size());
    const bool accepted = cholesky_->inverse(work.z.data(), crew);
    is_interrupted = is_interrupted || crew.is_interrupted();
    if (!accepted) return false;
    const std::vector<Index>& at = symmetric_->permuted;
    if (at.empty()) return write_entries(work.z.data(), entries);
    work.y.resize(m_.size());
    for (size_t s = 0; s < m_.size(); s++) work.y[s] = work.z[at[s]];
    return write_entries(work.y.data(), entries);
}

// -- as arrays ---------------------------------------------------------------------------------------
//
//     whole    is it here? powers of R, which are those of C
//     numbers  the panels of L
//     real     the norm of M, and the error

template <class T> void CheckedCholesky<T>::write(int* whole, R* real) const {
    const Index n = symmetric_->columns().size();
    whole[0] = state();
    if (powers_.empty())
        std::fill_n(whole + 1, n, 0);
    else
        std::copy_n(powers_.data(), n, whole + 1);
    real[0] = norm_;
    real[1] = error_;
}

template <class T> void CheckedCholesky<T>::write_nothing(const SymmetricPattern& pattern, int* whole, T* numbers, R* real) {
    std::fill_n(whole, whole_size(pattern), 0);
    std::fill_n(numbers, numbers_size(pattern), T(0));
    std::fill_n(real, 2, R(0));
}

template <class T> bool CheckedCholesky<T>::read(const SymmetricPattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work) {
    if (!is_here(whole[0])) return false;
    use(pattern);
    const Index n = pattern.columns().size();
    std::vector<int> powers;
    for (int side = 0; side < 2 && is_scaled(whole[0]); side++) powers.insert(powers.end(), whole + 1, whole + 1 + n);
    this->restore(pattern, values, whole[0], std::move(powers), real, work);
    cholesky_->borrow(const_cast<T*>(numbers));
    return true;
}

// -- solves ----------------------------------------------------------------------------------------

template <class T> void CheckedCholesky<T>::apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const {
    const std::vector<Row>& place = symmetric_->place;
    const Index n = Index(place.size());
    work.y.resize(n * width);
    T* y = work.y.data();
    for (Index i = 0; i < n; i++) std::copy_n(b + i * width, width, y + place[i] * width);
    Crew crew(1);
    if (!cholesky_->solve(y, width, 'A', op == 'T', crew)) {  // nor is there an answer
        is_interrupted = true;
        y[0] = std::numeric_limits<R>::quiet_NaN();
    }
    for (Index i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            T& to = x[i * width + c];
            to = (add ? to : T(0)) + y[place[i] * width + c];
        }
}

#define FOR(T) template class CheckedCholesky<T>;
EACH_NUMBER(FOR)
