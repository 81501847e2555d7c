// L D L^T or L D L^H of the leading columns of a dense front, with pivots of one or two rows from among them.
//
//     A = L D op(L),  W = L D,  A_iq - L_i op(W_q)  before q is looked at
//
// A pivot d is taken where |L| <= 1 / u in all rows of the front: |d| >= u max_i |a_iq|, or |D^-1| (max_i |a_iq|, max_i |a_ir|) <= 1 / u.
// Rook pivoting: r is the row of the largest entry of column q, then q that of column r, and so on. Columns without a pivot stay behind.
// Reference: Duff, Reid, ACM Trans. Math. Softw. 9 (1983); Ashcraft, Grimes, Lewis, SIAM J. Matrix Anal. Appl. 20 (1998).
#pragma once
#include <algorithm>

#include "blas.hpp"
#include "buffer.hpp"
#include "team.hpp"

// The entry (j, i), if x is the entry (i, j).
template <bool hermitian, class T> T mirrored(T x) {
    if constexpr (hermitian) return conj_of(x);
    else return x;
}

// A pivot D = [[a, op(b)], [b, c]] and its inverse.
template <class T, bool hermitian> struct Pair {
    T a, b, c, inv_a = 0, inv_b = 0, inv_c = 0;  // of D^-1
    bool is_regular = false;  // no cancellation in det D: it is as exact as D

    Pair(T a, T b, T c) : a(a), b(b), c(c) {
        using R = Real<T>;
        const R size = std::max({weight(a), weight(b), weight(c)});
        if (!(size > 0)) return;
        const T p = times(a / size, c / size), q = times(b / size, mirrored<hermitian>(b) / size), det = p - q;
        is_regular = weight(det) >= std::max(weight(p), weight(q)) / 2;
        if (!is_regular) return;
        const T over = R(1) / det / size;
        inv_a = times(c / size, over), inv_b = times(-b / size, over), inv_c = times(a / size, over);
    }
    // (x, y) <- (x, y) D^-1
    void divide(T& x, T& y) const {
        const T first = times(x, inv_a) + times(y, inv_b);
        y = times(x, mirrored<hermitian>(inv_b)) + times(y, inv_c);
        x = first;
    }
    // (x, y) <- D^-1 (x, y)
    void solve(T& x, T& y) const {
        const T first = times(inv_a, x) + times(mirrored<hermitian>(inv_b), y);
        y = times(inv_b, x) + times(inv_c, y);
        x = first;
    }
};

constexpr Index PANEL = 32;  // columns that are eliminated before the others are updated
constexpr Index TILE_OF_FRONT = 64;

// Scratch of one thread.
template <class T> struct PivotsWork {
    Buffer<T> w, first, second, multipliers, product;
};

// A is m x c by columns, its lower triangle. D is on the diagonal, with b of a pair of rows k, k + 1 above it, at (k, k + 1); else 0 is there.
template <class T, bool hermitian> class PivotedFront {
  public:
    using R = Real<T>;

    PivotedFront(Index c, Index m, T* a, Index* order, R u, PivotsWork<T>& work, Team& team, bool together)
        : c_(c), m_(m), a_(a), order_(order), u_(u), work_(work), team_(team), together_(together), w_(work.w.grow(m * std::min(c, PANEL + 1))) {}

    // Return the number of columns that are eliminated; -1 if the team stopped.
    Index run() {
        Index end = c_;  // from here on columns were refused
        T* first = work_.first.grow(m_);
        for (bool progressed = true; progressed;) {
            const Index before = k_;
            while (k_ < end) {
                if (k_ - begin_ >= PANEL && !flush()) return -1;
                if (!take(k_, first)) exchange(k_, --end);
            }
            progressed = k_ > before && end < c_;
            end = c_;
        }
        return flush() ? k_ : -1;
    }

    // (m - c)^2 numbers by columns, lower triangle: update = beta update - L2 op(W2)
    bool update(T* to, T beta) {
        const Index r = m_ - c_;
        if (r == 0) return true;
        T* product = work_.product.grow(r * k_);  // W2 = L2 D
        for (Index j = 0; j < k_;) {
            const T *l = a_ + j * m_ + c_, d = a_[j * m_ + j], b = j + 1 < k_ ? a_[(j + 1) * m_ + j] : T(0);
            T* x = product + j * r;
            if (b == T(0)) {
                for (Index i = 0; i < r; i++) x[i] = times(l[i], d);
                j++;
                continue;
            }
            const T other = mirrored<hermitian>(b), e = a_[(j + 1) * m_ + j + 1], *l2 = l + m_;
            T* y = x + r;
            for (Index i = 0; i < r; i++) {
                x[i] = times(l[i], d) + times(l2[i], b);
                y[i] = times(l[i], other) + times(l2[i], e);
            }
            j += 2;
        }
        return tiles(r, r, k_, a_ + c_, m_, product, r, beta, to, r);
    }

  private:
    // Column q of what is left, of rows from k on.
    void column(Index q, T* w) {
        for (Index i = k_; i < q; i++) w[i] = mirrored<hermitian>(a_[i * m_ + q]);
        std::copy(a_ + q * m_ + q, a_ + (q + 1) * m_, w + q);
        const Index count = k_ - begin_;
        if (count * (m_ - k_) < SMALL) {
            for (Index p = 0; p < count; p++) {
                const T by = mirrored<hermitian>(w_[p * m_ + q]), *l = a_ + (begin_ + p) * m_;
                for (Index i = k_; i < m_; i++) w[i] -= times(by, l[i]);
            }
        } else {
            T* by = work_.multipliers.grow(PANEL + 1);
            for (Index p = 0; p < count; p++) by[p] = mirrored<hermitian>(w_[p * m_ + q]);
            Kernels<T>::apply('N', m_ - k_, count, T(-1), a_ + begin_ * m_ + k_, m_, by, T(1), w + k_);
        }
        if constexpr (hermitian && Scalar<T>::is_complex) w[q] = w[q].real();
    }

    // max |w_i| of rows from .. to
    static R largest(const T* w, Index from, Index to) {
        constexpr int LANES = 4;
        R most[LANES] = {};
        auto see = [&](Index i, int lane) {
            const R size = weight(w[i]);
            most[lane] = most[lane] < size ? size : most[lane];
        };
        Index i = from;
        for (; i + LANES <= to; i += LANES)
            for (int lane = 0; lane < LANES; lane++) see(i + lane, lane);
        for (; i < to; i++) see(i, 0);
        return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
    }
    R largest_beside(const T* w, Index q, Index to) const { return std::max(largest(w, k_, q), largest(w, q + 1, to)); }
    R largest_beside(const T* w, Index q, Index r, Index to) const {
        if (q > r) std::swap(q, r);
        return std::max({largest(w, k_, q), largest(w, q + 1, r), largest(w, r + 1, to)});
    }

    bool take(Index q, T* w) {
        column(q, w);
        if (is_enough(w, q)) return take_one(q, w), true;
        T* v = work_.second.grow(m_);
        for (;;) {
            const R most = largest_beside(w, q, c_);
            if (!(most > 0)) return false;
            Index r = k_;
            while (r == q || weight(w[r]) != most) r++;
            column(r, v);
            if (is_enough(v, r)) return take_one(r, v), true;
            const Pair<T, hermitian> pair(w[q], w[r], v[r]);
            if (pair.is_regular) {
                const R of_q = largest_beside(w, q, r, m_), of_r = largest_beside(v, q, r, m_), most_l = 1 / u_;
                if (weight(pair.inv_a) * of_q + weight(pair.inv_b) * of_r <= most_l && weight(pair.inv_b) * of_q + weight(pair.inv_c) * of_r <= most_l)
                    return take_two(q, r, w, v), true;
            }
            if (!(largest_beside(v, r, c_) > most)) return false;
            q = r;
            std::swap(w, v);
        }
    }

    bool is_enough(const T* w, Index q) const {
        const R size = weight(w[q]);
        return size > 0 && size >= u_ * largest_beside(w, q, m_);
    }

    void take_one(Index q, T* w) {
        exchange(k_, q);
        std::swap(w[k_], w[q]);
        const T d = w[k_], over = R(1) / d;
        T *l = a_ + k_ * m_, *kept = w_ + (k_ - begin_) * m_;
        l[k_] = d;
        end_pivot(k_);
        for (Index i = k_ + 1; i < m_; i++) {
            kept[i] = w[i];
            l[i] = times(w[i], over);
        }
        k_++;
    }

    void take_two(Index q, Index r, T* w, T* v) {
        auto bring = [&](Index from, Index to) {
            exchange(to, from);
            std::swap(w[to], w[from]);
            std::swap(v[to], v[from]);
        };
        bring(q, k_);
        bring(r == k_ ? q : r, k_ + 1);
        const Pair<T, hermitian> pair(w[k_], w[k_ + 1], v[k_ + 1]);
        T *l = a_ + k_ * m_, *next = l + m_, *kept = w_ + (k_ - begin_) * m_, *after = kept + m_;
        l[k_] = pair.a, l[k_ + 1] = T(0), next[k_ + 1] = pair.c, next[k_] = pair.b;
        end_pivot(k_ + 1);
        for (Index i = k_ + 2; i < m_; i++) {
            T x = kept[i] = w[i], y = after[i] = v[i];
            pair.divide(x, y);
            l[i] = x, next[i] = y;
        }
        k_ += 2;
    }

    // Row j is no pair with the next one.
    void end_pivot(Index j) {
        if (j + 1 < c_) a_[(j + 1) * m_ + j] = T(0);
    }

    // Rows and columns p and q change their places.
    void exchange(Index p, Index q) {
        if (p == q) return;
        if (p > q) std::swap(p, q);
        std::swap(order_[p], order_[q]);
        for (Index j = 0; j < p; j++) std::swap(a_[j * m_ + p], a_[j * m_ + q]);
        for (Index j = 0; j < k_ - begin_; j++) std::swap(w_[j * m_ + p], w_[j * m_ + q]);
        std::swap(a_[p * m_ + p], a_[q * m_ + q]);
        for (Index i = p + 1; i < q; i++) {
            const T x = a_[p * m_ + i];
            a_[p * m_ + i] = mirrored<hermitian>(a_[i * m_ + q]);
            a_[i * m_ + q] = mirrored<hermitian>(x);
        }
        a_[p * m_ + q] = mirrored<hermitian>(a_[p * m_ + q]);
        std::swap_ranges(a_ + p * m_ + q + 1, a_ + (p + 1) * m_, a_ + q * m_ + q + 1);
    }

    // The other columns, by the pivots of this panel.
    bool flush() {
        const Index count = k_ - begin_, from = std::exchange(begin_, k_);
        if (count == 0 || k_ == c_) return true;
        return tiles(m_ - k_, c_ - k_, count, a_ + from * m_ + k_, m_, w_ + k_, m_, T(1), a_ + k_ * m_ + k_, m_);
    }

    // C (rows, columns) = beta C - X op(Y), on and below the diagonal
    bool tiles(Index rows, Index columns, Index inner, const T* x, Index ldx, const T* y, Index ldy, T beta, T* to, Index ldt) {
        if (double(rows) * double(columns) * double(inner) < SMALL) {
            for (Index j = 0; j < columns; j++) {
                T* at = to + j * ldt;
                if (beta == T(0)) std::fill(at + j, at + rows, T(0));
                for (Index p = 0; p < inner; p++) {
                    const T by = mirrored<hermitian>(y[p * ldy + j]), *l = x + p * ldx;
                    for (Index i = j; i < rows; i++) at[i] -= times(by, l[i]);
                }
            }
            return true;
        }
        auto tile = [&](Index i, int) {
            const Index j = i * TILE_OF_FRONT;
            Kernels<T>::multiply('N', hermitian ? 'C' : 'T', rows - j, std::min(TILE_OF_FRONT, columns - j), inner, T(-1), x + j, ldx, y + j, ldy, beta, to + j * ldt + j, ldt);
            return true;
        };
        const Index count = (columns + TILE_OF_FRONT - 1) / TILE_OF_FRONT;
        if (together_) return team_.run(count, tile);
        for (Index i = 0; i < count; i++) tile(i, 0);
        return true;
    }

    static constexpr double SMALL = 512;  // multiplications up to which loops are faster than BLAS

    const Index c_, m_;
    T* const a_;
    Index* const order_;
    const R u_;
    PivotsWork<T>& work_;
    Team& team_;
    const bool together_;
    T* w_;  // W of this panel, by columns
    Index k_ = 0, begin_ = 0;  // columns that are eliminated; those before this panel
};
