// The entries of A^-1 in the places of L, P A P^H = L L^H, and their tangent. With Y = L21 L11^-1 and D = L11 L11^H, from the roots:
//
//     Z21 = -Z22 Y,   Z11 = D^-1 - Y^H Z21
//
// Along a Hermitian E, first from the leaves (dF is what E and the descendants add up to), then as above by the product rule:
//
//     dF22 -= X Y^H + Y X^H,  X = dF21 - Y dD / 2;      dY = (dF21 - Y dD) D^-1
//     dZ21 = -dZ22 Y - Z22 dY,   dZ11 = -D^-1 dD D^-1 - dY^H Z21 - Y^H dZ21
//
// Z22 is in the panels of the ancestors. dZ = -A^-1 E A^-1 in these places: the map is self-adjoint.
// Reference: Takahashi, Fagan, Chin (1973); Lin et al., ACM Trans. Math. Softw. 37 (2011).
#include "blas.hpp"
#include "cholesky.hpp"
#include "tree_order.hpp"

constexpr Index TILE = 192;

// Scratch of one thread.
template <class T> struct Cholesky<T>::Work {
    Buffer<T> block, dblock, y, x, d, dd, product;
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

// The lower triangle of C (n, n) -= A^H B for A (k, n) without gaps.
template <class T> static void subtract_lower(Index n, Index k, const T* a, const T* b, Index ldb, T* c, Index ldc) {
    for (Index j = 0; j < n; j += TILE)
        Kernels<T>::multiply('C', 'N', n - j, std::min(TILE, n - j), k, T(-1), a + j * k, k, b + j * ldb, ldb, T(1), c + j * ldc + j, ldc);
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
    if (t >= 0 || fronts_->work(s) < SHARED_FRONT) {
        Kernels<T>::right_solve(r, c, l, m, y, r, 'N');
        Kernels<T>::times_hermitian(r, c, T(-1), block, r, y, r, T(0), z + c, m);
        subtract_lower(c, r, y, z + c, m, z, m);
        return true;
    }
    const Index parts = 2 * team.size(), wide = (c + parts - 1) / parts;
    auto by_rows = [&](Index i, int) {
        const Index from = r * i / parts, to = r * (i + 1) / parts;
        Kernels<T>::right_solve(to - from, c, l, m, y + from, r, 'N');
        return true;
    };
    auto by_columns = [&](Index i, int) {
        const Index from = std::min(c, i * wide), w = std::min(wide, c - from);
        Kernels<T>::times_hermitian(r, w, T(-1), block, r, y + from * r, r, T(0), z + from * m + c, m);
        return true;
    };
    auto own = [&](Index i, int) {
        const Index from = std::min(c, i * wide), w = std::min(wide, c - from);
        Kernels<T>::multiply('C', 'N', c - from, w, r, T(-1), y + from * r, r, z + from * m + c, m, T(1), z + from * m + from, m);
        return true;
    };
    return team.run(parts, by_rows) && team.run(parts, by_columns) && team.run(parts, own);
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

// dZ of one front in the place of dF.
template <class T> void Cholesky<T>::move_front(Index s, T* moved, Work& work) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T *l = l_.data() + fronts_->panel_starts[s], *z = z_.data() + fronts_->panel_starts[s];
    T *dz = moved + fronts_->panel_starts[s], *d = work.d.grow(c * c), *dd = work.dd.grow(c * c), *product = work.product.grow(c * c);
    copy_lower(l, c, m, d, c);
    for (Index j = 0; j < c; j++)
        for (Index i = j; i < c; i++) {
            dd[j * c + i] = dz[j * m + i];
            dd[i * c + j] = conj_of(dz[j * m + i]);
        }
    Kernels<T>::invert(c, d, c);
    T *y = work.y.grow(r * c), *x = work.x.grow(r * c);
    if (r) {
        copy_below(l, c, r, y);
        copy_below(dz, c, r, x);
        Kernels<T>::right_solve(r, c, l, m, y, r, 'N');
        Kernels<T>::by_hermitian(r, c, T(-1), dd, c, y, r, T(1), x, r);
        Kernels<T>::right_solve(r, c, l, m, x, r, 'C');
        Kernels<T>::right_solve(r, c, l, m, x, r, 'N');
    }
    Kernels<T>::by_hermitian(c, c, T(1), d, c, dd, c, T(0), product, c);
    Kernels<T>::times_hermitian(c, c, T(-1), d, c, product, c, T(0), dz, m);
    if (r == 0) return;
    T *block = work.block.grow(r * r), *dblock = work.dblock.grow(r * r);
    gather(s, z_.data(), block, work.index);
    gather(s, moved, dblock, work.index);
    Kernels<T>::times_hermitian(r, c, T(-1), dblock, r, y, r, T(0), dz + c, m);
    Kernels<T>::times_hermitian(r, c, T(-1), block, r, x, r, T(1), dz + c, m);
    subtract_lower(c, r, x, z + c, m, dz, m);
    subtract_lower(c, r, y, dz + c, m, dz, m);
}

template <class T> bool Cholesky<T>::tangent(const T* e, T* slots, Team& team) {
    if (!invert(team)) return false;
    Buffer<T> dz(fronts_->entries());
    std::vector<Work> works(team.size());
    auto panel_of = [&](Index s) { return dz.data() + fronts_->panel_starts[s]; };
    auto join = [&](Index s, T* update, const std::vector<T*>& updates) { assemble(*fronts_, s, e, panel_of(s), update, updates); };
    bool ok = leaves_to_roots<T>(*fronts_, team, join, [&](Index s, T* update, int t) {
        const T* panel = panel_of(s);
        const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
        if (r == 0) return true;
        Work& work = works[std::max(t, 0)];
        const T* l = l_.data() + fronts_->panel_starts[s];
        T *y = work.y.grow(r * c), *x = work.x.grow(r * c);
        copy_below(l, c, r, y);
        copy_below(panel, c, r, x);
        Kernels<T>::right_solve(r, c, l, m, y, r, 'N');
        Kernels<T>::by_hermitian(r, c, T(Real<T>(-0.5)), panel, m, y, r, T(1), x, r);
        Kernels<T>::subtract_products(r, c, x, r, y, r, fronts_->child[s] != -1 ? 1 : 0, update, r);
        return true;
    });
    ok = ok && roots_to_leaves(*fronts_, team, [&](Index s, int t) {
        move_front(s, dz.data(), works[std::max(t, 0)]);
        return true;
    });
    if (ok) read_slots(dz.data(), slots);
    return ok;
}

#define FOR(T) template class Cholesky<T>;
EACH_NUMBER(FOR)
