// An order of elimination in which factors stay sparse: approximate minimum degree.
#pragma once
#include "compressed.hpp"

struct Ordering {
    std::vector<Row> order;       // the vertices, as they are eliminated
    double entries = 0;           // of L and U together, at most, without exchanges
    double operations = 0;        // that find them
};

// Of a symmetric graph: each edge in both of its columns, no loops, nothing twice.
Ordering amd(const Compressed& graph);
