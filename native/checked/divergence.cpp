// LAPACK reads rows as columns: it sees L^T, which is an upper triangle.
#include "divergence.hpp"

#include <cstring>

#include "kernels/blas.hpp"
#include "triangles.hpp"

template <class T> static constexpr Real<T> scale = Scalar<T>::is_complex ? Real<T>(1) : Real<T>(0.5);

// True if no square of an entry leaves the range, and L is neither a covariance nor an upper factor: entries above the diagonal are zero.
template <class T> static bool is_moderate_factor(const T* l, int n) {
    if (!Triangle<T>{l, n, true, false}.is_regular()) return false;
    Real<T> most = 0;
    for (int r = 0; r < n; r++) {
        const T* row = l + Index(r) * n;
        if (!(size_of(row[r]) >= std::numeric_limits<Real<T>>::min())) return false;
        for (int c = 0; c <= r; c++) most = std::max(most, size_of(row[c]));
        if (r + 1 < n && (row[r + 1] != T(0) || l[r + 1] != T(0))) return false;
    }
    return is_middle(most);
}

// -- by blocks of rows, in n^3 / 6 multiplications each ------------------------------------------------

constexpr int WIDTH = 128;

// Solves with a diagonal block: rows <- L_ii^-1 rows, or with L_ii^-H, of the first k columns.
template <class T> static void solve_rows(const T* l, T* rows, int n, int width, int k, char op) {
    Kernels<T>::triangular('R', 'U', op, 'N', k, width, l, n, rows, n);
}

// X <- L^-1 X, from the first rows to the last. Two blocks of columns at a time: their nonzero rows differ by one block at most.
template <class T> static void lower_solve(const T* l, T* x, int n) {
    for (int i = 0, end; i < n; i = end) {
        end = std::min(i + WIDTH, n);
        for (int j = 0; j < i; j += 2 * WIDTH) {
            int to = std::min(j + 2 * WIDTH, i);
            Kernels<T>::multiply('N', 'N', to - j, end - i, i - j, T(-1), x + Index(j) * n + j, n, l + Index(i) * n + j, n, T(1), x + Index(i) * n + j, n);
        }
        solve_rows(l + Index(i) * n + i, x + Index(i) * n, n, end - i, end, 'N');
    }
}

// X <- tril(L^-H X), from the last rows to the first.
template <class T> static void adjoint_solve(const T* l, T* x, int n) {
    for (int i = (n - 1) / WIDTH * WIDTH; i >= 0; i -= WIDTH) {
        int end = std::min(i + WIDTH, n);
        Kernels<T>::multiply('N', 'C', end, end - i, n - end, T(-1), x + Index(end) * n, n, l + Index(end) * n + i, n, T(1), x + Index(i) * n, n);
        solve_rows(l + Index(i) * n + i, x + Index(i) * n, n, end - i, end, 'C');
        for (int r = i; r < end; r++) std::fill(x + Index(r) * n + r + 1, x + Index(r) * n + end, T(0));
    }
}

// P = -tril(B X^H): of each block of columns the rows from it on.
template <class T> static void minus_product(const T* b, const T* x, T* p, int n) {
    for (int j = 0, end; j < n; j = end) {
        end = std::min(j + WIDTH, n);
        Kernels<T>::multiply('C', 'N', end - j, n - j, end, T(-1), x + Index(j) * n, n, b + Index(j) * n, n, T(0), p + Index(j) * n + j, n);
    }
    clear_above(p, n);
}

template <class T> bool divergence(const T* l1, const T* l2, Real<T>* d, T* x, int n) {
    if (!is_moderate_factor(l1, n) || !is_moderate_factor(l2, n)) return false;
    std::memcpy(static_cast<void*>(x), l1, sizeof(T) * n * n);
    clear_above(x, n);
    lower_solve(l2, x, n);
    // d = s (sum_(i > j) |x_ij|^2 + sum_i u_i^2 + 2 (u_i - log(1 + u_i))), 1 + u_i = |x_ii|: no term cancels another
    Real<T> sum = 0;
    for (int r = 0; r < n; r++) {
        const T* row = x + Index(r) * n;
        const Real<T> of = size_of(l2[Index(r) * n + r]), u = (size_of(l1[Index(r) * n + r]) - of) / of;
        for (int c = 0; c < r; c++) sum += std::norm(row[c]);
        sum += u * u + 2 * (u - (2 * std::abs(u) < 1 ? std::log1p(u) : std::log(size_of(row[r]))));
    }
    *d = scale<T> * sum;
    return std::isfinite(*d);
}

template <class T> bool divergence_pullback(const T* l1, const T* l2, const T* x, Real<T> d_bar, T* l1_bar, T* l2_bar, int n) {
    if (!is_moderate_factor(l1, n) || !is_moderate_factor(l2, n)) return false;
    const Real<T> w = 2 * scale<T> * d_bar;
    for (Index j = 0; j < Index(n) * n; j++) l1_bar[j] = w * x[j];
    adjoint_solve(l2, l1_bar, n);
    minus_product(l1_bar, x, l2_bar, n);
    for (int r = 0; r < n; r++) {
        const Index i = Index(r) * (n + 1);
        l1_bar[i] -= w / conj_of(l1[i]);
        l2_bar[i] += w / conj_of(l2[i]);
    }
    return all_finite(l1_bar, Index(n) * n) && all_finite(l2_bar, Index(n) * n);
}

#define FOR(T)                                                                 \
    template bool divergence<T>(const T*, const T*, Real<T>*, T*, int);        \
    template bool divergence_pullback<T>(const T*, const T*, const T*, Real<T>, T*, T*, int);
EACH_NUMBER(FOR)
