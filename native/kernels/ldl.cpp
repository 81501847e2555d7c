#include "ldl.hpp"

#include "columns.hpp"
#include "pivot_product.hpp"
#include "pivots.hpp"
#include "tree_order.hpp"

constexpr Index FEW = 512;  // multiplications up to which loops are faster than BLAS

template <class T> bool Ldl<T>::factor(const T* values, Team& team) {
    const Fronts& f = *fronts_;
    panels_.grow(f.entries());
    order_.resize(f.n);
    all_ = std::vector<Front>(f.count());
    std::vector<PivotsWork<T>> works(team.size());
    auto join = [&](Index s, T* update, const std::vector<T*>& updates) { assemble_front(s, values, update, updates); };
    bool ok = leaves_to_roots<T>(f, team, join, [&](Index s, T* update, int t) {
        PivotsWork<T>& work = works[std::max(t, 0)];
        if (!by_kind([&](auto hermitian) { return eliminate<hermitian.value>(s, update, work, team, t); })) return false;
        if (f.parent[s] != -1 || all_[s].done == all_[s].c) return true;
        refused_ = s;
        return false;
    });
    T sign;
    if (!ok) return false;
    if (std::isfinite(log_det(sign))) return true;
    refused_ = 0;
    return false;
}

// -- fronts ------------------------------------------------------------------------------------------

template <class T> void Ldl<T>::assemble_front(Index s, const T* values, T* update, const std::vector<T*>& updates) {
    const Fronts& f = *fronts_;
    const Index planned = f.columns(s), r = f.below(s), begin = f.panel_starts[s];
    Front& front = all_[s];
    Index inherited = 0;
    for (Index d = f.child[s]; d != -1; d = f.sibling[d]) inherited += all_[d].c - all_[d].done;
    front.c = planned + inherited;
    front.panel = panels_.data() + begin;
    front.order = order_.data() + f.starts[s];
    if (inherited) {
        front.own_order.resize(front.c);
        front.panel = front.own.grow(front.c * (front.c + r));
        front.order = front.own_order.data();
    }
    for (Index j = 0; j < planned; j++) front.order[j] = f.starts[s] + j;
    if (!inherited) return assemble(f, s, values, front.panel, update, updates);
    const Index m = front.c + r, height = planned + r;
    std::fill(front.panel, front.panel + front.c * m, T(0));
    for (Index e = f.slot_starts[f.starts[s]]; e < f.slot_starts[f.starts[s + 1]]; e++)
        if (f.place[e] >= 0) {
            const Index j = (f.place[e] - begin) / height, i = (f.place[e] - begin) % height;
            front.panel[j * m + (i < planned ? i : i + inherited)] = values[e];
        }
    for (Index j = 0; j < r; j++) std::fill(update + j * r + j, update + (j + 1) * r, T(0));
    Index at = planned;
    for (Index d = f.child[s]; d != -1; d = f.sibling[d]) {
        add_child(s, d, at, updates[d], update);
        for (Index j = all_[d].done; j < all_[d].c; j++) front.order[at++] = all_[d].order[j];
    }
}

// Extend-add: the update of the child d, and its delayed columns, which begin at column `delayed_at` of this front.
template <class T> void Ldl<T>::add_child(Index s, Index d, Index delayed_at, const T* from, T* update) const {
    const Fronts& f = *fronts_;
    const Front &front = all_[s], &child = all_[d];
    const Index planned = f.columns(s), inherited = front.c - planned, r = f.below(s), m = front.c + r, size = f.below(d);
    const Index *relative = f.relative.data() + f.row_starts[d], height = rows_of(d, child), delayed = child.c - child.done;
    auto place = [&](Index i) { return relative[i] < planned ? relative[i] : relative[i] + inherited; };
    auto column = [&](Index j) { return j < front.c ? front.panel + j * m : update + (j - front.c) * r - front.c; };
    for (Index j = 0; j < size; j++) {
        T* to = column(place(j));
        for (Index i = j; i < size; i++) to[place(i)] += from[j * size + i];
    }
    for (Index j = 0; j < delayed; j++) {
        const T *of_delayed = child.panel + (child.done + j) * height + child.done, *below = of_delayed + delayed;
        T* to = column(delayed_at + j);
        for (Index i = j; i < delayed; i++) to[delayed_at + i] += of_delayed[i];
        for (Index i = 0; i < size; i++) {
            const Index at = place(i);
            if (at > delayed_at + j)
                to[at] += below[i];
            else
                column(at)[delayed_at + j] += is_hermitian_ ? conj_of(below[i]) : below[i];
        }
    }
}

template <class T> template <bool hermitian> bool Ldl<T>::eliminate(Index s, T* update, PivotsWork<T>& work, Team& team, int t) {
    Front& front = all_[s];
    const bool together = t < 0 && fronts_->work(s) > SHARED_FRONT;
    PivotedFront<T, hermitian> pivoted(front.c, rows_of(s, front), front.panel, front.order, u_, work, team, together);
    front.done = pivoted.run();
    return front.done >= 0 && pivoted.update(update, fronts_->child[s] != -1 ? 1 : 0);
}

// -- as arrays ---------------------------------------------------------------------------------------

template <class T> void Ldl<T>::copy_panels() {
    Buffer<T> own(panels_.size());
    std::copy(panels_.data(), panels_.data() + panels_.size(), own.data());
    for (Index s = 0; s < fronts_->count(); s++)
        if (!all_[s].own.size()) all_[s].panel = own.data() + fronts_->panel_starts[s];
    panels_ = std::move(own);
}

template <class T> bool Ldl<T>::write_order(int* order) const {
    std::copy(order_.begin(), order_.end(), order);
    return delayed() == 0;
}

template <class T> void Ldl<T>::read_order(const int* order) {
    const Fronts& f = *fronts_;
    order_.assign(order, order + f.n);
    all_ = std::vector<Front>(f.count());
    for (Index s = 0; s < f.count(); s++) {
        all_[s].c = all_[s].done = f.columns(s);
        all_[s].panel = panels_.data() + f.panel_starts[s];
        all_[s].order = order_.data() + f.starts[s];
    }
}

// -- D -----------------------------------------------------------------------------------------------

// visit(a, 0, 0) for each pivot of one row, visit(a, b, c) for each pivot of two.
template <class T> template <class Visit> void Ldl<T>::each_pivot(Visit visit) const {
    for (Index s = 0; s < fronts_->count(); s++) {
        const Front& front = all_[s];
        const Index m = rows_of(s, front);
        for (Index j = 0; j < front.done; j++) {
            const T *d = front.panel + j * (m + 1), b = j + 1 < front.done ? d[m] : T(0);
            visit(d[0], b, b == T(0) ? T(0) : d[m + 1]);
            if (b != T(0)) j++;
        }
    }
}

template <class T> double Ldl<T>::log_det(T& sign) const {
    PivotProduct<std::complex<double>> product;
    each_pivot([&](T a, T b, T c) {
        if (b == T(0)) return product.take(a);
        // det D / |b|^2
        const double size = double(std::abs(b));
        const std::complex<double> x(a), y(b), z(c), other = is_hermitian_ ? std::conj(y) : y;
        product.take(x / size * (z / size) - y / size * (other / size));
        product.take(size);
        product.take(size);
    });
    if constexpr (Scalar<T>::is_complex) sign = T(product.sign());
    else sign = T(product.sign().real());
    return product.log();
}

template <class T> Signs Ldl<T>::signs() const {
    Signs found;
    each_pivot([&](T a, T b, T c) {
        const double x = std::real(a), size = double(std::abs(b)), z = std::real(c);
        // a pivot of two rows with det D < 0 has one positive and one negative eigenvalue
        const bool is_definite = b != T(0) && x / size * (z / size) > 1;
        if (b != T(0) && !is_definite) return void((found.positive++, found.negative++));
        (x > 0 ? found.positive : found.negative) += is_definite ? 2 : 1;
    });
    return found;
}

template <class T> size_t Ldl<T>::nbytes() const {
    size_t total = size_t(panels_.size()) * sizeof(T) + order_.size() * sizeof(Index) + all_.size() * sizeof(Front);
    for (const Front& front : all_) total += size_t(front.own.size()) * sizeof(T) + front.own_order.size() * sizeof(Index);
    return total;
}

template <class T> Index Ldl<T>::delayed() const {
    Index count = 0;
    for (const Front& front : all_) count += front.c - front.done;
    return count;
}

// -- solves ------------------------------------------------------------------------------------------

// k columns of X for each row of D: X <- D^-1 X
template <class T> template <bool hermitian, class K> void Ldl<T>::divide(const Front& front, Index m, T* x, K k) const {
    for (Index j = 0; j < front.done; j++) {
        const T *d = front.panel + j * (m + 1), b = j + 1 < front.done ? d[m] : T(0);
        T* own = x + j * k;
        if (b == T(0)) {
            for (Index q = 0; q < k; q++) own[q] /= d[0];
            continue;
        }
        const Pair<T, hermitian> pair(d[0], b, d[m + 1]);
        for (Index q = 0; q < k; q++) pair.solve(own[q], own[q + k]);
        j++;
    }
}

// Rows of X are columns here: X1^T <- X1^T L11^-T, X1^T L21^T is subtracted from the rows below, and X1 <- D^-1 X1.
template <class T> template <bool hermitian, class K> void Ldl<T>::forward(Index s, T* x, K k, T* own, T* block) const {
    const Front& front = all_[s];
    const Index e = front.done, delayed = front.c - e, m = rows_of(s, front), r = m - e;
    const T* panel = front.panel;
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    for (Index j = 0; j < e; j++) std::copy(x + front.order[j] * k, x + (front.order[j] + 1) * k, own + j * k);
    if (e * m * k < FEW) {
        std::fill(block, block + r * k, T(0));
        for (Index j = 0; j < e; j++) {
            const T *column = panel + j * m, *by = own + j * k;
            for (Index i = j + 1; i < e; i++)
                for (Index q = 0; q < k; q++) own[i * k + q] -= times(column[i], by[q]);
            for (Index i = 0; i < r; i++)
                for (Index q = 0; q < k; q++) block[i * k + q] += times(column[e + i], by[q]);
        }
    } else if (k == 1) {
        for (Index j = 0; j < e; j++)
            for (Index i = j + 1; i < e; i++) own[i] -= times(panel[j * m + i], own[j]);
        if (r) Kernels<T>::apply('N', r, e, T(1), panel + e, m, own, T(0), block);
    } else {
        Kernels<T>::right_divide(k, e, panel, m, own, k, 'L', 'T');
        Kernels<T>::multiply('N', 'T', k, r, e, T(1), own, k, panel + e, m, T(0), block, k);
    }
    for (Index i = 0; i < r; i++) {
        T* to = x + (i < delayed ? front.order[e + i] : rows[i - delayed]) * k;
        for (Index q = 0; q < k; q++) to[q] -= block[i * k + q];
    }
    divide<hermitian>(front, m, own, k);
    for (Index j = 0; j < e; j++) std::copy(own + j * k, own + (j + 1) * k, x + front.order[j] * k);
}

// X1^T <- (X1^T - X2^T L21) L11^-1, of conjugated X, where A is Hermitian.
template <class T> template <class K> void Ldl<T>::backward(Index s, T* x, K k, T* own, T* block) const {
    const Front& front = all_[s];
    const Index e = front.done, delayed = front.c - e, m = rows_of(s, front), r = m - e;
    const T* panel = front.panel;
    const Index* rows = fronts_->rows.data() + fronts_->row_starts[s];
    for (Index j = 0; j < e; j++) std::copy(x + front.order[j] * k, x + (front.order[j] + 1) * k, own + j * k);
    for (Index i = 0; i < r; i++) {
        const T* from = x + (i < delayed ? front.order[e + i] : rows[i - delayed]) * k;
        std::copy(from, from + k, block + i * k);
    }
    if (e * m * k < FEW) {
        for (Index j = e - 1; j >= 0; j--) {
            const T* column = panel + j * m;
            T* to = own + j * k;
            for (Index i = 0; i < r; i++)
                for (Index q = 0; q < k; q++) to[q] -= times(column[e + i], block[i * k + q]);
            for (Index i = j + 1; i < e; i++)
                for (Index q = 0; q < k; q++) to[q] -= times(column[i], own[i * k + q]);
        }
    } else if (k == 1) {
        if (r) Kernels<T>::apply('T', r, e, T(-1), panel + e, m, block, T(1), own);
        for (Index j = e - 1; j >= 0; j--) {
            T sum = own[j];
            for (Index i = j + 1; i < e; i++) sum -= times(panel[j * m + i], own[i]);
            own[j] = sum;
        }
    } else {
        if (r) Kernels<T>::multiply('N', 'N', k, e, r, T(-1), block, k, panel + e, m, T(1), own, k);
        Kernels<T>::right_divide(k, e, panel, m, own, k, 'L', 'N');
    }
    for (Index j = 0; j < e; j++) std::copy(own + j * k, own + (j + 1) * k, x + front.order[j] * k);
}

template <class T> bool Ldl<T>::solve(T* x, Index k, bool conjugated, Team& team) const {
    return by_width(k, [&](auto width) {
        if constexpr (width == 0) return solve_columns(x, k, conjugated, team);
        else return solve_columns(x, std::integral_constant<Index, width>(), conjugated, team);
    });
}

template <class T> template <class K> bool Ldl<T>::solve_columns(T* x, K k, bool conjugated, Team& team) const {
    const Fronts& f = *fronts_;
    if (k == 0 || f.n == 0) return true;
    Index most = 0, widest = 0;
    for (Index s = 0; s < f.count(); s++) {
        most = std::max(most, rows_of(s, all_[s]) - all_[s].done);
        widest = std::max(widest, all_[s].done);
    }
    Buffer<T> block(most * k), own(widest * k);
    if (conjugated) conjugate(x, f.n * k);
    InterruptPoll poll(team);
    for (Index s = 0; s < f.count(); s++) {
        if (!poll.after(all_[s].done * rows_of(s, all_[s]) * k)) return false;
        by_kind([&](auto hermitian) { forward<hermitian.value>(s, x, k, own.data(), block.data()); });
    }
    if (is_hermitian_) conjugate(x, f.n * k);
    for (Index s = f.count() - 1; s >= 0; s--) {
        if (!poll.after(all_[s].done * rows_of(s, all_[s]) * k)) return false;
        backward(s, x, k, own.data(), block.data());
    }
    if (conjugated != is_hermitian_) conjugate(x, f.n * k);
    return true;
}

#define FOR(T) template class Ldl<T>;
EACH_NUMBER(FOR)
