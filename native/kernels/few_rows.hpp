// P M^T = L U and M = L L^H of matrices with few rows, where the overhead of a call of LAPACK dominates.
//
// A number of rows is an int, or a Fixed one, for which the compiler unrolls the same loops. Layouts are LAPACK's: M row by row is M^T
// by columns, and f has L and U of P M^T by columns, or L of M row by row.
#pragma once
#include <type_traits>
#include <utility>

#include "scalar.hpp"

template <int N> using Fixed = std::integral_constant<int, N>;
template <class N> constexpr bool is_fixed = !std::is_same_v<N, int>;

// f(Fixed<n>()) for small n, a compile-time constant for which loops are unrolled; else f(n).
template <class F> inline auto with_fixed_size(int n, F f) {
    switch (n) {
        case 1: return f(Fixed<1>());
        case 2: return f(Fixed<2>());
        case 3: return f(Fixed<3>());
        case 4: return f(Fixed<4>());
        case 5: return f(Fixed<5>());
        case 6: return f(Fixed<6>());
        case 7: return f(Fixed<7>());
        case 8: return f(Fixed<8>());
        default: return f(n);
    }
}

template <class R> R inverse_of(R x) { return 1 / x; }
// 1 / z in units of |z|: no square leaves the range.
template <class R> std::complex<R> inverse_of(std::complex<R> z) {
    const R size = weight(z), re = z.real() / size, im = z.imag() / size, squares = (re * re + im * im) * size;
    return {re / squares, -im / squares};
}

// P M^T = L U in the place of M^T, with exchanges counted from 1; false if a pivot is zero.
template <class N, class T> bool few_lu(N n, T* f, int* exchanges) {
    for (int j = 0; j < n; j++) {
        T* column = f + j * n;
        int at = j;
        Real<T> most = weight(column[j]);
        for (int i = j + 1; i < n; i++)
            if (weight(column[i]) > most) most = weight(column[at = i]);
        exchanges[j] = at + 1;
        if (!(most > 0)) return false;
        if (at != j)
            for (int c = 0; c < n; c++) std::swap(f[j + c * n], f[at + c * n]);
        const T inverse = inverse_of(column[j]);
        for (int i = j + 1; i < n; i++) column[i] = times(column[i], inverse);
        for (int c = j + 1; c < n; c++)  // f_ic <- f_ic - l_ij u_jc
            for (int i = j + 1; i < n; i++) f[i + c * n] -= times(column[i], f[j + c * n]);
    }
    return true;
}

// L of M = L L^H in the lower triangle of the rows of M; false if it is not positive definite.
template <class N, class T> bool few_cholesky(N n, T* f) {
    using R = Real<T>;
    for (int i = 0; i < n; i++) {
        T* row = f + i * n;
        R rest = std::real(row[i]);
        for (int j = 0; j < i; j++) {
            const T* above = f + j * n;
            T sum = row[j];
            for (int c = 0; c < j; c++) sum -= times(row[c], conj_of(above[c]));
            row[j] = sum / std::real(above[j]);
            rest -= std::norm(row[j]);
        }
        if (!(rest > 0)) return false;
        row[i] = std::sqrt(rest);
    }
    return true;
}

constexpr int FEW = 16;  // rows for which loops whose length is not known are better than LAPACK
template <int K> constexpr int most_rows(Fixed<K>) { return K; }
constexpr int most_rows(int) { return FEW; }

// `width` numbers of each row of X beside each other, so that they are in lanes: x_i <- x_i - l x_j, x_i / pivot. What is divided by is
// inverted before: one division waits for no other.
template <int width, class N, class T> struct FewColumns {
    FewColumns(N n, T* x, const T* pivots) : x(x) {
        for (int i = 0; i < n; i++) inverses[i] = inverse_of(pivots[i * (n + 1)]);
    }
    void subtract(int i, T l, int j) {
        for (int c = 0; c < width; c++) x[i * width + c] -= times(l, x[j * width + c]);
    }
    void divide(int i) {
        for (int c = 0; c < width; c++) x[i * width + c] = times(x[i * width + c], inverses[i]);
    }
    T* x;
    T inverses[most_rows(N())];
};

// U^T L^T X <- X, or L U X <- X.
template <int width, class N, class T> void few_lu_solve(N n, const T* f, T* columns, bool by_rows) {
    FewColumns<width, N, T> x(n, columns, f);
    if (by_rows) {
        for (int i = 0; i < n; i++) {
            x.divide(i);
            for (int j = i + 1; j < n; j++) x.subtract(j, f[i + j * n], i);
        }
        for (int i = n - 1; i >= 0; i--)
            for (int j = 0; j < i; j++) x.subtract(j, f[i + j * n], i);
    } else {
        for (int j = 0; j < n; j++)
            for (int i = j + 1; i < n; i++) x.subtract(i, f[i + j * n], j);
        for (int j = n - 1; j >= 0; j--) {
            x.divide(j);
            for (int i = 0; i < j; i++) x.subtract(i, f[i + j * n], j);
        }
    }
}

// L L^H X <- X.
template <int width, class N, class T> void few_cholesky_solve(N n, const T* f, T* columns) {
    FewColumns<width, N, T> x(n, columns, f);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) x.subtract(i, f[i * n + j], j);
        x.divide(i);
    }
    for (int i = n - 1; i >= 0; i--) {
        x.divide(i);
        for (int j = 0; j < i; j++) x.subtract(j, conj_of(f[i * n + j]), i);
    }
}

// f<width>(X) for k columns, by blocks with their rows beside each other, which are copied: what no pointer leads to is in registers.
template <class N, class T, class F> void in_blocks(N n, T* columns, int k, F f) {
    if constexpr (is_fixed<N>) {
        constexpr int WIDTH = 4;
        auto some = [&](auto width) {
            T block[N::value * width];
            for (int c = 0; c < width; c++)
                for (int i = 0; i < n; i++) block[i * width + c] = columns[c * n + i];
            f(width, block);
            for (int c = 0; c < width; c++)
                for (int i = 0; i < n; i++) columns[c * n + i] = block[i * width + c];
            columns += n * width;
        };
        if (k == N::value) return some(Fixed<N::value>());
        for (; k >= WIDTH; k -= WIDTH) some(Fixed<WIDTH>());
        for (; k > 0; k--) some(Fixed<1>());
    } else
        for (; k > 0; k--, columns += n) f(Fixed<1>(), columns);
}

// Rows of the columns of X in the order of the pivots, or back.
template <class N, class T> void few_exchanges(N n, const int* exchanges, T* columns, int k, bool back) {
    for (T* x = columns; k > 0; k--, x += n)
        for (int i = 0; i < n; i++) {
            const int at = back ? n - 1 - i : i;
            std::swap(x[at], x[exchanges[at] - 1]);
        }
}

// r <- r - M x by rows, or r - M^T x.
template <class N, class T> void few_residual(N n, const T* m, const T* x, T* r, bool by_rows) {
    if (by_rows) {
        for (int i = 0; i < n; i++) {
            T sum = r[i];
            for (int j = 0; j < n; j++) sum -= times(m[i * n + j], x[j]);
            r[i] = sum;
        }
    } else {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) r[j] -= times(m[i * n + j], x[i]);
    }
}
