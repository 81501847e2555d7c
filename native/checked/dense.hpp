// A checked factor of dense matrices, in memory of its own.
#pragma once
#include <memory>
#include <vector>

#include "factored.hpp"

// `count` matrices A (n, n), row by row, and their factors.
template <class T> class Dense {
  public:
    using Number = T;
    using R = Real<T>;

    // hermitian: of their Hermitian parts, from which they differ by rounding
    Dense(Kind kind, bool hermitian, int n, Index count, std::shared_ptr<const Direction> probe);

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    bool factor(const T* a, int threads);
    bool solve(const T* b, T* x, int k, char op, int threads) const;
    bool slogdet(T* sign, R* size) const;
    bool inverse(T* x, int threads) const;
    bool det(T* d) const;
    // x = w A^-H, the cotangents of log |det A| for weights w, or where d = det A is given w conj(d) A^-H, those of d
    bool log_pullback(const T* w, const T* d, T* x, int threads) const;
    // The cotangents of op(A) x = b: lam = op(A)^-H x_bar, and of A, unless a_bar is null: -lam x^H, its transpose, or its Hermitian part.
    bool pullback(const T* x_bar, const T* x, T* lam, T* a_bar, int k, char op, char form, int threads) const;

    bool is_of(Kind kind, bool hermitian, const T* a) const;
    // A number that is the same for all factors of the same matrices.
    static uint64_t key_of(Kind kind, bool hermitian, int n, Index count, const T* a);
    uint64_t key() const { return key_of(kind_, hermitian_, n, count, a_.data()); }

    size_t nbytes() const;
    const int n;
    const Index count;

  private:
    using Work = typename Factored<T>::Work;
    using Units = typename Factored<T>::Units;
    bool factor_one(Index i, Work& work);
    bool solve_one(Index i, const T* b, T* x, int k, char op, Work& work) const;

    const Kind kind_;
    const bool hermitian_;
    const std::shared_ptr<const Direction> probe_;
    Buffer<T> a_, f_;
    std::vector<int> pivots_;
    std::vector<Factored<T>> factors_;
    std::vector<std::unique_ptr<Units>> units_;  // of matrices that are not M
};

// a_bar = -X^H X_bar X^H of X = A^-1, or its Hermitian part; says whether it accepts.
template <class T> bool inverse_pullback(const T* x_bar, const T* x, T* a_bar, int n, bool hermitian, std::vector<T>& work);
