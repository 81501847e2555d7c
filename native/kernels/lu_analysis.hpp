// The analysis of a sparse LU, from the pattern alone: P A Q in block upper triangular form, each block in an order of its own.
#pragma once
#include "compressed.hpp"

struct LuAnalysis {
    explicit LuAnalysis(Compressed columns);  // each position once

    Row n;
    Compressed columns;                      // of A
    bool is_singular;                   // is every matrix with this pattern singular?
    std::vector<Row> row_at, column_at;  // the row and the column of A in each place
    std::vector<Row> block_start;        // of each block, and n
    // the entries of each column of P A Q, on its block and above: their rows' places, and their slots in A
    Compressed inside, above;
    std::vector<Index> inside_slot, above_slot;
    double entries, operations;  // of L and U, at most, while pivots stay on the diagonal

    size_t nbytes() const;
    int sign() const;  // det P det Q

  private:
    void arrange(const std::vector<Row>& row_of);
    void split();
};

// The sign of a permutation.
int sign_of(const std::vector<Row>& order);
