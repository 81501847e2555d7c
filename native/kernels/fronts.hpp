// The fronts of a factorization L L^H: all that depends on the pattern alone.
//
// Supernode s has the columns starts[s] .. starts[s + 1], and the rows below them, rows[row_starts[s]] .. ; both together are its
// front. Its panel holds these columns of L, (c + r) x c numbers by columns. A row below is a row of the front of the parent,
// parent[s], at the position relative[.]. Reference: Liu, The multifrontal method, SIAM Review 34 (1992).
#pragma once
#include "tree.hpp"

struct Fronts {
    Fronts(const Compressed& a, const Indices& given);

    Index count() const { return Index(parent.size()); }
    Index entries() const { return panel_starts.back(); }
    Index columns(Index s) const { return starts[s + 1] - starts[s]; }
    Index below(Index s) const { return row_starts[s + 1] - row_starts[s]; }
    double work(Index s) const;  // multiplications, about
    size_t nbytes() const;

    // Find the places of the slots of P A P^H in the panels, from its pattern; std::invalid_argument if that is another pattern.
    void locate(const Compressed& permuted);
    // The same for a pattern without symmetry, given by its places, as ldiv.engines.selected.fronts has them.
    void locate(const int64_t* places, Index count);

    Index n;
    Indices order, starts, parent, row_starts, rows, relative, panel_starts;
    Indices child, sibling, depth;  // the first child of each supernode, its next sibling; how far it is from its root
    Indices slot_starts, place;     // of each column of P A P^H; ~place for a slot (i, j) with i < j, whose mirror image is there
    Indices both;                   // of each slot, where nothing is symmetric: in the panels of L and D, or ~ in those of U^T

  private:
    void set_supernodes(const Indices& tree, const Indices& count);
    void set_rows(const Compressed& a);
};

// The entries in each column of L.
Indices column_counts(const Compressed& a, const Indices& order);
