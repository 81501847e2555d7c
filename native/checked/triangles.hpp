// Dense triangles T, row by row, of which the other triangle is not read, and the Cholesky factor.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/scalar.hpp"

template <class T> struct Triangle {
    const T* t;
    int n;
    bool lower, unit;  // unit: the diagonal is ones, and is not read

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    bool is_regular() const;  // finite, without a zero on the diagonal
    bool solve(const T* b, T* x, int k, char op) const;  // op(T) x = b
    // lam = op(T)^-H x_bar, and unless it is null t_bar, the triangle of -lam x^H, or of its transpose
    bool pullback(const T* x_bar, const T* x, T* lam, T* t_bar, int k, char op) const;
};

template <class T> void clear_above(T* x, int n) {
    for (int r = 0; r < n; r++) std::fill(x + Index(r) * n + r + 1, x + Index(r + 1) * n, T(0));
}

// A = L L^H of the Hermitian part of A, zeros above the diagonal of L.
template <class T> bool cholesky(const T* a, T* l, int n);
// A[order] = L U of A (m, n), packed row by row; rows i and exchanges[i] swap in turn, counted from 0.
template <class T> bool lu(const T* a, T* packed, int32_t* exchanges, int32_t* order, int m, int n);
// a_bar = L^-H H L^-1, H the Hermitian part of tril(L^H L_bar) with half of its diagonal.
template <class T> bool cholesky_pullback(const T* l, const T* l_bar, T* a_bar, int n);
