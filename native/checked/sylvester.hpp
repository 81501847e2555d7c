// A X + X B = Q by the Schur forms of A and B, LAPACK's under our checks, and its cotangents.
#pragma once
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/scalar.hpp"

template <class T> struct SylvesterWork {
    Buffer<T> given, own, room;
    std::vector<Real<T>> reals;
};

// A^T = U S U^H (m, m) and B^T = V T V^H (n, n), by columns.
template <class T> struct SchurForms {
    T *s, *u, *t, *v;
    int m, n;

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer. A, B, Q and X row by row.
    bool solve(const T* a, const T* b, const T* q, T* x, SylvesterWork<T>& work) const;
    // q_bar = L of A^H L + L B^H = x_bar,  a_bar = -L X^H,  b_bar = -X^H L; the last two may be null.
    bool pullback(const T* x, const T* x_bar, T* a_bar, T* b_bar, T* q_bar, SylvesterWork<T>& work) const;

  private:
    // the same of numbers near 1; `norm` bounds |A|_2 + |B|_2
    bool factor_in_units(const T* a, const T* b, Real<T> norm, SylvesterWork<T>& work) const;
    bool solve_in_units(const T* a, const T* b, const T* q, T* x, Real<T> norm, SylvesterWork<T>& work) const;
    // Z of op(T) Z + Z op(S) = F (n, m) by columns, in the place of F
    bool triangular(char op, T* f) const;
};
