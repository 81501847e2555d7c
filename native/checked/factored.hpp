// A dense matrix M with a checked factor in memory of the caller, and checked solves.
#pragma once
#include <vector>

#include "directions.hpp"
#include "kernels/buffer.hpp"
#include "kernels/scalar.hpp"

enum class Kind { lu, cholesky };

// P M^T = L U, as LAPACK reads rows as columns, or M = L L^H, of
//     M = A, or M = R A C where the units of A are not alike: powers of two, 2 n of them.
template <class T> struct Factored {
    using R = Real<T>;
    struct Units {  // storage for M if it is not A itself
        Buffer<T> m;
        std::vector<R> scales;
    };
    struct Work {
        Units units;
        std::vector<T> x, r;
        Buffer<T> m, inverse;
        std::vector<int> powers, columns;
        std::vector<char> settled;
        std::vector<R> largest, sums;
        std::vector<Norms<R>> given;  // of right-hand sides
    };

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    //
    // Makes the factor of A: of `a`, row by row, or of its Hermitian part, from which it differs by rounding.
    bool factor(const T* a, bool hermitian, Units& units, const Direction& probe, Work& work);
    // Restore M of an existing factor with these scales.
    bool restore(const T* a, bool hermitian, Units& units);
    // op(A) x = b, column by column; b is overwritten by its scaled form. Growth along b is checked, too
    bool solve(T* b, T* x, int k, char op, Work& work) const;
    bool slogdet(T* sign, R* size, const Direction& probe, Work& work) const;
    // det A, and det(A) A^-1 row by row, if their dtype can hold them
    bool det(T* d, const Direction& probe, Work& work) const;
    bool adjugate(T* x, const Direction& probe, Work& work) const;
    // A^-1, row by row; by_rows: each row is solved for and checked by itself if growth is large
    bool inverse(T* x, const Direction& probe, bool by_rows, Work& work) const;

    Kind kind;
    int n;
    T* f;
    int* pivots;
    const T* m = nullptr;
    const R* scales = nullptr;
    R by_rows = 0, by_columns = 0;  // the largest sums of |m_ij|
    std::vector<T> probe_solution;          // M^-1 z of the probe z, unless rows are few
    bool needs_row_errors = false;             // growth is so large that the residual is checked row by row

    // M <- a, or its Hermitian part; false if they differ by more than rounding.
    bool use_hermitian_part(const T* a, bool hermitian, Units& units);

  private:
    // N: the number of rows, an int or a compile-time constant
    template <class N> bool check_and_scale(N n, Units& units, Work& work);
    template <class N> bool decompose(N n);
    template <class N> bool factor(N n, const Direction& probe, Work& work);
    template <class N> bool solve(N n, T* b, T* x, int k, char op, Work& work) const;
    template <class N> void apply_inverse(N n, T* b, int k, char op) const;
    template <class N> void residual(N n, const T* b, const T* x, T* r, int k, char op) const;
    template <class N> bool is_accurate(N n, const Direction& probe, Work& work) const;
    template <class N> R probe_error(N n, const T* y, const Direction& probe, Work& work) const;
    template <class N> bool invert(N n, T* x, Work& work) const;
    template <class N> bool is_small(N n, const T* r, const T* x, R most_x, const T* b, R most_b, char op, Work& work, bool settled = false) const;

    bool scale(Units& units, Work& work);
    bool refine(const T* b, T* x, int left, char op, const R* units, Work& work) const;
    R row_error(const T* r, const T* x, const T* b, char op, Work& work) const;
    bool determinant(T& m, Index& e, const Direction& probe, Work& work) const;
};
