// One matrix M and its factor that passed every check, in memory of others, and solves that do.
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
    struct Units {  // what M needs where it is not A
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

    // All of these say whether they accept; what they wrote where they do not is no answer.
    //
    // Makes the factor of A: of `a`, row by row, or of its Hermitian part, from which it differs by rounding.
    bool factor(const T* a, bool hermitian, Units& units, const Direction& probe, Work& work);
    // M again, of a factor that was made before, with these scales.
    bool restore(const T* a, bool hermitian, Units& units);
    // op(A) x = b, column after column; b changes its units. first: b is looked at as a direction, too
    bool solve(T* b, T* x, int k, char op, bool first, Work& work) const;
    bool slogdet(T* sign, R* size, const Direction& probe, Work& work) const;
    // det A, and det(A) A^-1 row by row, if their dtype can hold them
    bool det(T* d, const Direction& probe, Work& work) const;
    bool adjugate(T* x, const Direction& probe, Work& work) const;
    // A^-1, row by row; by_rows: each of its rows is looked at where much grows
    bool inverse(T* x, const Direction& probe, bool by_rows, Work& work) const;

    Kind kind;
    int n;
    T* f;
    int* pivots;
    const T* m = nullptr;
    const R* scales = nullptr;
    R by_rows = 0, by_columns = 0;  // the largest sums of |m_ij|
    std::vector<T> probed;          // M^-1 z of the probe z, unless rows are few
    bool lossy = false;             // does so much grow that each row of a residual is looked at by itself?

    // M <- a, or its Hermitian part; false if they differ by more than rounding.
    bool is_part(const T* a, bool hermitian, Units& units);

  private:
    // by a number of rows that may be known when it is compiled
    template <class N> bool look(N n, Units& units, Work& work);
    template <class N> bool decompose(N n);
    template <class N> bool factor(N n, const Direction& probe, Work& work);
    template <class N> bool solve(N n, T* b, T* x, int k, char op, bool first, Work& work) const;
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
