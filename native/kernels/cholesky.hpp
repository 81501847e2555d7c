// P A P^H = L L^H, supernode by supernode; solves with L and L^H, the determinant, and the entries of A^-1 in the places of L.
//
//     L11 L11^H = F11,  L21 = F21 L11^-H,  and F22 - L21 L21^H goes to the front of the parent
//
// Reference: Ng, Peyton, SIAM J. Sci. Comput. 14 (1993); Liu, SIAM Review 34 (1992).
#pragma once
#include <memory>

#include "buffer.hpp"
#include "team.hpp"
#include "forks.hpp"
#include "fronts.hpp"

template <class T> class Cholesky {
  public:
    using Number = T;
    using R = Real<T>;

    explicit Cholesky(std::shared_ptr<const Fronts> fronts) : fronts_(std::move(fronts)) {}

    // Each returns true if its answer is accepted.
    // Factor the matrix with these values in the slots of P A P^H.
    bool factor(const T* values, Team& team);
    // X <- A^-1 X for X (n, k), row by row; or one half of it, L^-1 X or L^-H X. `conjugated`: with conj(A).
    bool solve(T* x, Index k, char part, bool conjugated, Team& team) const;
    // Entry (j, i) of A^-1 for every slot (i, j); kept for the tangent.
    bool inverse(T* slots, Team& team);
    // Entry (j, i) of -A^-1 E A^-1, E given in the slots.
    bool tangent(const T* e, T* slots, Team& team);

    double log_det() const;
    // Use memory of the caller for L, of a factor that exists or that is about to be computed.
    void borrow(T* panels) { l_ = Buffer<T>::borrowed(panels, fronts_->entries()); }
    void write(T* entries) const;  // the lower triangle of L, column by column of each panel
    size_t nbytes() const { return size_t(l_.size() + z_.size()) * sizeof(T); }
    const Fronts& fronts() const { return *fronts_; }
    Index refused() const { return refused_; }  // a supernode with a pivot that is not positive, or -1

  private:
    struct Work;
    bool eliminate(Index s, T* panel, T* update, Team& team, int t) const;
    bool eliminate_together(Index s, T* panel, T* update, Team& team) const;
    template <int width> bool solve(T* x, Index k, char part, bool conjugated, Team& team) const;
    template <int width> void forward(Index s, T* x, Index k, T* block) const;
    template <int width> void backward(Index s, T* x, Index k, T* block) const;
    void gather(Index s, const T* panels, T* block, Indices& index) const;
    bool invert(Team& team);
    bool invert_front(Index s, Work& work, Team& team, int t);
    void move_update(Index s, T* panel, T* update, Work& work) const;
    void move_front(Index s, T* moved, Work& work) const;
    void read_slots(const T* panels, T* slots) const;

    std::shared_ptr<const Fronts> fronts_;
    Buffer<T> l_, z_;
    bool is_inverted_ = false;  // is Z whole?
    ForkedMutex inverting_;
    std::atomic<Index> refused_{-1};
};
