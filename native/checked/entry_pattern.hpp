// The pattern of the entries that users give, in any order, some positions more than once.
#pragma once
#include <memory>

#include "directions.hpp"
#include "kernels/compressed.hpp"

struct EntryPattern {
    virtual ~EntryPattern() = default;
    virtual const Compressed& columns() const = 0;  // each position once: the slots
    virtual bool is_hermitian() const { return false; }
    virtual size_t nbytes() const { return slot.size() * sizeof(Index) + (rows.size() + cols.size()) * sizeof(Row); }

    std::vector<Index> slot;      // of each entry; none where they are the slots, in their order
    std::vector<Row> rows, cols;  // of each entry
    std::vector<Index> mirror;    // the slot (j, i) of each slot (i, j), where it is symmetric
    std::vector<Index> diagonal;  // its slots, none where it has gaps
    std::shared_ptr<const Direction> probe;

  protected:
    EntryPattern(std::vector<Index> slot, std::vector<Row> rows, std::vector<Row> cols) : slot(std::move(slot)), rows(std::move(rows)), cols(std::move(cols)) {}
    void find_diagonal();
};

// Compress entries in range, and find the slot of each; `slot` is empty where the entries are the slots in order.
Compressed compressed(Row n, const Row* rows, const Row* cols, Index count, std::vector<Index>& slot);
