// The factors of a batch, member by member, in several threads.
#include "dense.hpp"

#include <cstring>

#include "kernels/team.hpp"
#include "kernels/hermitian.hpp"
#include "kernels/products.hpp"
#include "factor_registry.hpp"

template <class T>
Dense<T>::Dense(Kind kind, bool hermitian, int n, Index count, std::shared_ptr<const Direction> probe)
    : n(n), count(count), kind_(kind), hermitian_(hermitian), probe_(std::move(probe)), a_(Index(n) * n * count), f_(Index(n) * n * count),
      pivots_(kind == Kind::lu ? size_t(n) * count : 0), factors_(count), units_(count) {}

template <class T> size_t Dense<T>::nbytes() const {
    size_t changed = 0;
    for (auto& units : units_) changed += units ? units->m.size() * sizeof(T) + units->scales.size() * sizeof(R) : 0;
    for (auto& own : factors_) changed += own.probe_solution.size() * sizeof(T);
    return (a_.size() + f_.size()) * sizeof(T) + pivots_.size() * sizeof(int) + count * (sizeof(Factored<T>) + sizeof(void*)) + changed;
}

template <class T> bool Dense<T>::is_of(Kind kind, bool hermitian, const T* a) const {
    return kind == kind_ && hermitian == hermitian_ && !std::memcmp(a_.data(), a, a_.size() * sizeof(T));
}

template <class T> uint64_t Dense<T>::key_of(Kind kind, bool hermitian, int n, Index count, const T* a) {
    uint64_t same = uint64_t(n) << 8 | uint64_t(sizeof(T)) << 3 | uint64_t(Scalar<T>::is_complex) << 2 | uint64_t(hermitian) << 1 | (kind == Kind::lu);
    return hash_bytes(a, size_t(n) * n * count * sizeof(T), same);
}

template <class T> bool Dense<T>::factor(const T* a, int threads) {
    std::memcpy(static_cast<void*>(a_.data()), a, a_.size() * sizeof(T));
    return each<Work>(count, n, threads, [&](Index i, Work& work) { return factor_one(i, work); });
}

template <class T> bool Dense<T>::factor_one(Index i, Work& work) {
    Factored<T>& own = factors_[i];
    own.kind = kind_;
    own.n = n;
    own.f = f_.data() + i * n * n;
    own.pivots = kind_ == Kind::lu ? pivots_.data() + i * n : nullptr;
    if (!own.factor(a_.data() + i * n * n, hermitian_, work.units, *probe_, work)) return false;
    if (own.m != a_.data() + i * n * n) units_[i] = std::make_unique<Units>(std::move(work.units));  // own.m points into memory that moves along
    return true;
}

template <class T> bool Dense<T>::solve(const T* b, T* x, int k, char op, int threads) const {
    Index step = Index(n) * k;
    return each<Work>(count, n, threads, [&](Index i, Work& work) { return solve_one(i, b + i * step, x + i * step, k, op, work); });
}

template <class T>
bool Dense<T>::solve_one(Index i, const T* b, T* x, int k, char op, Work& work) const {
    work.x.resize(2 * Index(n) * k);
    T *y = work.x.data(), *given = y + Index(n) * k;
    transpose_rows(b, given, n, k);
    if (!factors_[i].solve(given, y, k, op, work)) return false;
    transpose_columns(y, x, n, k);
    return true;
}

// a_bar = -lam x^H, or as the letter says its transpose (of real numbers) or its Hermitian part.
template <class T> static void outer(const T* __restrict lam, const T* __restrict x, T* __restrict a_bar, int n, int k, char form) {
    if (form == 'T') std::swap(lam, x);
    if (k == 1)
        for (int r = 0; r < n; r++)
            for (int c = 0; c < n; c++) a_bar[Index(r) * n + c] = -lam[r] * conj_of(x[c]);
    else  // LAPACK reads rows as columns: a_bar^T = -(x^T)^H lam^T
        Kernels<T>::multiply(Scalar<T>::is_complex ? 'C' : 'T', 'N', n, n, k, T(-1), x, k, lam, k, T(0), a_bar, n);
    if (form == 'S') take_hermitian_part(a_bar, n);
}

template <class T> bool inverse_pullback(const T* x_bar, const T* x, T* a_bar, int n, bool hermitian, std::vector<T>& w) {
    w.resize(Index(n) * n);
    with_fixed_size(n, [&](auto n) {
        product<'N', 'H'>(n, x_bar, x, w.data());
        product<'H', 'N'>(n, x, w.data(), a_bar, Real<T>(-1));
    });
    if (hermitian) take_hermitian_part(a_bar, n);
    return all_finite(a_bar, Index(n) * n);
}

template <class T>
bool Dense<T>::pullback(const T* x_bar, const T* x, T* lam, T* a_bar, int k, char op, char form, int threads) const {
    char adjoint = op == 'N' ? 'H' : 'N';
    if (!solve(x_bar, lam, k, adjoint, threads)) return false;
    if (!a_bar) return true;
    Index step = Index(n) * k, size = Index(n) * n;
    return each<Work>(count, n, threads, [&](Index i, Work&) {
        const T *of_lam = lam + i * step, *of_x = x + i * step;
        outer(of_lam, of_x, a_bar + i * size, n, k, form);
        // a bound of all sums of products; NaN fails the comparison
        return norms(of_lam, step).sum * norms(of_x, step).sum <= std::numeric_limits<R>::max() / 4 || all_finite(a_bar + i * size, size);
    });
}

template <class T> bool Dense<T>::slogdet(T* sign, R* size) const {
    return each<Work>(count, n, 1, [&](Index i, Work& work) { return factors_[i].slogdet(sign + i, size + i, *probe_, work); });
}

template <class T> bool Dense<T>::inverse(T* x, int threads) const {
    return each<Work>(count, n, threads, [&](Index i, Work& work) { return factors_[i].inverse(x + i * n * n, *probe_, true, work); });
}

template <class T> bool Dense<T>::det(T* d) const {
    return each<Work>(count, n, 1, [&](Index i, Work& work) { return factors_[i].det(d + i, *probe_, work); });
}

template <class T> bool Dense<T>::log_pullback(const T* w, const T* d, T* x, int threads) const {
    return each<Work>(count, n, threads, [&](Index i, Work& work) {
        T *own = x + i * n * n, weight = d ? times(w[i], conj_of(d[i])) : w[i];
        // a product below the normal range has lost digits, which w adj(A)^H may have
        const bool is_lost = d && size_of(weight) < std::numeric_limits<R>::min() && w[i] != T(0);
        if (is_lost) weight = w[i];
        if (!(is_lost ? factors_[i].adjugate(own, *probe_, work) : factors_[i].inverse(own, *probe_, false, work))) return false;
        with_fixed_size(n, [&](auto n) {
            set_pairs(own, n, [weight](T& below, T& above) {
                T there = below;
                below = times(weight, conj_of(above));
                above = times(weight, conj_of(there));
            });
        });
        return all_finite(own, Index(n) * n);
    });
}

#define FOR(T)              \
    template class Dense<T>; \
    template bool inverse_pullback(const T*, const T*, T*, int, bool, std::vector<T>&);
EACH_NUMBER(FOR)
