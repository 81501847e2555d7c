// A pattern of a Hermitian matrix (B + B^H) / 2, or a symmetric one, from the entries of B, with the fronts of its factorization.
#pragma once
#include "entry_pattern.hpp"
#include "kernels/fronts.hpp"

struct SymmetricPattern : EntryPattern {
    // The pattern of entries in range, with an order of elimination (std::invalid_argument if it is no permutation), or with fronts that know
    // their slots and the place of each row in their order. Neither constructor sets the probe.
    SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count, const Row* order);
    SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count, std::shared_ptr<const Fronts> fronts, std::vector<Row> place);
    const Compressed& columns() const override { return columns_; }
    size_t nbytes() const override;
    bool is_hermitian() const override { return kind != 'T'; }

    const char kind;  // C: L L^H is to be its factor; H: L D L^H; T: L D L^T
    std::vector<Index> permuted;  // the slot of P A P^H of each slot; none where they are the same
    std::shared_ptr<const Fronts> fronts;
    std::vector<Row> place;  // of each row of A in P A P^H

  private:
    SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count);
    bool find_mirror();
    Compressed arranged();  // P A P^H; says what is permuted

    Compressed columns_;
};
