// Factors of sparse matrices on one pattern that passed every look, and solves that do.
#pragma once
#include <atomic>
#include <cstring>

#include "checked_matrix.hpp"
#include "crew.hpp"

template <class T> class SparseFactor {
  public:
    using Number = T;
    using R = Real<T>;
    using Member = CheckedMatrix<T>;
    using Work = typename Member::Work;

    // `own_values`: the numbers of each matrix. `is_hermitian`: that of its entries is (B + B^H) / 2.
    SparseFactor(std::shared_ptr<const EntryPattern> pattern, Index count, Index own_values, bool is_hermitian)
        : n(pattern->columns().size()), count(count), pattern_(std::move(pattern)), own_values_(own_values), is_hermitian_(is_hermitian) {}

    // All of these say whether they accept; what they wrote where they do not is no answer.
    // make(values, part, work): the factor of one matrix, or null, in one of so many parts, which run beside each other.
    template <class Make> bool factor(const T* values, int parts, Make make);
    // `blocks` right-hand sides (n, k), one for each matrix, or all of one matrix.
    bool solve(const T* b, T* x, Index blocks, int k, char op, int threads);
    bool slogdet(T* sign, R* size) const;
    // The cotangents of op(A) x = b: lam = op(A)^-H x_bar, and of the entries, unless it is null: -lam x^H or its transpose, or
    // the Hermitian part.
    bool pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads);

    bool is_of(const T* values) const;
    size_t nbytes() const;
    Index different() const { return Index(members_.size()); }
    Index by_kept_pivots() const;  // how many of them were factored so
    const Member& first() const { return *members_[0]; }
    const Row n;
    const Index count;

  private:
    const std::shared_ptr<const EntryPattern> pattern_;
    const Index own_values_;
    const bool is_hermitian_;
    std::vector<std::unique_ptr<Member>> members_;  // those that are different from their neighbors
    std::vector<Index> number_;                     // of the member of each matrix
    std::vector<T> given_;
    std::atomic<bool> proven_{false};  // has a first right-hand side been looked at as a direction?
};

template <class T> template <class Make> bool SparseFactor<T>::factor(const T* values, int most, Make make) {
    given_.assign(values, values + own_values_ * count);
    std::vector<Index> first;
    for (Index i = 0; i < count; i++) {
        const void *own = values + i * own_values_, *before = values + (i - 1) * own_values_;
        if (i == 0 || std::memcmp(own, before, own_values_ * sizeof(T))) first.push_back(i);
        number_.push_back(Index(first.size()) - 1);
    }
    members_.resize(first.size());
    const Index parts = std::max<Index>(std::min<Index>(most, different()), 1);
    return each<Work>(parts, n, int(parts), [&](Index t, Work& work) {
        for (Index i = different() * t / parts; i < different() * (t + 1) / parts; i++)
            if (!(members_[i] = make(values + first[i] * own_values_, int(t), work))) return false;
        return true;
    });
}
