// The pattern of the entries that users give, in any order, some positions more than once.
#pragma once
#include <memory>

#include "directions.hpp"
#include "lu_analysis.hpp"

struct SparsePattern {
    SparsePattern(Compressed columns, std::vector<Index> slot, std::vector<Row> rows, std::vector<Row> cols)
        : slot(std::move(slot)), lu(std::move(columns)), rows(std::move(rows)), cols(std::move(cols)) {}
    // Of entries in range; without a probe.
    SparsePattern(Row n, const Row* rows, const Row* cols, Index count);
    size_t nbytes() const { return lu.nbytes() + slot.size() * sizeof(Index) + (rows.size() + cols.size()) * sizeof(Row); }

    std::vector<Index> slot;      // of each entry; none where they are the slots, in their order
    LuAnalysis lu;
    std::vector<Row> rows, cols;  // of each entry
    std::vector<Index> diagonal;  // its slots, none where it has gaps
    std::shared_ptr<const Direction> probe;
};
