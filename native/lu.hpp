// L, U and what is above the blocks of one matrix M on an analysed pattern: P M Q = L U + F, block by block.
#pragma once
#include <memory>

#include "lu_analysis.hpp"

// Which rows are pivots, and where L and U have entries: of one matrix, and good enough for many with its pattern.
struct Pivots {
    std::vector<Row> place;                // in the arrangement, of the row of each pivot
    std::vector<Index> l_start, u_start;   // of each column
    std::vector<Row> l_row, u_row;         // by the numbers of their pivots; those of U in the order in which they are eliminated
    std::vector<Row> inside_row, above_row;  // of the entries of the analysis
    double error = 0;                      // the backward error of the factor whose own pivots these are
    std::vector<int> powers;               // of the rows, then of the columns of its M = R A C; none where that is A

    size_t nbytes() const;
    int sign() const;
};

template <class T> struct Lu {
    using R = Real<T>;

    // With pivots of its own, on the diagonal unless `threshold` times the largest of the column is larger; all say whether
    // they accept: there is a pivot in each column.
    bool factor(const LuAnalysis& analysis, const T* m, R threshold);
    // By given pivots.
    bool refactor(const LuAnalysis& analysis, const T* m, std::shared_ptr<const Pivots> pivots);

    // y <- op(P M Q)^-1 y for `width` right-hand sides beside each other, rows in the places of the arrangement, both before
    // and after; `room` has as many numbers as y.
    template <int width> void solve(const LuAnalysis& analysis, T* y, T* room, char op) const;

    size_t nbytes() const { return (l.size() + u.size() + f.size() + d.size()) * sizeof(T); }

    std::shared_ptr<const Pivots> pivots;
    std::vector<T> l, u, d, f;  // L without its diagonal of ones, U without its diagonal d
};
