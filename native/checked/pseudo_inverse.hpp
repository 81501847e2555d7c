// X = A^+ of A (m, n) by its singular values, and its cotangent.
#pragma once
#include "spectral.hpp"

template <class T> struct PinvWork {
    SpectralWork<T> svd;
    Buffer<T> room;
    std::vector<Real<T>> s;
};

// Both return true if the answer is accepted; otherwise what they wrote is not an answer. Matrices row by row.
//
// X (n, m); singular values of at most max(atol, rtol s_1) are taken for 0, and the others counted.
template <class T> bool pinv(const T* a, Real<T> rtol, Real<T> atol, T* x, Real<T>* rank, int m, int n, const Direction& probe, PinvWork<T>& work);
// A_bar = -X^H X_bar X^H + P - A X P,  P = X_bar^H X X^H,  of full rank where m >= n; else P - P X A,  P = X^H X X_bar^H.
template <class T> bool pinv_pullback(const T* a, const T* x, Real<T> rank, const T* x_bar, T* a_bar, int m, int n, PinvWork<T>& work);
