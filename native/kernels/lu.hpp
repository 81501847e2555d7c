// L, U and what is above the blocks of one matrix M on an analysed pattern: P M Q = L U + F, block by block.
#pragma once
#include <memory>

#include "lu_analysis.hpp"
#include "pivot_product.hpp"

// The pivot rows and the patterns of L and U of one matrix, which later matrices of the same pattern reuse.
struct Pivots {
    std::vector<Row> place;                // in the arrangement, of the row of each pivot
    std::vector<Index> l_start, u_start;   // of each column
    std::vector<Row> l_row, u_row;         // by the numbers of their pivots; those of U in the order in which they are eliminated
    std::vector<Row> inside_row, above_row;  // of the entries of the analysis
    double error = 0;                      // the backward error of the factor whose own pivots these are
    std::vector<int> powers;               // of the rows, then of the columns of its M = R A C; none where that is A

    size_t nbytes() const;
};

// Pointers to L, U, D and F.
template <class T> struct LuParts {
    // y <- op(P M Q)^-1 y for `width` right-hand sides beside each other, rows in the places of the arrangement, both before
    // and after; `room` has as many numbers as y.
    template <int width> void solve(const LuAnalysis& analysis, T* y, T* room, char op) const;
    // X = op(M)^-1 B, or X += op(M)^-1 B if `add`, for `width` of the `columns` columns of B and X; `room` has 2 n width numbers.
    template <int width> void apply(const LuAnalysis& a, const T* b, T* x, Index columns, T* room, char op, bool add) const {
        const std::vector<Row>&before = op == 'N' ? a.row_at : a.column_at, &after = op == 'N' ? a.column_at : a.row_at;
        T* y = room;
        for (Row k = 0; k < a.n; k++)
            for (int c = 0; c < width; c++) y[Index(k) * width + c] = b[Index(before[k]) * columns + c];
        solve<width>(a, y, y + Index(a.n) * width, op);
        for (Row k = 0; k < a.n; k++)
            for (int c = 0; c < width; c++) {
                T& to = x[Index(after[k]) * columns + c];
                to = (add ? to : T(0)) + y[Index(k) * width + c];
            }
    }
    // det M = det P det Q d_1 .. d_n
    PivotProduct<Wide<T>> det(const LuAnalysis& a) const {
        PivotProduct<Wide<T>> product;
        product.take(double(a.sign() * sign_of({place, place + a.n})));
        for (Row k = 0; k < a.n; k++) product.take(Wide<T>(d[k]));
        return product;
    }

    const Row* place;
    const Index *l_start, *u_start;
    const Row *l_row, *u_row, *above_row;
    const T *l, *u, *d, *inv_d, *f;  // inv_d = 1 / d: a division has a longer latency than a product
};

// F in the slots of M.
template <class T> void take_above(const LuAnalysis& a, const T* m, std::vector<T>& f) {
    f.resize(a.above_slot.size());
    for (size_t e = 0; e < f.size(); e++) f[e] = m[a.above_slot[e]];
}

template <class T> struct Lu {
    using R = Real<T>;

    // Factor with new pivots, on the diagonal unless `threshold` times the largest entry of the column is larger. Both functions say whether
    // they accept: each column has a pivot.
    bool factor(const LuAnalysis& analysis, const T* m, R threshold);
    // Factor by given pivots; declined if one is smaller than `least` times the largest entry of its column.
    bool refactor(const LuAnalysis& analysis, const T* m, std::shared_ptr<const Pivots> pivots, R least);

    LuParts<T> parts() const {
        const Pivots& p = *pivots;
        return {p.place.data(), p.l_start.data(), p.u_start.data(), p.l_row.data(), p.u_row.data(), p.above_row.data(), l.data(), u.data(), d.data(), inv_d.data(), f.data()};
    }
    void invert(const T* pivots_of, Row n) {
        inv_d.resize(n);
        for (Row k = 0; k < n; k++) inv_d[k] = T(1) / pivots_of[k];
    }

    size_t nbytes() const { return (l.size() + u.size() + f.size() + d.size() + inv_d.size()) * sizeof(T); }

    std::shared_ptr<const Pivots> pivots;
    std::vector<T> l, u, d, inv_d, f;  // L without its diagonal of ones, U without its diagonal d
};
