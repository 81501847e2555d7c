// An order of elimination for large graphs: halves first, and then what separates them.
#pragma once
#include "compressed.hpp"
#include "team.hpp"

// Order a symmetric graph: each edge in both of its columns, no loops, nothing twice. A half has at most the share `most` of all
// vertices. The order does not depend on the number of threads; it is empty if the work was called off.
std::vector<Row> nested_dissection(const Compressed& graph, double most, Team& team);

// The same, or that of minimum degree where L has fewer entries.
std::vector<Row> fill_reducing(const Compressed& graph, double most, Team& team);
