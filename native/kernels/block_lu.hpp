// A = L D U by supernodes, for matrices without symmetry and indefinite ones; solves, the determinant, and the entries of A^-1 in the
// places of L, D and U. Pivots are chosen inside of the diagonal blocks.
//
//     D = F11 = P L11 U11,  L = F21 D^-1,  U = D^-1 F12,  and F22 - L F12 goes to the front of the parent
//
// A supernode has two panels: in `lower` D above L, in `upper`, below room for a diagonal block, U^T.
// Reference: Erisman, Tinney, Comm. ACM 18 (1975); Lin et al., SelInv, ACM Trans. Math. Softw. 37 (2011).
#pragma once
#include <memory>

#include "buffer.hpp"
#include "team.hpp"
#include "forks.hpp"
#include "fronts.hpp"

template <class T> struct Panels {
    Buffer<T> lower, upper;

    void grow(Index entries) { lower.grow(entries), upper.grow(entries); }
    void free() { lower.free(), upper.free(); }
    size_t nbytes() const { return size_t(lower.size() + upper.size()) * sizeof(T); }
};

template <class T> class BlockLu {
  public:
    using Number = T;

    explicit BlockLu(std::shared_ptr<const Fronts> fronts) : fronts_(std::move(fronts)) {}

    // Each returns true if its answer is accepted.
    // Factor the matrix with these values in the slots, whose places Fronts::both holds.
    bool factor(const T* values, Team& team);
    // X <- A^-1 X, or A^-T X, for X (n, k), row by row.
    bool solve(T* x, Index k, bool transposed, Team& team) const;
    // Entry (j, i) of A^-1 for every slot (i, j); kept for the tangent.
    bool inverse(T* slots, Team& team);
    // Entry (j, i) of -A^-1 E A^-1, E given in the slots.
    bool tangent(const T* e, T* slots, Team& team);

    // log |det|, and det / |det| in `sign`
    double log_det(T& sign) const;
    size_t nbytes() const { return f_.nbytes() + z_.nbytes() + pivots_.size() * sizeof(int); }
    const Fronts& fronts() const { return *fronts_; }
    Index refused() const { return refused_; }  // a supernode whose diagonal block is singular, or -1

  private:
    struct Work;
    void scatter(const T* values, Panels<T>& panels) const;
    void add_children(Index s, const Panels<T>& panels, T* update, const std::vector<T*>& updates) const;
    bool eliminate(Index s, T* update, Team& team, int t);
    void forward(Index s, T* x, Index k, bool transposed, T* block) const;
    void backward(Index s, T* x, Index k, bool transposed, T* block) const;
    template <bool transposed> void by_block(Index s, T* x, Index rows, Index ldx) const;  // X D^-1, or X D^-T
    void invert_block(Index s, T* into, Index ld, Work& work) const;
    void gather(Index s, const Panels<T>& panels, T* block, Indices& index) const;
    bool invert(Team& team);
    bool invert_front(Index s, Work& work, Team& team, int t);
    void move_update(Index s, const Panels<T>& moved, T* update) const;
    void move_front(Index s, const Panels<T>& moved, Work& work) const;
    void read_slots(const Panels<T>& panels, T* slots) const;

    std::shared_ptr<const Fronts> fronts_;
    Panels<T> f_, z_;
    std::vector<int> pivots_;
    bool is_inverted_ = false;  // is Z whole?
    ForkedMutex inverting_;
    std::atomic<Index> refused_{-1};
};
