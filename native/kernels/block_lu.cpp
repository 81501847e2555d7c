#include "block_lu.hpp"

#include "blas.hpp"
#include "pivot_product.hpp"
#include "tree_order.hpp"

// The slots of A in both panels; a slot to the right of its diagonal block is in the panel of its row.
template <class T> void BlockLu<T>::scatter(const T* values, Panels<T>& panels) const {
    const Fronts& f = *fronts_;
    panels.grow(f.entries());
    std::fill(panels.lower.data(), panels.lower.data() + f.entries(), T(0));
    std::fill(panels.upper.data(), panels.upper.data() + f.entries(), T(0));
    for (size_t e = 0; e < f.both.size(); e++) (f.both[e] >= 0 ? panels.lower[f.both[e]] : panels.upper[~f.both[e]]) = values[e];
}

template <class T> void BlockLu<T>::add_children(Index s, const Panels<T>& panels, T* update, const std::vector<T*>& updates) const {
    const Fronts& f = *fronts_;
    const Index c = f.columns(s), r = f.below(s), m = c + r;
    T *lower = panels.lower.data() + f.panel_starts[s], *upper = panels.upper.data() + f.panel_starts[s];
    if (f.child[s] != -1) std::fill(update, update + r * r, T(0));
    for (Index d = f.child[s]; d != -1; d = f.sibling[d]) {
        const Index *at = f.relative.data() + f.row_starts[d], size = f.below(d);
        Index own = 0;  // rows that are columns of s
        while (own < size && at[own] < c) own++;
        for (Index j = 0; j < size; j++) {
            const T* from = updates[d] + j * size;
            if (j < own) {
                T* to = lower + at[j] * m;
                for (Index i = 0; i < size; i++) to[at[i]] += from[i];
                continue;
            }
            for (Index i = 0; i < own; i++) upper[at[i] * m + at[j]] += from[i];
            T* to = update + (at[j] - c) * r - c;
            for (Index i = own; i < size; i++) to[at[i]] += from[i];
        }
    }
}

template <class T> bool BlockLu<T>::factor(const T* values, Team& team) {
    scatter(values, f_);
    pivots_.resize(fronts_->n);
    auto assemble = [&](Index s, T* update, const std::vector<T*>& updates) { add_children(s, f_, update, updates); };
    return leaves_to_roots<T>(*fronts_, team, assemble, [&](Index s, T* update, int t) {
        if (eliminate(s, update, team, t)) return true;
        if (team.should_continue(t)) refused_ = s;
        return false;
    });
}

template <class T> bool BlockLu<T>::eliminate(Index s, T* update, Team& team, int t) {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r, begin = fronts_->panel_starts[s];
    T *lower = f_.lower.data() + begin, *upper = f_.upper.data() + begin, beta = fronts_->child[s] != -1 ? 1 : 0;
    if (!Kernels<T>::lu(c, lower, m, pivots_.data() + fronts_->starts[s])) return false;
    for (Index j = 0; j < c; j++)
        if (!all_finite(lower + j * m, c)) return false;
    // the product reads F12, so U = D^-1 F12 overwrites it only afterwards
    auto left = [&](Index from, Index to) { by_block<false>(s, lower + c + from, to - from, m); };
    auto product = [&](Index from, Index to) {
        Kernels<T>::multiply('N', 'T', r, to - from, c, T(-1), lower + c, m, upper + c + from, m, beta, update + from * r, r);
    };
    auto right = [&](Index from, Index to) { by_block<true>(s, upper + c + from, to - from, m); };
    return split_rows(*fronts_, s, r, team, t, left) && split_rows(*fronts_, s, r, team, t, product) && split_rows(*fronts_, s, r, team, t, right);
}

// P_c ... P_1 D = L11 U11 with exchanges P_k of rows: X D^-1 = X U11^-1 L11^-1 P_c ... P_1, and X D^-T = X P_1 ... P_c L11^-T U11^-T
template <class T> template <bool transposed> void BlockLu<T>::by_block(Index s, T* x, Index rows, Index ldx) const {
    const Index c = fronts_->columns(s), m = c + fronts_->below(s);
    const T* d = f_.lower.data() + fronts_->panel_starts[s];
    const int* pivots = pivots_.data() + fronts_->starts[s];
    auto divide = [&](char which) { Kernels<T>::right_divide(rows, c, d, m, x, ldx, which, transposed ? 'T' : 'N'); };
    if (!transposed) divide('U'), divide('L');
    for (Index i = 0; i < c; i++) {
        const Index k = transposed ? i : c - 1 - i, other = pivots[k] - 1;
        if (other != k) std::swap_ranges(x + k * ldx, x + k * ldx + rows, x + other * ldx);
    }
    if (transposed) divide('L'), divide('U');
}

template <class T> double BlockLu<T>::log_det(T& sign) const {
    PivotProduct<Wide<T>> product;
    for (Index s = 0; s < fronts_->count(); s++) {
        const Index c = fronts_->columns(s), m = c + fronts_->below(s);
        const T* d = f_.lower.data() + fronts_->panel_starts[s];
        for (Index j = 0; j < c; j++) {
            const Wide<T> pivot(d[j * (m + 1)]);
            product.take(pivots_[fronts_->starts[s] + j] - 1 == j ? pivot : -pivot);
        }
    }
    sign = T(product.sign());
    return product.log();
}

// -- solves ----------------------------------------------------------------------------------------

// Rows of X are columns here. X2 -= L X1, or transposed X2 -= U^T X1.
template <class T> void BlockLu<T>::forward(Index s, T* x, Index k, bool transposed, T* block) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T* panel = (transposed ? f_.upper : f_.lower).data() + fronts_->panel_starts[s] + c;
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    Kernels<T>::multiply('N', 'T', k, r, c, T(1), x + fronts_->starts[s] * k, k, panel, m, T(0), block, k);
    for (Index i = 0; i < r; i++)
        for (Index q = 0; q < k; q++) x[rows[i] * k + q] -= block[i * k + q];
}

// X1 = D^-1 X1 - U X2, or transposed X1 = D^-T X1 - L^T X2.
template <class T> void BlockLu<T>::backward(Index s, T* x, Index k, bool transposed, T* block) const {
    const Index c = fronts_->columns(s), r = fronts_->below(s), m = c + r;
    const T* panel = (transposed ? f_.lower : f_.upper).data() + fronts_->panel_starts[s] + c;
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    T* own = x + fronts_->starts[s] * k;
    transposed ? by_block<false>(s, own, k, k) : by_block<true>(s, own, k, k);
    for (Index i = 0; i < r; i++) std::copy(x + rows[i] * k, x + (rows[i] + 1) * k, block + i * k);
    if (r) Kernels<T>::multiply('N', 'N', k, c, r, T(-1), block, k, panel, m, T(1), own, k);
}

template <class T> bool BlockLu<T>::solve(T* x, Index k, bool transposed, Team& team) const {
    if (k == 0) return true;
    Index most = 0;
    for (Index s = 0; s < fronts_->count(); s++) most = std::max(most, fronts_->below(s));
    Buffer<T> block(most * k);
    for (Index s = 0; s < fronts_->count() && team.should_continue(0); s++) forward(s, x, k, transposed, block.data());
    for (Index s = fronts_->count() - 1; s >= 0 && team.should_continue(0); s--) backward(s, x, k, transposed, block.data());
    return team.should_continue(0);
}

#define FOR(T) template class BlockLu<T>;
EACH_NUMBER(FOR)
