// P A P^T = L D L^T, or L D L^H of a Hermitian A, supernode by supernode, with pivots of one or two rows; solves, the determinant, the inertia.
//
//     F11 = L11 D op(L11),  L21 = F21 op(L11)^-1 D^-1,  and F22 - L21 D op(L21) goes to the front of the parent
//
// Pivots come from among the columns of a front, and are judged by whole columns. What finds no pivot is delayed: these columns are columns
// of the parent's front, behind its own. A front is then as large as the plan says, and what came from its children.
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

    // All of these say whether they accept.
    // Factor the matrix with these values in the slots of P A P^T.
    bool factor(const T* values, Team& team);
    // X <- A^-1 X for X (n, k), row by row, or with conj(A).
    bool solve(T* x, Index k, bool conjugated, Team& team) const;

    // The panels are there, of a factor that was made, or of one that is to be made
    void borrow(T* panels) { panels_ = Buffer<T>::borrowed(panels, fronts_->entries()); }
    void copy_panels();  // that were borrowed
    // The order of all columns, false where some were delayed; a factor in this order, by the panels that are there.
    bool write_order(int* order) const;
    void read_order(const int* order);

    // log |det|, and det / |det| in `sign`
    double log_det(T& sign) const;
    Signs signs() const;  // of D, which are those of the eigenvalues of a Hermitian A
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
        Buffer<T> own;  // where more columns came than were planned
        Indices own_order;
    };
    Index rows_of(Index s, const Front& front) const { return front.c + fronts_->below(s); }

    void assemble_front(Index s, const T* values, T* update, const std::vector<T*>& updates);
    void add_child(Index s, Index d, Index delayed_at, const T* from, T* update) const;
    template <bool hermitian> bool eliminate(Index s, T* update, PivotsWork<T>& work, Team& team, int t);
    // K: columns, whose number may be known when it is compiled
    template <bool hermitian, class K> void divide(const Front& front, Index m, T* x, K k) const;
    template <bool hermitian, class K> void forward(Index s, T* x, K k, T* own, T* block) const;
    template <class K> void backward(Index s, T* x, K k, T* own, T* block) const;
    template <class K> bool solve_columns(T* x, K k, bool conjugated, Team& team) const;
    template <class See> void each_pivot(See see) const;
    // f(is it Hermitian?), which is known when it is compiled; of real numbers both are one
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
