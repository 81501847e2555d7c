// LAPACK reads rows as columns: it sees S = T^T, and B^T (k, n) for B (n, k).
#include "triangles.hpp"

#include <cstring>
#include <vector>

#include "kernels/blas.hpp"
#include "kernels/hermitian.hpp"
#include "limits.hpp"

template <class T> bool Triangle<T>::is_regular() const {
    for (int r = 0; r < n; r++) {
        const T* row = t + Index(r) * n;
        int first = lower ? 0 : r + unit, last = lower ? r + !unit : n;
        if (!all_finite(row + first, last - first) || (!unit && row[r] == T(0))) return false;
    }
    return true;
}

template <class T> bool Triangle<T>::solve(const T* b, T* x, int k, char op) const {
    Index count = Index(n) * k;
    if (!all_finite(b, count)) return false;
    std::memcpy(static_cast<void*>(x), b, sizeof(T) * count);
    char uplo = lower ? 'U' : 'L', diagonal = unit ? 'U' : 'N';
    const bool turned = op == 'C' || (op == 'H' && k == 1);  // T^H x = b is T^T conj(x) = conj(b)
    if (turned) conjugate(x, count);
    if (k == 1) {
        char how = op == 'N' || op == 'C' ? 'T' : 'N';
        int size = n, one = 1;
        Lapack<T>::trsv(&uplo, &how, &diagonal, &size, const_cast<T*>(t), &size, x, &one);
    } else  // X^T S = B^T, or with S^T, S^H
        Kernels<T>::triangular('R', uplo, op == 'T' ? 'T' : op == 'H' ? 'C' : 'N', diagonal, k, n, t, n, x, k);
    if (turned) conjugate(x, count);
    return all_finite(x, count);
}

template <class T>
bool Triangle<T>::pullback(const T* x_bar, const T* x, T* lam, T* t_bar, int k, char op) const {
    if ((Scalar<T>::is_complex && op == 'T') || !solve(x_bar, lam, k, op == 'N' ? 'H' : 'N')) return false;
    if (!t_bar) return true;
    const T *u = op == 'N' ? lam : x, *v = op == 'N' ? x : lam;
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) {
            T sum = T(0);
            if (lower ? c <= r - unit : c >= r + unit)
                for (int j = 0; j < k; j++) sum -= u[Index(r) * k + j] * conj_of(v[Index(c) * k + j]);
            t_bar[Index(r) * n + c] = sum;
        }
    return all_finite(t_bar, Index(n) * n);
}

template <class T> bool cholesky(const T* a, T* l, int n) {
    if (!all_finite(a, Index(n) * n)) return false;
    if (is_hermitian(a, n))
        std::memcpy(static_cast<void*>(l), a, sizeof(T) * n * n);
    else if (!hermitian_part(a, l, n, std::pow(eps<T>, Real<T>(SYMMETRIC))))
        return false;
    Real<T> most = 0;  // of a definite matrix the largest entry is on the diagonal
    for (int r = 0; r < n; r++) most = std::max(most, size_of(l[Index(r) * (n + 1)]));
    // of smaller numbers the reciprocals of pivots may overflow
    if (!(most >= std::numeric_limits<Real<T>>::min() / eps<T>)) return false;
    const bool is_definite = Kernels<T>::cholesky_by_rows(n, l);
    clear_above(l, n);
    return is_definite && all_finite(l, Index(n) * n);
}

template <class T> bool lu(const T* a, T* packed, int32_t* exchanges, int32_t* order, int m, int n) {
    const Index size = Index(m) * n;
    Real<T> most = 0;
    for (Index j = 0; j < size; j++) most = std::max(most, size_of(a[j]));
    if (!(most >= std::numeric_limits<Real<T>>::min() / eps<T>) || !all_finite(a, size)) return false;
    std::vector<T> columns(size);
    transpose_rows(a, columns.data(), m, n);
    int info = 0;
    Lapack<T>::getrf(&m, &n, columns.data(), &m, exchanges, &info);
    if (info < 0) return false;
    transpose_columns(columns.data(), packed, m, n);
    for (int i = 0; i < m; i++) order[i] = i;
    for (int i = 0; i < std::min(m, n); i++) std::swap(order[i], order[--exchanges[i]]);
    return all_finite(packed, size);
}

template <class T> bool cholesky_pullback(const T* l, const T* l_bar, T* a_bar, int n) {
    if (!(Triangle<T>{l, n, true, false}.is_regular()) || !all_finite(l_bar, Index(n) * n)) return false;
    T* w = a_bar;
    std::copy(l_bar, l_bar + Index(n) * n, w);
    clear_above(w, n);
    char right = 'R', upper = 'U', adjoint = 'C', none = 'N';
    T unity = T(1), *s = const_cast<T*>(l);
    Lapack<T>::trmm(&right, &upper, &adjoint, &none, &n, &n, &unity, s, &n, w, &n);  // L^H W
    // H, the Hermitian part of tril(L^H W) with half of its diagonal
    set_pairs(w, n, [](T& below, T& above) {
        const bool is_diagonal = &below == &above;
        below = is_diagonal ? (below + conj_of(below)) / Real<T>(4) : below / Real<T>(2);
        if (!is_diagonal) above = conj_of(below);
    });
    Kernels<T>::triangular('R', 'U', 'C', 'N', n, n, l, n, w, n);  // L^-H W
    Kernels<T>::triangular('L', 'U', 'N', 'N', n, n, l, n, w, n);  // W L^-1
    return all_finite(w, Index(n) * n);
}

#define FOR(T)                                           \
    template struct Triangle<T>;                         \
    template bool cholesky<T>(const T*, T*, int);        \
    template bool lu<T>(const T*, T*, int32_t*, int32_t*, int, int); \
    template bool cholesky_pullback<T>(const T*, const T*, T*, int);
EACH_NUMBER(FOR)
