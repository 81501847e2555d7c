// min x^T P x / 2 + q^T x with A x = b, G x <= h, lb <= x <= ub, of real numbers: the optimality system K z = r of given active rows, and
// whether its solution z = (x, y, w) is that of the program. What K and r are, ldiv.engines.programs.optimality says.
#pragma once
#include <vector>

#include "kernels/active_set.hpp"
#include "kernels/scalar.hpp"

// Rows are those of C = [A; G], of ub and of lb. A, b or G, h may be null, and both bounds.
template <class T> struct Program {
    const T *p, *q, *a, *b, *g, *h, *lb, *ub;
    int n, k, m, w;

    struct Work {
        std::vector<T> matrix, of_x, around;
        ActiveSet rows;
    };

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    //
    // K and r of the rows that are guessed, for finite numbers whose units are alike, and a symmetric, convex P; bounds that meet are active by half.
    // Without a guess P must be definite: a dual method finds the rows, and writes its steps.
    bool system(const T* guess, T* kkt, T* r, T* active, T* steps, Work& work) const;
    // Is z + dz, where dz is what a solve left, the solution, and differentiable? Then z is it.
    bool is_solution(const T* active, T* z, const T* dz, Work& work) const;
    // The cotangents of all data from lam = K^-1 z_bar: K_bar = -lam z^T, r_bar = lam. Each may be null.
    struct Cotangents {
        T *p, *q, *a, *b, *g, *h, *lb, *ub;
    };
    bool pullback(const T* active, const T* z, const T* lam, const Cotangents& bar) const;

  private:
    // Both of the symmetric part of P in work.matrix.
    bool is_convex(Work& work) const;
    bool find_rows(T* active, T* steps, Work& work) const;
    int rows() const { return k + m; }
    const T* row(int i) const { return i < k ? a + Index(i) * n : g + Index(i - k) * n; }
    T side(int i) const { return i < k ? b[i] : h[i - k]; }
    T curvature(int i, int j) const { return (p[Index(i) * n + j] + p[Index(j) * n + i]) / 2; }
    // the bound at which unknown i is: the sum of both halves where they meet
    T at_bound(const T* active, int i) const { return active[rows() + i] + active[rows() + w + i]; }
    T most_of_q() const;
    // the size of x that the active rows imply, or q over P
    T unit_of_x(const T* active) const;
};
