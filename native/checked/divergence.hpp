// The Kullback-Leibler divergence of two normal distributions, of their lower Cholesky factors row by row, and its cotangents.
#pragma once
#include "kernels/scalar.hpp"

// Both return true if the answer is accepted; otherwise what they wrote is not an answer.

// d = s (|X|_F^2 - n - 2 log |det X|) and X = L2^-1 L1, s = 1 of complex numbers, 1/2 of real ones
template <class T> bool divergence(const T* l1, const T* l2, Real<T>* d, T* x, int n);
// l1_bar = 2 s d_bar (tril(L2^-H X) - diag(L1)^-H) and l2_bar = 2 s d_bar (diag(L2)^-H - tril(tril(L2^-H X) X^H))
template <class T> bool divergence_pullback(const T* l1, const T* l2, const T* x, Real<T> d_bar, T* l1_bar, T* l2_bar, int n);
