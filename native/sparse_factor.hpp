// A factor of sparse matrices on one pattern that passed every look, and solves that do.
#pragma once
#include <atomic>

#include "checked_lu.hpp"

template <class T> class SparseFactor {
  public:
    using Number = T;
    using R = Real<T>;

    // of values of entries, or of slots
    SparseFactor(std::shared_ptr<const SparsePattern> pattern, Index count, bool in_slots)
        : n(pattern->lu.n), count(count), pattern_(std::move(pattern)), in_slots_(in_slots) {}

    // All of these say whether they accept; what they wrote where they do not is no answer.
    // Pivots that were kept serve where they are good enough, and are replaced by the last ones.
    bool factor(const T* values, std::shared_ptr<const Pivots>& kept, int threads);
    // `blocks` right-hand sides (n, k), one for each matrix, or all of one matrix.
    bool solve(const T* b, T* x, Index blocks, int k, char op, int threads);
    bool slogdet(T* sign, R* size) const;
    // The cotangents of op(A) x = b: lam = op(A)^-H x_bar, and of the entries, unless it is null: -lam x^H or its transpose.
    bool pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads);

    bool is_of(const T* values) const;
    size_t nbytes() const;
    Index different() const { return Index(members_.size()); }
    Index by_kept_pivots() const;  // how many of them were factored so
    const Row n;
    const Index count;

  private:
    Index own_values() const { return Index(in_slots_ ? pattern_->lu.columns.rows.size() : pattern_->rows.size()); }

    const std::shared_ptr<const SparsePattern> pattern_;
    const bool in_slots_;
    std::vector<CheckedLu<T>> members_;    // those that are different from their neighbors
    std::vector<Index> number_;      // of the member of each matrix
    std::vector<T> given_;
    std::atomic<bool> proven_{false};  // has a first right-hand side been looked at as a direction?
};
