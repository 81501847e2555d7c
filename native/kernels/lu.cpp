// Left-looking LU, column by column (Gilbert, Peierls): x = L \ a_k, where only the nonzeros of x are computed. A depth-first search of
// the graph of L finds them; the graph is pruned where the pattern is symmetric (Eisenstat, Liu).
// References: Gilbert, Peierls, SIAM J. Sci. Stat. Comput. 9 (1988); Eisenstat, Liu, SIAM J. Matrix Anal. Appl. 14 (1993).
#include "lu.hpp"

#include <algorithm>

#include "columns.hpp"

namespace {

constexpr Row NONE = -1;

// x / d for the entries x below one pivot d.
template <class R> struct Over {
    R d;
    R operator()(R x) const { return x / d; }
};
template <class R> struct Over<std::complex<R>> {
    explicit Over(std::complex<R> d) : inverse(R(1) / d) {}
    std::complex<R> inverse;
    std::complex<R> operator()(std::complex<R> x) const { return times(x, inverse); }
};

template <class T> class Elimination {
    using R = Real<T>;

  public:
    Elimination(const LuAnalysis& a, const T* m, R threshold, Lu<T>& into)
        : a_(a), m_(m), threshold_(threshold), to_(into), p_(std::make_shared<Pivots>()), x_(a.n, T(0)), pivot_of_(a.n, NONE),
          diagonal_(a.n), column_of_(a.n), seen_(a.n, NONE), at_(a.n), end_(a.n), order_(a.n) {
        p_->place.resize(a.n);
        p_->l_start.assign(1, 0);
        p_->u_start.assign(1, 0);
        size_t half = size_t(std::min(a.entries / 2 + a.n, 1e9));
        for (auto* rows : {&p_->l_row, &p_->u_row}) rows->reserve(half);
        for (auto* values : {&to_.l, &to_.u}) {
            values->clear();
            values->reserve(half);
        }
        to_.d.resize(a.n);
        for (Row k = 0; k < a.n; k++) diagonal_[k] = column_of_[k] = k;
    }

    bool run() {
        for (Row k = 0; k < a_.n; k++) {
            search(k);
            eliminate();
            if (!pivot(k)) return false;
            prune(k);
        }
        for (Row& r : p_->l_row) r = pivot_of_[r];
        by_pivots(a_.inside.rows, p_->inside_row);
        by_pivots(a_.above.rows, p_->above_row);
        to_.pivots = std::move(p_);
        return true;
    }

  private:
    // Find the entries of x = L \ a_k that may not be zero: pivots in the order of elimination, order_[top_ ..], and other rows after the end of L.
    void search(Row k) {
        top_ = a_.n;
        for (Index e = a_.inside.starts[k]; e < a_.inside.starts[k + 1]; e++) {
            Row r = a_.inside.rows[e];
            if (seen_[r] != k) descend(r, k);
            x_[r] = m_[a_.inside_slot[e]];
        }
    }

    void descend(Row start, Row k) {
        stack_.clear();
        visit(start, k);
        while (!stack_.empty()) {
            Row j = stack_.back();
            Index& at = at_[j];
            bool deeper = false;
            while (at < end_[j] && !deeper) {
                Row r = p_->l_row[at++];
                deeper = seen_[r] != k && visit(r, k);
            }
            if (deeper) continue;
            stack_.pop_back();
            order_[--top_] = j;
        }
    }

    bool visit(Row r, Row k) {
        seen_[r] = k;
        Row j = pivot_of_[r];
        if (j == NONE) {
            p_->l_row.push_back(r);
            return false;
        }
        at_[j] = p_->l_start[j];
        stack_.push_back(j);
        return true;
    }

    void eliminate() {
        for (Row t = top_; t < a_.n; t++) {
            Row j = order_[t];
            T& top = x_[p_->place[j]];
            T u = top;
            top = T(0);
            p_->u_row.push_back(j);
            to_.u.push_back(u);
            const Row* rows = p_->l_row.data();
            const T* l = to_.l.data();
            for (Index e = p_->l_start[j]; e < p_->l_start[j + 1]; e++) x_[rows[e]] -= times(l[e], u);  // x <- x - l_j u_jk
        }
        p_->u_start.push_back(Index(p_->u_row.size()));
    }

    bool pivot(Row k) {
        Index start = p_->l_start[k], end = Index(p_->l_row.size());
        Row diagonal = diagonal_[k];
        Index best = -1, on_diagonal = -1;
        R most = 0;
        for (Index e = start; e < end; e++) {
            Row r = p_->l_row[e];
            R size = weight(x_[r]);
            if (size > most) {
                most = size;
                best = e;
            }
            if (r == diagonal) on_diagonal = e;
        }
        if (best < 0 || !(most <= std::numeric_limits<R>::max())) return false;
        if (on_diagonal >= 0 && weight(x_[diagonal]) >= threshold_ * most && weight(x_[diagonal]) > 0) best = on_diagonal;
        Row row = p_->l_row[best];
        T d = x_[row];
        x_[row] = T(0);
        std::swap(p_->l_row[best], p_->l_row[end - 1]);
        p_->l_row.pop_back();
        Over<T> over{d};
        for (Index e = start; e < end - 1; e++) {
            T& x = x_[p_->l_row[e]];
            to_.l.push_back(over(x));  // l_k = x / d_k
            x = T(0);
        }
        if (row != diagonal) {  // exchange the diagonal rows of column k and of the column to which `row` belonged
            Row other = column_of_[row];
            diagonal_[other] = diagonal;
            column_of_[diagonal] = other;
            column_of_[row] = k;
            diagonal_[k] = row;
        }
        to_.d[k] = d;
        p_->place[k] = row;
        pivot_of_[row] = k;
        p_->l_start.push_back(end - 1);
        end_[k] = end - 1;
        return true;
    }

    // Symmetric pruning: if u_jk and l_kj are nonzeros, column k reaches all rows of column j below k, so that the search may skip them in j.
    void prune(Row k) {
        Row row = p_->place[k];
        for (Index t = p_->u_start[k]; t < p_->u_start[k + 1]; t++) {
            Row j = p_->u_row[t];
            Index start = p_->l_start[j], end = p_->l_start[j + 1];
            if (end_[j] != end || std::find(p_->l_row.begin() + start, p_->l_row.begin() + end, row) == p_->l_row.begin() + end) continue;
            Index low = start, high = end;
            while (low < high) {
                if (pivot_of_[p_->l_row[low]] != NONE)
                    low++;
                else {
                    high--;
                    std::swap(p_->l_row[low], p_->l_row[high]);
                    std::swap(to_.l[low], to_.l[high]);
                }
            }
            end_[j] = high;
        }
    }

    void by_pivots(const std::vector<Row>& places, std::vector<Row>& rows) const {
        rows.resize(places.size());
        for (size_t e = 0; e < places.size(); e++) rows[e] = pivot_of_[places[e]];
    }

    const LuAnalysis& a_;
    const T* m_;
    const R threshold_;
    Lu<T>& to_;
    std::shared_ptr<Pivots> p_;
    std::vector<T> x_;
    std::vector<Row> pivot_of_, diagonal_, column_of_, seen_;
    std::vector<Index> at_, end_;  // of each column of L: the position of the search, and the end of its pruned part
    std::vector<Row> order_, stack_;
    Row top_ = 0;
};

}  // namespace

size_t Pivots::nbytes() const {
    size_t rows = place.size() + l_row.size() + u_row.size() + inside_row.size() + above_row.size();
    return rows * sizeof(Row) + (l_start.size() + u_start.size()) * sizeof(Index) + powers.size() * sizeof(int);
}

template <class T> bool Lu<T>::factor(const LuAnalysis& analysis, const T* m, R threshold) {
    if (analysis.is_singular || !Elimination<T>(analysis, m, threshold, *this).run()) return false;
    invert(d.data(), analysis.n);
    take_above(analysis, m, f);
    return true;
}

template <class T> bool Lu<T>::refactor(const LuAnalysis& a, const T* m, std::shared_ptr<const Pivots> given, R least) {
    const Pivots& p = *given;
    l.resize(p.l_row.size());
    u.resize(p.u_row.size());
    d.resize(a.n);
    std::vector<T> room(a.n, T(0));
    T* x = room.data();
    for (Row k = 0; k < a.n; k++) {
        for (Index e = a.inside.starts[k]; e < a.inside.starts[k + 1]; e++) x[p.inside_row[e]] = m[a.inside_slot[e]];
        for (Index t = p.u_start[k]; t < p.u_start[k + 1]; t++) {
            Row j = p.u_row[t];
            T top = u[t] = x[j];
            x[j] = T(0);
            for (Index e = p.l_start[j]; e < p.l_start[j + 1]; e++) x[p.l_row[e]] -= times(l[e], top);  // x <- x - l_j u_jk
        }
        T pivot = d[k] = x[k];
        x[k] = T(0);
        R most = 0;
        Over<T> over{pivot};
        for (Index e = p.l_start[k]; e < p.l_start[k + 1]; e++) {
            T& below = x[p.l_row[e]];
            most = std::max(most, weight(below));
            l[e] = over(below);  // l_k = x / d_k
            below = T(0);
        }
        R size = weight(pivot);
        if (!(size > 0) || !(size >= least * most) || size > std::numeric_limits<R>::max()) return false;
    }
    invert(d.data(), a.n);
    take_above(a, m, f);
    pivots = std::move(given);
    return true;
}

template <class T> template <int width> void LuParts<T>::solve(const LuAnalysis& a, T* y, T* z, char op) const {
    const Row n = a.n;
    auto at = [](T* v, Index i) { return v + i * width; };
    auto subtract = [](T* __restrict from, T s, const T* __restrict v) {
        for (int c = 0; c < width; c++) from[c] -= times(s, v[c]);
    };
    auto set = [](T* to, const T* v) {
        for (int c = 0; c < width; c++) to[c] = v[c];
    };
    auto multiply = [](T* v, T s) {
        for (int c = 0; c < width; c++) v[c] = times(s, v[c]);
    };
    Row blocks = Row(a.block_start.size()) - 1;
    if (op == 'N') {
        // z = P y
        for (Row k = 0; k < n; k++) std::copy(at(y, place[k]), at(y, place[k]) + width, at(z, k));
        for (Row b = blocks - 1; b >= 0; b--) {
            Row first = a.block_start[b], last = a.block_start[b + 1];
            for (Row k = first; k < last; k++)  // z = L \ z
                for (Index e = l_start[k]; e < l_start[k + 1]; e++) subtract(at(z, l_row[e]), l[e], at(z, k));
            for (Row k = last - 1; k >= first; k--) {  // z = U \ z
                multiply(at(z, k), inv_d[k]);
                for (Index t = u_start[k]; t < u_start[k + 1]; t++) subtract(at(z, u_row[t]), u[t], at(z, k));
                for (Index e = a.above.starts[k]; e < a.above.starts[k + 1]; e++) subtract(at(z, above_row[e]), f[e], at(z, k));
            }
        }
        std::copy(z, z + Index(n) * width, y);
        return;
    }
    bool conjugated = Scalar<T>::is_complex && op == 'H';
    auto entry = [&](T x) { return conjugated ? conj_of(x) : x; };
    T own[width];  // of a row, in registers
    std::copy(y, y + Index(n) * width, z);
    for (Row b = 0; b < blocks; b++) {
        Row first = a.block_start[b], last = a.block_start[b + 1];
        for (Row k = first; k < last; k++) {  // z = U^T \ (z - F^T z)
            set(own, at(z, k));
            for (Index e = a.above.starts[k]; e < a.above.starts[k + 1]; e++) subtract(own, entry(f[e]), at(z, above_row[e]));
            for (Index t = u_start[k]; t < u_start[k + 1]; t++) subtract(own, entry(u[t]), at(z, u_row[t]));
            multiply(own, entry(inv_d[k]));
            set(at(z, k), own);
        }
        for (Row k = last - 1; k >= first; k--) {  // z = L^T \ z
            set(own, at(z, k));
            for (Index e = l_start[k]; e < l_start[k + 1]; e++) subtract(own, entry(l[e]), at(z, l_row[e]));
            set(at(z, k), own);
        }
    }
    for (Row k = 0; k < n; k++) std::copy(at(z, k), at(z, k) + width, at(y, place[k]));
}

#define SOLVES(T)                                                                       \
    template struct Lu<T>;                                                              \
    template void LuParts<T>::solve<1>(const LuAnalysis&, T*, T*, char) const;               \
    template void LuParts<T>::solve<2>(const LuAnalysis&, T*, T*, char) const;               \
    template void LuParts<T>::solve<4>(const LuAnalysis&, T*, T*, char) const;               \
    template void LuParts<T>::solve<8>(const LuAnalysis&, T*, T*, char) const;
EACH_NUMBER(SOLVES)
