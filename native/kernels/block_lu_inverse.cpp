// The entries of A^-1 in the places of L, D and U, A = L D U, and their tangent. From the roots, with W = Z22 of the ancestors:
//
//     Z21 = -W L,   Z12 = -U W,   Z11 = D^-1 - U Z21
//
// Along E, first from the leaves (dF is what E and the descendants add up to), then as above by the product rule:
//
//     dL' = dF21 - L dD,  dF22 -= dL' U + L dF12;      dL = dL' D^-1,  dU = D^-1 (dF12 - dD U)
//     dZ21 = -dW L - W dL,   dZ12 = -dU W - U dW,   dZ11 = -D^-1 dD D^-1 - dU Z21 - U dZ21
//
// Reference: Erisman, Tinney, Comm. ACM 18 (1975); Lin et al., ACM Trans. Math. Softw. 37 (2011).
#include "blas.hpp"
#include "block_lu.hpp"
#include "tree_order.hpp"

// Scratch of one thread.
template <class T> struct BlockLu<T>::Work {
    Buffer<T> block, dblock, dl, du, d, product, lapack;
    Indices index;
};

// All of Z in the rows and columns below s, from the panels of the ancestors.
template <class T> void BlockLu<T>::gather(Index s, const Panels<T>& panels, T* block, Indices& index) const {
    const Index r = fronts_->below(s);
    each_column_above(*fronts_, s, index, [&](Index column, Index j, Index begin, Index end) {
        for (Index i = begin; i < r; i++) block[j * r + i] = panels.lower[column + index[i]];
        for (Index i = end; i < r; i++) block[i * r + j] = panels.upper[column + index[i]];
    });
}

// D^-1
template <class T> void BlockLu<T>::invert_block(Index s, T* into, Index ld, Work& work) const {
    const Index c = fronts_->columns(s), m = c + fronts_->below(s);
    const T* d = f_.lower.data() + fronts_->panel_starts[s];
    for (Index j = 0; j < c; j++) std::copy(d + j * m, d + j * m + c, into + j * ld);
    Kernels<T>::invert_lu(c, into, ld, pivots_.data() + fronts_->starts[s], work.lapack);
}

// The diagonal block of `lower` in `upper`, transposed: where entry (j, i) of it is read.
template <class T> static void mirror(Index c, Index m, const T* lower, T* upper) {
    for (Index j = 0; j < c; j++)
        for (Index i = 0; i < c; i++) upper[i * m + j] = lower[j * m + i];
}

template <class T> bool BlockLu<T>::invert_front(Index s, Work& work, Team& team, int t) {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r, begin = fronts_->panel_starts[s];
    const T *l = f_.lower.data() + begin + c, *u = f_.upper.data() + begin + c;
    T *lower = z_.lower.data() + begin, *upper = z_.upper.data() + begin;
    invert_block(s, lower, m, work);
    bool ok = true;
    if (r) {
        T* w = work.block.grow(r * r);
        gather(s, z_, w, work.index);
        auto below = [&](Index from, Index to) {
            Kernels<T>::multiply('N', 'N', r, to - from, r, T(-1), w, r, l + from * m, m, T(0), lower + from * m + c, m);
            Kernels<T>::multiply('T', 'N', r, to - from, r, T(-1), w, r, u + from * m, m, T(0), upper + from * m + c, m);
        };
        auto own = [&](Index from, Index to) {
            Kernels<T>::multiply('T', 'N', c, to - from, r, T(-1), u, m, lower + from * m + c, m, T(1), lower + from * m, m);
        };
        ok = split_rows(*fronts_, s, c, team, t, below) && split_rows(*fronts_, s, c, team, t, own);
    }
    mirror(c, m, lower, upper);
    return ok;
}

template <class T> bool BlockLu<T>::invert(Team& team) {
    return invert_once<Work>(*fronts_, team, inverting_, is_inverted_, z_, [&](Index s, Work& work, int t) { return invert_front(s, work, team, t); });
}

template <class T> void BlockLu<T>::read_slots(const Panels<T>& panels, T* slots) const {
    const Indices& both = fronts_->both;
    for (size_t e = 0; e < both.size(); e++) slots[e] = both[e] >= 0 ? panels.upper[both[e]] : panels.lower[~both[e]];
}

template <class T> bool BlockLu<T>::inverse(T* slots, Team& team) {
    if (!invert(team)) return false;
    read_slots(z_, slots);
    return true;
}

// -- the tangent -----------------------------------------------------------------------------------

// dL and dU in the places of dF21 and dF12, and what goes to the parent.
template <class T> void BlockLu<T>::move_update(Index s, const Panels<T>& moved, T* update) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r, begin = fronts_->panel_starts[s];
    const T *l = f_.lower.data() + begin + c, *u = f_.upper.data() + begin + c, beta = fronts_->child[s] != -1 ? 1 : 0;
    T *dd = moved.lower.data() + begin, *dl = dd + c, *du = moved.upper.data() + begin + c;
    Kernels<T>::multiply('N', 'N', r, c, c, T(-1), l, m, dd, m, T(1), dl, m);
    Kernels<T>::multiply('N', 'T', r, r, c, T(-1), dl, m, u, m, beta, update, r);
    Kernels<T>::multiply('N', 'T', r, r, c, T(-1), l, m, du, m, T(1), update, r);
    by_block<false>(s, dl, r, m);
    Kernels<T>::multiply('N', 'T', r, c, c, T(-1), u, m, dd, m, T(1), du, m);
    by_block<true>(s, du, r, m);
}

// dZ of one front in the places of dD, dL and dU.
template <class T> void BlockLu<T>::move_front(Index s, const Panels<T>& moved, Work& work) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r, begin = fronts_->panel_starts[s];
    const T *l = f_.lower.data() + begin + c, *u = f_.upper.data() + begin + c, *z21 = z_.lower.data() + begin + c;
    T *lower = moved.lower.data() + begin, *upper = moved.upper.data() + begin;
    T *d = work.d.grow(c * c), *product = work.product.grow(c * c), *dl = work.dl.grow(r * c), *du = work.du.grow(r * c);
    // -D^-1 dD D^-1 by solutions: where E is like A, D^-1 dD is small beside the product of their sizes
    for (Index j = 0; j < c; j++) std::copy(lower + j * m, lower + j * m + c, d + j * c);
    by_block<false>(s, d, c, c);
    for (Index j = 0; j < c; j++)
        for (Index i = 0; i < c; i++) product[i * c + j] = -d[j * c + i];
    by_block<true>(s, product, c, c);
    for (Index j = 0; j < c; j++)
        for (Index i = 0; i < c; i++) lower[j * m + i] = product[i * c + j];
    if (r) {
        for (Index j = 0; j < c; j++) {
            std::copy(lower + j * m + c, lower + (j + 1) * m, dl + j * r);
            std::copy(upper + j * m + c, upper + (j + 1) * m, du + j * r);
        }
        T *w = work.block.grow(r * r), *dw = work.dblock.grow(r * r);
        gather(s, z_, w, work.index);
        gather(s, moved, dw, work.index);
        Kernels<T>::multiply('N', 'N', r, c, r, T(-1), dw, r, l, m, T(0), lower + c, m);
        Kernels<T>::multiply('N', 'N', r, c, r, T(-1), w, r, dl, r, T(1), lower + c, m);
        Kernels<T>::multiply('T', 'N', r, c, r, T(-1), dw, r, u, m, T(0), upper + c, m);
        Kernels<T>::multiply('T', 'N', r, c, r, T(-1), w, r, du, r, T(1), upper + c, m);
        Kernels<T>::multiply('T', 'N', c, c, r, T(-1), du, r, z21, m, T(1), lower, m);
        Kernels<T>::multiply('T', 'N', c, c, r, T(-1), u, m, lower + c, m, T(1), lower, m);
    }
    mirror(c, m, lower, upper);
}

template <class T> bool BlockLu<T>::tangent(const T* e, T* slots, Team& team) {
    if (!invert(team)) return false;
    Panels<T> moved;
    scatter(e, moved);
    const bool ok = move_once<T, Work>(*fronts_, team,
        [&](Index s, T* update, const std::vector<T*>& updates) { add_children(s, moved, update, updates); },
        [&](Index s, T* update, Work&) { if (fronts_->below(s)) move_update(s, moved, update); },
        [&](Index s, Work& work) { move_front(s, moved, work); });
    if (ok) read_slots(moved, slots);
    return ok;
}

#define FOR(T) template class BlockLu<T>;
EACH_NUMBER(FOR)
