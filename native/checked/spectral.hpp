// Checks of orthonormal vectors, and code that eigenvalues and singular values share.
#pragma once
#include <vector>

#include "directions.hpp"
#include "kernels/blas.hpp"
#include "limits.hpp"

template <class T> struct SpectralWork {
    Buffer<T> a, b, work;
    std::vector<T> vectors;
    std::vector<Real<T>> reals;
    std::vector<int> integers;
};

template <class R> R most_of(const R* x, int n) { return norms(x, n).most; }

// sum_i |x_i|^2 and sum_i |x_i - y_i|^2, in double precision.
template <class T> double squares_of(const T* x, Index count) {
    double sum = 0;
    for (Index i = 0; i < count; i++) sum += double(std::norm(x[i]));
    return sum;
}
template <class T> double squares_between(const T* x, const T* y, Index count) {
    double sum = 0;
    for (Index i = 0; i < count; i++) sum += double(std::norm(x[i] - y[i]));
    return sum;
}

// h = diag(values); h may be null.
template <class V, class T> void set_diagonal(const V* values, T* h, int n) {
    if (!h) return;
    std::fill(h, h + Index(n) * n, T(0));
    for (int j = 0; j < n; j++) h[Index(j) * (n + 1)] = values[j];
}

// Derivatives of A are those of t^2 A, whose numbers are near 1: its values and their error bounds, h = diag(values), and t; each may be null.
template <class T, class V = Real<T>> struct InUnits {
    V* values = nullptr;
    Real<T>* bound = nullptr;
    T* h = nullptr;
    Real<T>* t = nullptr;

    // Whether derivatives, which know h, have the numbers that they divide by: those of t^2 A, or of A itself, of a size near 2^e.
    bool serves(const T* own_h, int e) const { return t || !own_h || is_middle(std::ldexp(Real<T>(1), e)); }

    // Take those of 2^-e A, which become those of A; `own_bound` and `own_h` may be null.
    void take(V* own, Real<T>* own_bound, T* own_h, int n, int e) const {
        if (t) *t = std::ldexp(Real<T>(1), -e / 2);
        if (values) std::copy(own, own + n, values);
        if (bound && own_bound) std::copy(own_bound, own_bound + n, bound);
        set_diagonal(own, h, n);
        times_power(own, n, e);
        if (own_bound) times_power(own_bound, n, e);
        set_diagonal(own, own_h, n);
    }
};

// A 2^-e by columns, whose numbers are near 1; false where A is not finite.
template <class T, class U> bool take_columns(const T* a, U* own, int m, int n, int& e) {
    const Index size = Index(m) * n;
    transpose_rows(a, own, m, n);
    e = power_of(own, size, MODERATE);
    times_power(own, size, -e);
    return all_finite(own, size);
}

// The lengths of the columns of X (rows, n), row by row.
template <class T> void lengths(const T* x, Real<T>* found, int rows, int n) {
    std::fill(found, found + n, Real<T>(0));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) found[j] += std::norm(x[Index(i) * n + j]);
    for (int j = 0; j < n; j++) found[j] = std::sqrt(found[j]);
}

// y = X w of X (rows, columns), row by row, or X^T w.
template <class T> void map(const T* x, int rows, int columns, bool transposed, const T* w, T* y) {
    constexpr Index FEW = 256;  // numbers below which the overhead of a call of BLAS dominates
    // BLAS reads rows as columns
    if (Index(rows) * columns > FEW) return Kernels<T>::apply(transposed ? 'N' : 'T', columns, rows, T(1), x, columns, w, T(0), y);
    std::fill(y, y + (transposed ? columns : rows), T(0));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) transposed ? y[j] += times(x[i * columns + j], w[i]) : y[i] += times(x[i * columns + j], w[j]);
}

// Is |X^H X w - w| small for one random w, or |X X^H w - w| where X has more columns than rows?
template <class T> bool is_isometry(const T* x, int rows, int columns, const Direction& probe, std::vector<T>& room) {
    const int n = std::min(rows, columns), most = std::max(rows, columns);
    room.resize(2 * Index(n) + most);
    T *w = room.data(), *again = w + n, *y = again + n;
    probe.write(w, n);
    const bool wide = rows < columns;
    map(x, rows, columns, wide, w, y);
    for (int j = 0; j < most; j++) y[j] = conj_of(y[j]);
    map(x, rows, columns, !wide, y, again);  // conj(w), which is w
    return squares_between(again, w, n) <= ENOUGH * ENOUGH * eps<T> * eps<T> * squares_of(probe.z.data(), n);
}
