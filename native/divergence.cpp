// LAPACK reads rows as columns: it sees L^T, which is an upper triangle.
#include "divergence.hpp"

#include <cstring>

#include "lapack.hpp"
#include "triangles.hpp"

template <class T> static constexpr Real<T> scale = Scalar<T>::is_complex ? Real<T>(1) : Real<T>(0.5);

// In the middle of the range, so that no square leaves it; and with nothing beside the diagonal that a covariance has or an upper factor.
template <class T> static bool is_moderate_factor(const T* l, int n) {
    constexpr int exponent = std::numeric_limits<Real<T>>::max_exponent / 6;
    if (!Triangle<T>{l, n, true, false}.is_regular()) return false;
    Real<T> most = 0;
    for (int r = 0; r < n; r++) {
        const T* row = l + Index(r) * n;
        if (!(size_of(row[r]) >= std::numeric_limits<Real<T>>::min())) return false;
        for (int c = 0; c <= r; c++) most = std::max(most, size_of(row[c]));
        if (r + 1 < n && (row[r + 1] != T(0) || l[r + 1] != T(0))) return false;
    }
    return most >= std::ldexp(Real<T>(1), -exponent) && most <= std::ldexp(Real<T>(1), exponent);
}

template <class T> static void clear_above(T* x, int n) {
    for (int r = 0; r < n; r++) std::fill(x + Index(r) * n + r + 1, x + Index(r + 1) * n, T(0));
}

template <class T> bool divergence(const T* l1, const T* l2, Real<T>* d, T* x, int n) {
    if (!is_moderate_factor(l1, n) || !is_moderate_factor(l2, n)) return false;
    std::memcpy(static_cast<void*>(x), l1, sizeof(T) * n * n);
    clear_above(x, n);
    char right = 'R', upper = 'U', none = 'N';
    T unity = T(1);
    Lapack<T>::trsm(&right, &upper, &none, &none, &n, &n, &unity, const_cast<T*>(l2), &n, x, &n);  // X^T L2^T = L1^T
    Real<T> squares = 0, logs = 0;
    for (int r = 0; r < n; r++) {
        const T* row = x + Index(r) * n;
        for (int c = 0; c <= r; c++) squares += std::norm(row[c]);
        logs += std::log(size_of(row[r]));
    }
    *d = scale<T> * (squares - n - 2 * logs);
    return std::isfinite(*d);
}

template <class T> bool divergence_pullback(const T* l1, const T* l2, const T* x, Real<T> d_bar, T* l1_bar, T* l2_bar, int n) {
    if (!is_moderate_factor(l1, n) || !is_moderate_factor(l2, n)) return false;
    std::memcpy(static_cast<void*>(l1_bar), x, sizeof(T) * n * n);
    char left = 'L', right = 'R', upper = 'U', none = 'N', adjoint = 'C';
    T weight = T(2 * scale<T> * d_bar), minus = T(-1);
    Lapack<T>::trsm(&right, &upper, &adjoint, &none, &n, &n, &weight, const_cast<T*>(l2), &n, l1_bar, &n);  // L2^-H X
    clear_above(l1_bar, n);
    std::memcpy(static_cast<void*>(l2_bar), l1_bar, sizeof(T) * n * n);
    Lapack<T>::trmm(&left, &upper, &adjoint, &none, &n, &n, &minus, const_cast<T*>(x), &n, l2_bar, &n);  // times X^H
    clear_above(l2_bar, n);
    for (int r = 0; r < n; r++) {
        const Index i = Index(r) * (n + 1);
        l1_bar[i] -= weight / conj_of(l1[i]);
        l2_bar[i] += weight / conj_of(l2[i]);
    }
    return all_finite(l1_bar, Index(n) * n) && all_finite(l2_bar, Index(n) * n);
}

#define FOR(T)                                                                 \
    template bool divergence<T>(const T*, const T*, Real<T>*, T*, int);        \
    template bool divergence_pullback<T>(const T*, const T*, const T*, Real<T>, T*, T*, int);
FOR(float)
FOR(double)
FOR(std::complex<float>)
FOR(std::complex<double>)
