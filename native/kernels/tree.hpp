// The elimination tree of a symmetric pattern: parent(j) = min { i > j : L_ij != 0 }; postorders; count(j) = entries of column j of L.
#pragma once
#include <vector>

#include "compressed.hpp"

using Indices = std::vector<Index>;

// The inverse permutation: the position of each column in an order. std::invalid_argument if `order` is not a permutation.
Indices inverse(const Indices& order);

// The parents of the columns of A[order][:, order], -1 for a root; of a symmetric pattern, both triangles, as all below.
Indices elimination_tree(const Compressed& a, const Indices& order, const Indices& place);

// The first child of each node of a forest and its next sibling, which ascend; -1 where there is none.
void list_children(const Indices& parent, Indices& child, Indices& sibling);

// An order of the nodes of a forest in which every subtree is contiguous, its root last.
Indices postorder(const Indices& parent);

// The forest with its nodes numbered in this order.
Indices renumbered(const Indices& parent, const Indices& order);

// The entries in each column of L, for a postordered tree: without forming L.
Indices column_counts(const Compressed& a, const Indices& order, const Indices& place, const Indices& parent);
