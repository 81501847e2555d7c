// Block triangular form: rows and columns in an order in which blocks lie on the diagonal, and nothing below them.
#pragma once
#include "compressed.hpp"

// A maximum matching: the row of each column, its diagonal where possible; -1 for an unmatched column.
std::vector<Row> matching(const Compressed& columns);

// The number of the block of each column, where row row_of[j] and column j are one vertex of a directed graph: its strong
// components, in an order in which no entry is below its block.
std::vector<Row> strong_blocks(const Compressed& columns, const std::vector<Row>& row_of, Row* count);
