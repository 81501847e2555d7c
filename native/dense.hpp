// A factor of dense matrices M that passed every look, and solves that do.
#pragma once
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "directions.hpp"
#include "scalar.hpp"

enum class Kind { lu, cholesky };

// Are all of these matrices equal to their conjugate transpose, to the last bit?
template <class T> bool is_hermitian(const T* m, int n, Index count) {
    for (Index i = 0; i < count; i++, m += Index(n) * n)
        for (int r = 0; r < n; r++)
            for (int c = 0; c <= r; c++)
                if (m[Index(r) * n + c] != conj_of(m[Index(c) * n + r])) return false;
    return true;
}

// `count` matrices M (n, n), row by row, and their factors: P M^T = L U, as LAPACK reads rows as columns, or M = L L^H.
template <class T> class Dense {
  public:
    using Number = T;
    using R = Real<T>;

    Dense(Kind kind, int n, Index count, std::shared_ptr<const Direction> probe);

    // All of these say whether they accept; what they wrote where they do not is no answer.
    bool factor(const T* m, int threads);
    bool solve(const T* b, T* x, int k, char op, int threads);
    bool slogdet(T* sign, R* size) const;
    bool inverse(T* x, int threads) const;
    // The cotangents of op(M) x = b: lam = op(M)^-H x_bar, and of M, unless m_bar is null: -lam x^H, its transpose, or its Hermitian part.
    bool pullback(const T* x_bar, const T* x, T* lam, T* m_bar, int k, char op, char form, int threads);

    bool is_of(Kind kind, const T* m) const;

    size_t nbytes() const;
    const int n;
    const Index count;

  private:
    struct Work;
    bool factor_one(Index i, Work& work);
    bool solve_one(Index i, const T* b, T* x, int k, char op, bool first, Work& work) const;
    bool inverse_one(Index i, T* x, Work& work) const;
    bool look(Index i, Work& work);
    R probe_error(Index i, const T* y, Work& work) const;
    void apply_inverse(Index i, T* b, int k, char op) const;
    void residual(Index i, const T* b, const T* x, T* r, int k, char op) const;
    template <class F> bool each(F f, int threads) const;

    const Kind kind_;
    const std::shared_ptr<const Direction> probe_;
    std::vector<T> m_, f_;
    std::vector<int> pivots_, powers_;     // m_ is 2^-power M
    std::vector<R> by_rows_, by_columns_;  // the largest sums of |m_ij|
    std::atomic<bool> proven_{false};      // has a first right-hand side been looked at as a direction?
};
