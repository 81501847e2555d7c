// Graphs of sparse patterns: symmetric, without loops, each edge once in each of its columns.
#pragma once
#include "compressed.hpp"

// The edges (i, j), i != j, of B + B^T inside of the blocks B, where matched rows and columns are one vertex.
Compressed symmetric_blocks(const Compressed& a, const std::vector<Row>& column_of, const std::vector<Row>& block);
