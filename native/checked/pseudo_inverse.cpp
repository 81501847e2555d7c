// X = V diag(1/s) U^H, of the singular values that are not taken for 0.
#include "pseudo_inverse.hpp"

#include "kernels/products.hpp"
#include "spectra.hpp"

template <class T> bool pinv(const T* a, Real<T> rtol, Real<T> atol, T* x, Real<T>* rank, int m, int n, const Direction& probe, PinvWork<T>& work) {
    using R = Real<T>;
    const int k = std::min(m, n);
    T *u = work.room.grow(Index(m + n) * k), *vh = u + Index(m) * k;
    work.s.resize(k);
    R* s = work.s.data();
    if (!svd(a, u, s, vh, static_cast<T*>(nullptr), InUnits<T>(), m, n, probe, work.svd) || !is_middle(s[0])) return false;
    const R least = std::max(atol, rtol * s[0]);
    *rank = 0;
    for (int i = 0; i < k; i++) {
        const bool counts = s[i] > least;
        *rank += R(counts);
        for (int j = 0; j < n; j++) vh[Index(i) * n + j] *= counts ? 1 / s[i] : R(0);
    }
    product<'H', 'H'>(n, m, k, vh, u, x);
    return all_finite(x, Index(m) * n);
}

template <class T> bool pinv_pullback(const T* a, const T* x, Real<T> rank, const T* x_bar, T* a_bar, int m, int n, PinvWork<T>& work) {
    const int k = std::min(m, n);
    if (rank != Real<T>(k)) return false;
    const Index size = Index(m) * n, square = Index(k) * k;
    T *p = work.room.grow(3 * size + square), *other = p + size, *bar = other + size, *inner = bar + size;
    // in units of its own: X^3 X_bar may leave the range where A_bar does not
    std::copy(x_bar, x_bar + size, bar);
    const int e = power_of(bar, size, MODERATE);
    if (!times_power(bar, size, -e)) return false;
    if (m >= n) {
        product<'N', 'H'>(n, n, m, x, x, inner);
        product<'H', 'N'>(m, n, n, bar, inner, p);
        product<'N', 'N'>(n, n, m, x, p, inner);
        product<'N', 'N'>(m, n, n, a, inner, other);
        product<'N', 'H'>(n, n, m, bar, x, inner);
        product<'H', 'N'>(m, n, n, x, inner, a_bar, Real<T>(-1));
    } else {
        product<'H', 'N'>(m, m, n, x, x, inner);
        product<'N', 'H'>(m, n, m, inner, bar, p);
        product<'N', 'N'>(m, m, n, p, x, inner);
        product<'N', 'N'>(m, n, m, inner, a, other);
        product<'H', 'N'>(m, m, n, x, bar, inner);
        product<'N', 'H'>(m, n, m, inner, x, a_bar, Real<T>(-1));
    }
    for (Index i = 0; i < size; i++) a_bar[i] += p[i] - other[i];
    times_power(a_bar, size, e);
    return all_finite(a_bar, size);
}

#define FOR(T)                                                                                                                   \
    template bool pinv(const T*, Real<T>, Real<T>, T*, Real<T>*, int, int, const Direction&, PinvWork<T>&);                      \
    template bool pinv_pullback(const T*, const T*, Real<T>, const T*, T*, int, int, PinvWork<T>&);
EACH_NUMBER(FOR)
