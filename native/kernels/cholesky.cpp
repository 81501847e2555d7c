#include "cholesky.hpp"

#include "blas.hpp"
#include "columns.hpp"
#include "pivot_product.hpp"
#include "tree_order.hpp"

constexpr Index NARROW = 4;  // columns up to which loops are faster than BLAS
constexpr Index FEW = 64;    // numbers of these columns of several vectors, likewise
constexpr Index SHORT = 6;   // rows
constexpr Index BLOCK = 128, TILE = 192;

template <class T> bool Cholesky<T>::factor(const T* values, Team& team) {
    l_.grow(fronts_->entries());
    auto panel = [&](Index s) { return l_.data() + fronts_->panel_starts[s]; };
    auto join = [&](Index s, T* update, const std::vector<T*>& updates) { assemble(*fronts_, s, values, panel(s), update, updates); };
    bool ok = leaves_to_roots<T>(*fronts_, team, join, [&](Index s, T* update, int t) {
        if (eliminate(s, panel(s), update, team, t)) return true;
        if (team.should_continue(t)) refused_ = s;
        return false;
    });
    return ok && std::isfinite(log_det());
}

// L11 and L21 of a narrow front, column by column; false if a pivot is not positive.
template <class T> static bool narrow(Index c, Index m, T* panel) {
    for (Index j = 0; j < c; j++) {
        T* column = panel + j * m;
        for (Index k = 0; k < j; k++) {
            const T *before = panel + k * m, by = conj_of(before[j]);
            for (Index i = j; i < m; i++) column[i] -= times(by, before[i]);  // f_j <- f_j - l_k conj(l_jk)
        }
        Real<T> pivot = std::real(column[j]);
        if (!(pivot > 0)) return false;
        Real<T> root = std::sqrt(pivot), by = 1 / root;
        column[j] = root;
        for (Index i = j + 1; i < m; i++) column[i] *= by;
    }
    return true;
}

template <class T> bool Cholesky<T>::eliminate(Index s, T* panel, T* update, Team& team, int t) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const bool has_update = fronts_->child[s] != -1;
    if (t < 0 && fronts_->work(s) > SHARED_FRONT) return eliminate_together(s, panel, update, team);
    if (c <= NARROW) {
        if (!narrow(c, m, panel)) return false;
    } else {
        if (!Kernels<T>::cholesky(c, panel, m)) return false;
        Kernels<T>::right_solve(r, c, panel, m, panel + c, m, 'C');
    }
    if (r == 0) return true;
    if (c > 2 && r > SHORT) {
        Kernels<T>::subtract_square(r, c, panel + c, m, has_update ? 1 : 0, update, r);
        return true;
    }
    for (Index j = 0; j < r; j++) {
        T* column = update + j * r;
        if (!has_update) std::fill(column + j, column + r, T(0));
        for (Index k = 0; k < c; k++) {
            const T *below = panel + k * m + c, by = conj_of(below[j]);
            for (Index i = j; i < r; i++) column[i] -= times(by, below[i]);  // F22 <- F22 - L21 L21^H
        }
    }
    return true;
}

// All threads eliminate one front: they share the rows of each block of columns, and then the tiles of the update.
template <class T> bool Cholesky<T>::eliminate_together(Index s, T* panel, T* update, Team& team) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    for (Index j = 0; j < c; j += BLOCK) {
        const Index w = std::min(BLOCK, c - j);
        T *block = panel + j * m, *diagonal = block + j, *below = diagonal + w;
        // F_j <- F_j - L_j L_jj^H of the columns before, then L_jj = chol(F_jj) and L_j = F_j L_jj^-H
        auto subtract = [&](Index from, Index to) { Kernels<T>::multiply('N', 'C', to - from, w, j, T(-1), panel + j + from, m, panel + j, m, T(1), diagonal + from, m); };
        auto solve = [&](Index from, Index to) { Kernels<T>::right_solve(to - from, w, diagonal, m, below + from, m, 'C'); };
        if (j > 0 && !split_rows(*fronts_, s, m - j, team, -1, subtract)) return false;
        if (!Kernels<T>::cholesky(w, diagonal, m) || !split_rows(*fronts_, s, m - j - w, team, -1, solve)) return false;
    }
    const T *below = panel + c, beta = fronts_->child[s] != -1 ? 1 : 0;
    const Index tiles = (r + TILE - 1) / TILE;
    return team.run(tiles * tiles, [&](Index k, int) {
        const Index i = k / tiles * TILE, j = k % tiles * TILE, w = std::min(TILE, r - j), h = std::min(TILE, r - i);
        if (i == j) Kernels<T>::subtract_square(w, c, below + j, m, std::real(beta), update + j * r + j, r);
        if (i > j) Kernels<T>::multiply('N', 'C', h, w, c, T(-1), below + i, m, below + j, m, beta, update + j * r + i, r);
        return true;
    });
}

template <class T> double Cholesky<T>::log_det() const {
    PivotProduct<double> product;
    for (Index s = 0; s < fronts_->count(); s++)
        for (Index j = 0; j < fronts_->columns(s); j++)
            product.take(double(std::real(l_[fronts_->panel_starts[s] + j * (fronts_->columns(s) + fronts_->below(s) + 1)])));
    return 2 * product.log();
}

template <class T> void Cholesky<T>::write(T* entries) const {
    for (Index s = 0; s < fronts_->count(); s++) {
        const Index c = fronts_->columns(s), m = c + fronts_->below(s);
        const T* panel = l_.data() + fronts_->panel_starts[s];
        for (Index j = 0; j < c; j++) entries = std::copy(panel + j * m + j, panel + (j + 1) * m, entries);
    }
}

// -- solves ----------------------------------------------------------------------------------------

// x_r <- x_r - sum_j l(r, j) y(j) for rows of `width` numbers, `together` rows at a time, in registers and independent of each other.
template <int width, int together, class T, class L, class At> static inline void subtract(T* const (&rows)[together], Index count, L l, At y) {
    T own[together][std::max(width, 1)];
    for (int r = 0; r < together; r++)
        for (int q = 0; q < width; q++) own[r][q] = rows[r][q];
    for (Index j = 0; j < count; j++) {
        const T* x = y(j);
        for (int r = 0; r < together; r++) {
            const T by = l(r, j);
            for (int q = 0; q < width; q++) own[r][q] -= times(by, x[q]);
        }
    }
    for (int r = 0; r < together; r++)
        for (int q = 0; q < width; q++) rows[r][q] = own[r][q];
}

// The same for all rows x(i), i < many, with l(i, j).
template <int width, class T, class Row, class L, class At> static inline void subtract_all(Index many, Row x, Index count, L l, At y) {
    Index i = 0;
    for (; i + 2 <= many; i += 2) {
        T* const rows[] = {x(i), x(i + 1)};
        subtract<width>(rows, count, [=](int r, Index j) { return l(i + r, j); }, y);
    }
    for (; i < many; i++) {
        T* const rows[] = {x(i)};
        subtract<width>(rows, count, [=](int, Index j) { return l(i, j); }, y);
    }
}

template <int width> static bool by_loops(Index c, Index r) { return width && (r <= SHORT || (width > 1 ? c * width <= FEW : c <= NARROW)); }

// X1 <- L11^-1 X1, and L21 X1 is subtracted from the rows below. X has `width` columns, row by row, or k, which are columns of X^T.
template <class T> template <int width> void Cholesky<T>::forward(Index s, T* x, Index k, T* block) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T* panel = l_.data() + fronts_->panel_starts[s];
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    T* own = x + fronts_->starts[s] * k;
    auto l = [=](Index i, Index j) { return panel[j * m + i]; };
    auto at = [=](Index j) { return own + j * width; };
    if constexpr (width == 0)
        Kernels<T>::right_solve(k, c, panel, m, own, k, 'T');
    else
        for (Index i = 0; i < c; i++) {
            T* const row[] = {at(i)};
            if (width > 1) subtract<width>(row, i, [=](int, Index j) { return l(i, j); }, at);
            const R by = 1 / std::real(l(i, i));
            for (int q = 0; q < width; q++) row[0][q] *= by;
            for (Index j = i + 1; width == 1 && j < c; j++) own[j] -= times(l(j, i), own[i]);  // beside each other in memory
        }
    if (by_loops<width>(c, r)) {
        subtract_all<width, T>(r, [=](Index i) { return x + rows[i] * width; }, c, [=](Index i, Index j) { return l(c + i, j); }, at);
        return;
    }
    if constexpr (width == 1)
        Kernels<T>::apply('N', r, c, T(1), panel + c, m, own, T(0), block);
    else
        Kernels<T>::multiply('N', 'T', k, r, c, T(1), own, k, panel + c, m, T(0), block, k);
    for (Index i = 0; i < r; i++)
        for (Index q = 0; q < k; q++) x[rows[i] * k + q] -= block[i * k + q];
}

// X1 <- L11^-T (X1 - L21^T X2), of conjugated X, where numbers are complex.
template <class T> template <int width> void Cholesky<T>::backward(Index s, T* x, Index k, T* block) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T* panel = l_.data() + fronts_->panel_starts[s];
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    T* own = x + fronts_->starts[s] * k;
    const bool in_loops = by_loops<width>(c, r);
    for (Index i = 0; !in_loops && i < r; i++) std::copy(x + rows[i] * k, x + (rows[i] + 1) * k, block + i * k);
    if (width == 1 && !in_loops)
        Kernels<T>::apply('T', r, c, T(-1), panel + c, m, block, T(1), own);
    else if (r && !in_loops)
        Kernels<T>::multiply('N', 'N', k, c, r, T(-1), block, k, panel + c, m, T(1), own, k);
    if constexpr (width == 0)
        Kernels<T>::right_solve(k, c, panel, m, own, k, 'N');
    else {
        auto at = [=](Index j) { return own + j * width; };
        if (in_loops) subtract_all<width, T>(c, at, r, [=](Index j, Index i) { return panel[j * m + c + i]; }, [=](Index i) { return x + rows[i] * width; });
        for (Index j = c - 1; j >= 0; j--) {
            const T* column = panel + j * m;
            T* const row[] = {at(j)};
            subtract<width>(row, c - 1 - j, [=](int, Index i) { return column[j + 1 + i]; }, [=](Index i) { return at(j + 1 + i); });
            const R by = 1 / std::real(column[j]);
            for (int q = 0; q < width; q++) row[0][q] *= by;
        }
    }
}

template <class T> bool Cholesky<T>::solve(T* x, Index k, char part, bool conjugated, Team& team) const {
    return by_width(k, [&](auto width) { return this->template solve<width>(x, k, part, conjugated, team); });
}

template <class T> template <int width>
bool Cholesky<T>::solve(T* x, Index k, char part, bool conjugated, Team& team) const {
    if (k == 0 || fronts_->n == 0) return true;
    Index most = 0;
    for (Index s = 0; s < fronts_->count(); s++) most = std::max(most, fronts_->below(s));
    Buffer<T> block(most * k);
    const Index numbers = fronts_->n * k;
    InterruptPoll poll(team);
    auto should_continue = [&](Index s) { return poll.after((fronts_->panel_starts[s + 1] - fronts_->panel_starts[s]) * k); };
    if (conjugated) conjugate(x, numbers);
    if (part != 'H')
        for (Index s = 0; s < fronts_->count(); s++) {
            if (!should_continue(s)) return false;
            forward<width>(s, x, k, block.data());
        }
    if (part != 'L') {
        conjugate(x, numbers);
        for (Index s = fronts_->count() - 1; s >= 0; s--) {
            if (!should_continue(s)) return false;
            backward<width>(s, x, k, block.data());
        }
        conjugate(x, numbers);
    }
    if (conjugated) conjugate(x, numbers);
    return true;
}

#define FOR(T) template class Cholesky<T>;
EACH_NUMBER(FOR)
