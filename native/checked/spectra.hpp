// A = X diag(lam) X^H of Hermitian A, A = U diag(s) V^H and A V = V diag(lam), LAPACK's under our checks, and their cotangents.
#pragma once
#include "factored.hpp"
#include "spectral.hpp"

// Each returns true if its answer is accepted; otherwise what it wrote is not an answer. Matrices row by row.
//
// lam ascends; bound_i = |A x_i - lam_i x_i| |x_i| + eps max |lam|; h = diag(lam); both may be null. A differs from A^H by rounding.
template <class T>
bool eigh(const T* a, Real<T>* lam, T* x, Real<T>* bound, T* h, InUnits<T> inside, int n, const Direction& probe, SpectralWork<T>& work);
// lam alone, whose sum is the trace and whose sum of squares is |A|_F^2.
template <class T> bool eigvalsh(const T* a, Real<T>* lam, int n, SpectralWork<T>& work);
// A_bar = X T X^H,  T_ij = K_ij / (lam_j - lam_i),  T_ii = lam_bar_i,  K the skew part of X^H X_bar; lam_bar or X_bar may be null.
// lam and its error bounds are those of t^2 A. Declined: what the rule (ldiv.rules.inverse_gaps) refuses or warns of, and vectors of a cluster.
template <class T>
bool eigh_pullback(const Real<T>* lam, const T* x, const Real<T>* bound, Real<T> t, const Real<T>* lam_bar, const T* x_bar, T* a_bar, int n, SpectralWork<T>& work);

// A = U diag(s) V^H of A (m, n), k = min(m, n), U (m, k), V^H (k, n); s descends; h = diag(s), or null.
template <class T>
bool svd(const T* a, T* u, Real<T>* s, T* vh, T* h, InUnits<T> inside, int m, int n, const Direction& probe, SpectralWork<T>& work);
// s alone, whose sum of squares is |A|_F^2.
template <class T> bool svdvals(const T* a, Real<T>* s, int m, int n, SpectralWork<T>& work);
// The cotangent of svd, of which s is that of t^2 A; those of s, or of U and V^H may be null.
template <class T> struct Triplets {
    const T *u, *vh;
    const Real<T>* s;
};
template <class T> bool svd_pullback(Triplets<T> found, Real<T> t, Triplets<T> bars, T* a_bar, int m, int n, SpectralWork<T>& work);

// A V = V diag(lam) of any square A, |v_j| = 1, found in double precision; h = diag(lam), or null.
template <class T> struct GeneralWork : SpectralWork<Wide<T>> {
    std::vector<std::complex<double>> lam;
};
template <class T>
bool eig(const T* a, Complex<T>* lam, Complex<T>* v, Complex<T>* h, InUnits<Complex<T>, Complex<T>> inside, int n, const Direction& probe, GeneralWork<T>& work);
// lam alone, with the traces of A and A^2.
template <class T> bool eigvals(const T* a, Complex<T>* lam, int n, GeneralWork<T>& work);
template <class T> struct EigenvalueWork {
    Buffer<T> room;
    typename Factored<T>::Work factor;
    typename Factored<T>::Units units;
    std::vector<Real<T>> errors;
    std::vector<int> pivots, order;
};
// A_bar = V^-H diag(lam_bar) V^H, or its real part, of lam of t^2 A. Declined: what the rules (ldiv.rules.eig, inverse_gaps) refuse.
template <class T>
bool eigvals_pullback(const T* a, const Complex<T>* lam, const Complex<T>* v, Real<T> t, const Complex<T>* lam_bar, T* a_bar, int n, const Direction& probe, EigenvalueWork<T>& work);
