// Nested dissection, an order of elimination for large graphs: both halves first, then their separator.
#pragma once
#include "compressed.hpp"
#include "team.hpp"

// Order a symmetric graph, each edge in both of its columns, no loops, nothing twice: by nested dissection or minimum degree, whichever
// has fewer entries in L. A half has at most the share `most` of all vertices. The order does not depend on the number of threads; it
// is empty if the team was stopped.
std::vector<Row> fill_reducing(const Compressed& graph, double most, Team& team);
