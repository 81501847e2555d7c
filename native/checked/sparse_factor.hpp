// Checked factors of sparse matrices on one pattern, and checked solves.
#pragma once
#include <cstring>

#include "checked_matrix.hpp"
#include "kernels/team.hpp"

template <class T> class SparseFactor {
  public:
    using Number = T;
    using R = Real<T>;
    using Member = CheckedMatrix<T>;
    using Work = typename Member::Work;

    // `own_values`: the numbers of each matrix. `part`: L, that of its entries is B; T, (B + B^T) / 2; or (B + B^H) / 2.
    SparseFactor(std::shared_ptr<const EntryPattern> pattern, Index count, Index own_values, char part)
        : n(pattern->columns().size()), count(count), pattern_(std::move(pattern)), own_values_(own_values), part_(part) {}

    // One of the matrices of another factor, which is shared.
    SparseFactor(const SparseFactor& of, Index member)
        : n(of.n), count(1), pattern_(of.pattern_), own_values_(of.own_values_), part_(of.part_), members_{of.members_[member]}, first_{0}, number_{0},
          given_(of.values(member), of.values(member) + own_values_) {}

    // The values of all matrices, before they are factored: those that are equal to their neighbors share a factor.
    void take(const T* values);
    const T* values(Index member) const { return given_.data() + first_[member] * own_values_; }
    bool is_member(Index member, const T* values) const;  // has it these values?
    // Share the factor of a member with equal values in another batch.
    void share(Index member, const SparseFactor& other, Index its) { members_[member] = other.members_[its]; }

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    // make(values, part, work): the factor of one matrix, or null, in one of so many parts, which run beside each other.
    template <class Make> bool factor(int parts, Make make);
    // `blocks` right-hand sides (n, k), one for each matrix, or all of one matrix.
    bool solve(const T* b, T* x, Index blocks, int k, char op, int threads) const;
    bool slogdet(T* sign, R* size) const;
    // The cotangents of op(A) x = b: lam = op(A)^-H x_bar, and of the entries, unless it is null: -lam x^H or its transpose, or
    // the Hermitian or symmetric part.
    bool pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads) const;

    bool is_of(const T* values) const;
    size_t nbytes() const;
    Index different() const { return Index(members_.size()); }
    Index reused_pivots() const;  // the number of members that were factored with previous pivots
    const Member& first() const { return *members_[0]; }
    const Row n;
    const Index count;

  private:
    const std::shared_ptr<const EntryPattern> pattern_;
    const Index own_values_;
    const char part_;
    std::vector<std::shared_ptr<Member>> members_;  // those that are different from their neighbors
    std::vector<Index> first_;                      // the first matrix of each member
    std::vector<Index> number_;                     // of the member of each matrix
    std::vector<T> given_;
};

template <class T> template <class Make> bool SparseFactor<T>::factor(int most, Make make) {
    const Index parts = std::max<Index>(std::min<Index>(most, different()), 1);
    return each<Work>(parts, n, int(parts), [&](Index t, Work& work) {
        for (Index i = different() * t / parts; i < different() * (t + 1) / parts; i++)
            if (!members_[i] && !(members_[i] = make(values(i), int(t), work))) return false;
        return true;
    });
}
