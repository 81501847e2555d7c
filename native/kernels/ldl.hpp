// P A P^T = L D L^T, or L D L^H of a Hermitian A, supernode by supernode, with pivots of one or two rows; solves, the determinant, the inertia.
//
//     F11 = L11 D op(L11),  L21 = F21 op(L11)^-1 D^-1,  and F22 - L21 D op(L21) goes to the front of the parent
//
// Pivots are chosen among the columns of a front, by the entries of whole columns (threshold u). A column without a pivot is delayed: it is
// appended to the columns of the parent's front. A front has its planned columns and the delayed columns of its children.
// Reference: Bunch, Kaufman, Math. Comp. 31 (1977); Duff, Reid, ACM Trans. Math. Softw. 9 (1983).
#pragma once
#include <atomic>
#include <memory>

#include "buffer.hpp"
#include "team.hpp"
#include "fronts.hpp"

struct Signs {
    Index positive = 0, negative = 0;
};

template <class T> struct PivotsWork;

template <class T> class Ldl {
  public:
    using Number = T;
    using R = Real<T>;

    // u: the least pivot, over the largest entry of its column
    Ldl(std::shared_ptr<const Fronts> fronts, bool is_hermitian, R u) : fronts_(std::move(fronts)), is_hermitian_(is_hermitian && Scalar<T>::is_complex), u_(u) {}

    // Each returns true if its answer is accepted.
    // Factor the matrix with these values in the slots of P A P^T.
    bool factor(const T* values, Team& team);
    // X <- A^-1 X for X (n, k), row by row, or with conj(A).
    bool solve(T* x, Index k, bool conjugated, Team& team) const;

    // Use memory of the caller for the panels, of a factor that exists or that is about to be computed.
    void borrow(T* panels) { panels_ = Buffer<T>::borrowed(panels, fronts_->entries()); }
    void copy_panels();  // replace borrowed panels by a copy
    // Write the order of all columns, false if some were delayed; read a factor in this order from its panels.
    bool write_order(int* order) const;
    void read_order(const int* order);

    // log |det|, and det / |det| in `sign`
    double log_det(T& sign) const;
    Signs signs() const;  // of D; the signs of the eigenvalues of a Hermitian A (Sylvester's law of inertia)
    size_t nbytes() const;
    const Fronts& fronts() const { return *fronts_; }
    Index refused() const { return refused_; }  // a root that is singular, or -1
    Index delayed() const;                      // columns, counted in each front that delays them

  private:
    // A front as it was eliminated: its panel (c + r, c) by columns, and the columns in their order, the first `done` of them eliminated.
    struct Front {
        Index c = 0, done = 0;
        T* panel = nullptr;
        Index* order = nullptr;
        Buffer<T> own;  // if children delayed columns
        Indices own_order;
    };
    Index rows_of(Index s, const Front& front) const { return front.c + fronts_->below(s); }

    void assemble_front(Index s, const T* values, T* update, const std::vector<T*>& updates);
    void add_child(Index s, Index d, Index delayed_at, const T* from, T* update) const;
    template <bool hermitian> bool eliminate(Index s, T* update, PivotsWork<T>& work, Team& team, int t);
    // K: the number of columns, an Index or a compile-time constant
    template <bool hermitian, class K> void divide(const Front& front, Index m, T* x, K k) const;
    template <bool hermitian, class K> void forward(Index s, T* x, K k, T* own, T* block) const;
    template <class K> void backward(Index s, T* x, K k, T* own, T* block) const;
    template <class K> bool solve_columns(T* x, K k, bool conjugated, Team& team) const;
    template <class Visit> void each_pivot(Visit visit) const;
    // f(std::true_type()) for Hermitian A, else f(std::false_type()); real symmetric matrices are the latter
    template <class F> auto by_kind(F f) const {
        if constexpr (Scalar<T>::is_complex)
            if (is_hermitian_) return f(std::true_type());
        return f(std::false_type());
    }

    std::shared_ptr<const Fronts> fronts_;
    const bool is_hermitian_;
    const R u_;
    Buffer<T> panels_;
    Indices order_;
    std::vector<Front> all_;
    std::atomic<Index> refused_{-1};
};
