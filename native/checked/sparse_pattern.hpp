// A pattern with the analysis of its LU factorization.
#pragma once
#include "entry_pattern.hpp"
#include "kernels/lu_analysis.hpp"

struct SparsePattern : EntryPattern {
    SparsePattern(Compressed columns, std::vector<Index> slot, std::vector<Row> rows, std::vector<Row> cols)
        : EntryPattern(std::move(slot), std::move(rows), std::move(cols)), lu(std::move(columns)) { find_diagonal(); }
    // The pattern of entries in range. Neither constructor sets the probe.
    SparsePattern(Row n, const Row* i, const Row* j, Index count) : EntryPattern({}, {i, i + count}, {j, j + count}), lu(compressed(n, i, j, count, slot)) { find_diagonal(); }
    const Compressed& columns() const override { return lu.columns; }
    size_t nbytes() const override { return EntryPattern::nbytes() + lu.nbytes(); }

    LuAnalysis lu;
};
