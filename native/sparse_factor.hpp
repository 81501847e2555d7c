// A factor of sparse matrices on one pattern that passed every look, and solves that do.
#pragma once
#include <atomic>
#include <memory>

#include "directions.hpp"
#include "lu.hpp"

// The pattern of the entries that users give, in any order, some positions more than once.
struct SparsePattern {
    SparsePattern(Compressed columns, std::vector<Index> slot, std::vector<Row> rows, std::vector<Row> cols)
        : lu(std::move(columns)), slot(std::move(slot)), rows(std::move(rows)), cols(std::move(cols)) {}
    size_t nbytes() const { return lu.nbytes() + slot.size() * sizeof(Index) + (rows.size() + cols.size()) * sizeof(Row); }

    LuAnalysis lu;
    std::vector<Index> slot;      // of each entry; none where they are the slots, in their order
    std::vector<Row> rows, cols;  // of each entry
    std::vector<Index> diagonal;  // its slots, none where it has gaps
    std::shared_ptr<const Direction> probe;
};

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
    struct Member {
        std::vector<T> m;         // M = R A C in its slots
        std::vector<int> powers;  // of R, then of C; none of an M that is A
        R norm = 0;               // the largest column sum
        R error = 0;              // of the solution for the probe
        Lu<T> lu;
        bool is_by_kept = false;
    };
    struct Work;
    bool factor_one(Member& to, const T* values, std::shared_ptr<const Pivots>& kept, Work& work) const;
    void gather(const T* values, std::vector<T>& m) const;
    bool look(Member& to, const T* values, const Pivots* kept, Work& work) const;
    bool balance(Member& to, const T* values, const Pivots* kept, Work& work) const;
    bool is_calm(Member& to, Work& work) const;
    bool solve_one(const Member& of, const T* b, T* x, int k, char op, bool first, Work& work) const;
    template <int width> bool solve_some(const Member& of, const T* b, T* x, int k, char op, bool first, Work& work) const;
    template <int width> void apply_inverse(const Member& of, const T* b, T* x, char op, bool add, Work& work) const;
    template <int width> void residual(const Member& of, const T* b, const T* x, T* r, char op) const;

    Index own_values() const { return Index(in_slots_ ? pattern_->lu.columns.rows.size() : pattern_->rows.size()); }

    const std::shared_ptr<const SparsePattern> pattern_;
    const bool in_slots_;
    std::vector<Member> members_;    // those that are different from their neighbors
    std::vector<Index> number_;      // of the member of each matrix
    std::vector<T> given_;
    std::atomic<bool> proven_{false};  // has a first right-hand side been looked at as a direction?
};
