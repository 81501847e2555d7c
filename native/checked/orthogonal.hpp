// A = Q R of A (m, n), m >= n, LAPACK's under our checks, and least squares by it.
#pragma once
#include "spectral.hpp"

// Each returns true if its answer is accepted; otherwise what it wrote is not an answer. Matrices row by row.
//
// Q^H Q = I, R upper triangular with a real diagonal, of LAPACK's signs.
template <class T> bool qr(const T* a, T* q, T* r, int m, int n, const Direction& probe, SpectralWork<T>& work);
// A_bar = (Q_bar + Q N) R^-H,  W = R_bar R^H - Q^H Q_bar,  N = triu(W, 1) + triu(W, 1)^H + Re diag(W); Q_bar or R_bar may be null.
template <class T> bool qr_pullback(const T* q, const T* r, const T* q_bar, const T* r_bar, T* a_bar, int m, int n, const Direction& probe, SpectralWork<T>& work);

// R + A X = B, A^H R = C for A = Q T of full column rank (ldiv.rules.full_rank), of k columns; B or C may be null, which is zero.
template <class T> struct Augmented {
    T *q, *t;
    int m, n, k;

    bool factor(const T* a, const Direction& probe, SpectralWork<T>& work);
    // R = B - Q y,  X = T^-1 y,  y = Q^H B - T^-H C; declined where the numbers of T are not near 1, for derivatives divide by them
    bool solve(const T* b, const T* c, T* r, T* x, SpectralWork<T>& work) const;
    // B_bar, C_bar from R_bar and X_bar by the same system; A_bar = -B_bar X^H - R C_bar^H, which may be null
    bool pullback(const T* r, const T* x, const T* r_bar, const T* x_bar, T* b_bar, T* c_bar, T* a_bar, SpectralWork<T>& work) const;
};
