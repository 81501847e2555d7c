// The entries of A^-1 in the places of L, P A P^H = L L^H, and their tangent. With Y = L21 L11^-1 and D = L11 L11^H, from the roots:
//
//     Z21 = -Z22 Y,   Z11 = D^-1 - Y^H Z21
//
// Along a Hermitian E, first from the leaves (dF is what E and the descendants add up to), then as above by the product rule:
//
//     M = L11^-1 dD L11^-H,  B = dF21 L11^-H,  N = B - L21 M,   dF22 -= L21 B^H + N L21^H
//     S = dZ22 L21 + Z22 N,  dZ21 = -S L11^-1,   dZ11 = -L11^-H (M - N^H Z22 L21 - L21^H S) L11^-1
//
// Where E is like A, M is like 1. By D^-1 instead of L11^-1, with dY = (dF21 - Y dD) D^-1, the condition of A would enter errors squared.
// Z22 is in the panels of the ancestors. dZ = -A^-1 E A^-1 in these places: the map is self-adjoint.
// Reference: Takahashi, Fagan, Chin (1973); Lin et al., ACM Trans. Math. Softw. 37 (2011).
#include "blas.hpp"
#include "cholesky.hpp"
#include "hermitian.hpp"
#include "tree_order.hpp"

constexpr Index TILE = 192;

// Scratch of one thread.
template <class T> struct Cholesky<T>::Work {
    Buffer<T> block, dblock, y, x, d;
    Indices index;
};

// The lower triangle in the rows and columns below s, from the panels of the ancestors.
template <class T> void Cholesky<T>::gather(Index s, const T* panels, T* block, Indices& index) const {
    const Index r = fronts_->below(s);
    each_column_above(*fronts_, s, index, [&](Index column, Index j, Index, Index) {
        for (Index i = j; i < r; i++) block[j * r + i] = panels[column + index[i]];
    });
}

// The rows below the diagonal block of a panel, without gaps.
template <class T> static void copy_below(const T* panel, Index c, Index r, T* into) {
    for (Index j = 0; j < c; j++) std::copy(panel + j * (c + r) + c, panel + (j + 1) * (c + r), into + j * r);
}

template <class T> static void copy_lower(const T* from, Index n, Index ldf, T* to, Index ldt) {
    for (Index j = 0; j < n; j++) std::copy(from + j * ldf + j, from + j * ldf + n, to + j * ldt + j);
}

// Columns from .. to of the lower triangle of C (n, n) -= A^H B for A, B (k, n).
template <class T> static void subtract_lower(Index n, Index k, const T* a, Index lda, const T* b, Index ldb, T* c, Index ldc, Index from, Index to) {
    for (Index j = from; j < to; j += TILE)
        Kernels<T>::multiply('C', 'N', n - j, std::min(TILE, to - j), k, T(-1), a + j * lda, lda, b + j * ldb, ldb, T(1), c + j * ldc + j, ldc);
}

// The lower triangle of C (n, n) = beta C - A B^H for A, B (n, k).
template <class T> static void subtract_outer(Index n, Index k, const T* a, Index lda, const T* b, Index ldb, T beta, T* c) {
    for (Index j = 0; j < n; j += TILE) Kernels<T>::multiply('N', 'C', n - j, std::min(TILE, n - j), k, T(-1), a + j, lda, b + j, ldb, beta, c + j * n + j, n);
}

// From its lower triangle all of a Hermitian matrix; by columns, so that `above` is the lower one.
template <class T> static void mirror(Index n, T* a) {
    set_pairs(a, n, [](T& below, T& above) { if (&below != &above) below = conj_of(above); });
}

// op(L)^-H A op(L)^-1 for a Hermitian A (n, n), op N or C.
template <class T> static void congruence(Index n, const T* l, Index ldl, char op, T* a) {
    Kernels<T>::right_solve(n, n, l, ldl, a, n, op);
    set_pairs(a, n, [](T& below, T& above) {
        const T other = conj_of(above);
        above = conj_of(below), below = other;
    });
    Kernels<T>::right_solve(n, n, l, ldl, a, n, op);
}

template <class T> bool Cholesky<T>::invert_front(Index s, Work& work, Team& team, int t) {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T* l = l_.data() + fronts_->panel_starts[s];
    T* z = z_.data() + fronts_->panel_starts[s];
    copy_lower(l, c, m, z, m);
    Kernels<T>::invert(c, z, m);
    if (r == 0) return true;
    T *y = work.y.grow(r * c), *block = work.block.grow(r * r);
    copy_below(l, c, r, y);
    gather(s, z_.data(), block, work.index);
    auto by_rows = [&](Index from, Index to) { Kernels<T>::right_solve(to - from, c, l, m, y + from, r, 'N'); };
    auto by_columns = [&](Index from, Index to) { Kernels<T>::times_hermitian(r, to - from, T(-1), block, r, y + from * r, r, T(0), z + from * m + c, m); };
    auto own = [&](Index from, Index to) { subtract_lower(c, r, y, r, z + c, m, z, m, from, to); };
    return split_rows(*fronts_, s, r, team, t, by_rows) && split_rows(*fronts_, s, c, team, t, by_columns) && split_rows(*fronts_, s, c, team, t, own);
}

template <class T> bool Cholesky<T>::invert(Team& team) {
    return invert_once<Work>(*fronts_, team, inverting_, is_inverted_, z_, [&](Index s, Work& work, int t) { return invert_front(s, work, team, t); });
}

template <class T> void Cholesky<T>::read_slots(const T* panels, T* slots) const {
    const Indices& place = fronts_->place;
    for (size_t e = 0; e < place.size(); e++) slots[e] = place[e] >= 0 ? conj_of(panels[place[e]]) : panels[~place[e]];
}

template <class T> bool Cholesky<T>::inverse(T* slots, Team& team) {
    if (!invert(team)) return false;
    read_slots(z_.data(), slots);
    return true;
}

// -- the tangent -----------------------------------------------------------------------------------

// M and N in the place of dF, and what goes to the parent.
template <class T> void Cholesky<T>::move_update(Index s, T* panel, T* update, Work& work) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T *l = l_.data() + fronts_->panel_starts[s], *below = l + c;
    T* d = work.d.grow(c * c);
    copy_lower(panel, c, m, d, c);
    mirror(c, d);
    congruence(c, l, m, 'C', d);
    copy_lower(d, c, c, panel, m);
    Kernels<T>::right_solve(r, c, l, m, panel + c, m, 'C');
    subtract_outer(r, c, below, m, panel + c, m, T(fronts_->child[s] != -1 ? 1 : 0), update);
    Kernels<T>::by_hermitian(r, c, T(-1), d, c, below, m, T(1), panel + c, m);
    subtract_outer(r, c, panel + c, m, below, m, T(1), update);
}

// dZ of one front in the place of M and N.
template <class T> void Cholesky<T>::move_front(Index s, T* moved, Work& work) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T *l = l_.data() + fronts_->panel_starts[s], *below = l + c;
    T *dz = moved + fronts_->panel_starts[s], *d = work.d.grow(c * c);
    copy_lower(dz, c, m, d, c);
    if (r) {
        T *block = work.block.grow(r * r), *dblock = work.dblock.grow(r * r), *w = work.y.grow(r * c), *x = work.x.grow(r * c);
        gather(s, z_.data(), block, work.index);
        gather(s, moved, dblock, work.index);
        Kernels<T>::times_hermitian(r, c, T(1), block, r, below, m, T(0), w, r);
        Kernels<T>::times_hermitian(r, c, T(1), dblock, r, below, m, T(0), x, r);
        Kernels<T>::times_hermitian(r, c, T(1), block, r, dz + c, m, T(1), x, r);
        subtract_lower(c, r, dz + c, m, w, r, d, c, 0, c);
        subtract_lower(c, r, below, m, x, r, d, c, 0, c);
        Kernels<T>::right_solve(r, c, l, m, x, r, 'N');
        for (Index j = 0; j < c; j++)
            for (Index i = 0; i < r; i++) dz[j * m + c + i] = -x[j * r + i];
    }
    mirror(c, d);
    congruence(c, l, m, 'N', d);
    for (Index j = 0; j < c; j++)
        for (Index i = j; i < c; i++) dz[j * m + i] = -d[j * c + i];
}

template <class T> bool Cholesky<T>::tangent(const T* e, T* slots, Team& team) {
    if (!invert(team)) return false;
    Buffer<T> dz(fronts_->entries());
    auto panel_of = [&](Index s) { return dz.data() + fronts_->panel_starts[s]; };
    const bool ok = move_once<T, Work>(*fronts_, team,
        [&](Index s, T* update, const std::vector<T*>& updates) { assemble(*fronts_, s, e, panel_of(s), update, updates); },
        [&](Index s, T* update, Work& work) { move_update(s, panel_of(s), update, work); },
        [&](Index s, Work& work) { move_front(s, dz.data(), work); });
    if (ok) read_slots(dz.data(), slots);
    return ok;
}

#define FOR(T) template class Cholesky<T>;
EACH_NUMBER(FOR)
