// An order of elimination in which factors stay sparse: approximate minimum degree.
#pragma once
#include "compressed.hpp"

struct Ordering {
    std::vector<Row> order;       // the vertices, as they are eliminated
    double entries = 0;           // of L and U together, at most, without exchanges
    double operations = 0;        // multiplications that compute them
};

// A vertex with more neighbors than this in a graph of n vertices is dense, and is ordered last.
inline double dense_row_limit(Index n) { return std::max(16.0, 10 * std::sqrt(double(n))); }

// Order a symmetric graph: each edge in both of its columns, no loops, nothing twice. A vertex may stand for several, `size` of them.
// The vertices from `own` on are a halo: they count as neighbors, are not ordered, and need no edges between them.
Ordering amd(const Compressed& graph, Row own, const std::vector<Row>& size);
Ordering amd(const Compressed& graph);
