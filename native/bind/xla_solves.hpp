// Right-hand sides b (*batch, n, k) or (*batch, n) in a batch of matrices: which are of which matrix, and those that were declined.
#pragma once
#include "xla_careful.hpp"

template <class T> class Solves {
  public:
    // Matrices A (*batch, ...) with `own_a` axes of their own.
    void read(const View& a, int own_a, const View& b, const View& x, bool is_vector) {
        const int own = is_vector ? 1 : 2;
        XlaCall::require(a.rank >= own_a && b.rank >= own && x.rank >= own && b.dtype == a.dtype && x.dtype == a.dtype);
        XlaCall::require(std::equal(b.dims + b.rank - own, b.dims + b.rank, x.dims + x.rank - own) && broadcasts(x, own, a, own_a) && broadcasts(x, own, b, own));
        n = b.axis(own);
        columns = is_vector ? 1 : int(b.axis(1));
        matrices_ = a.batch(own_a);
        count = x.batch(own);
        of_b_ = members(x, own, b, own);
        if (count != matrices_) group(members(x, own, a, own_a));
        b_ = b;
        x_ = x;
    }

    Index n = 0, count = 0, of_each = 1;  // rows, solutions, those of one matrix
    int columns = 1;

    // The places of matrix i in the order of matrices, and the solution in each place.
    Index first(Index i) const { return starts_.empty() ? i : starts_[i]; }
    // The number of solutions that are found together, with `wide` right-hand sides.
    Index step(Index wide) const { return std::max<Index>(1, wide / std::max(columns, 1)); }
    Index out(Index place) const { return order_.empty() ? place : order_[place]; }
    const T* right(Index o) const { return b_.as<T>() + (of_b_.empty() ? o : of_b_[o]) * n * columns; }
    T* solution(Index o) const { return x_.as<T>() + o * n * columns; }

    // solve(first, last) for the places of matrix i, some at a time; what is not accepted is declined.
    template <class F> void each(Index i, Index wide, char* declined, F solve) const {
        const Index many = step(wide);
        for (Index p = first(i), last = first(i + 1); columns && p < last; p += many) {
            const Index end = std::min(p + many, last);
            if (!solve(p, end))
                for (Index q = p; q < end; q++) declined[out(q)] = 1;
        }
    }

    // f(p, at, row, column) for all numbers of `count` solutions: number `at` of solution p has this row and column in the block of all.
    template <class F> void each_number(Index count, F f) const {
        for (Index p = 0; p < count; p++)
            for (Index r = 0; r < n; r++)
                for (Index c = 0; c < columns; c++) f(p, r * columns + c, r, p * columns + c);
    }

    // All that were declined at once; of matrices that have several right-hand sides one after another, with a wide block.
    // `add(call, which)` gives the matrices.
    template <class Add> xla::Error* careful(const XlaCall& record, const std::vector<Index>& which, Add add) const {
        if (which.empty()) return nullptr;
        if (starts_.empty()) {
            std::vector<Index> of_b = which;
            for (Index& o : of_b) o = of_b_.empty() ? o : of_b_[o];
            Careful call(record);
            add(call, which);
            call.add(b_, n, columns, of_b);
            call.result(x_, n * columns, which);
            return call.run(Index(which.size()));
        }
        std::vector<char> declined(count);
        for (Index o : which) declined[o] = 1;
        for (Index i = 0; i < matrices_; i++) {
            std::vector<Index> outs;
            for (Index p = starts_[i]; p < starts_[i + 1]; p++)
                if (declined[order_[p]]) outs.push_back(order_[p]);
            if (outs.empty()) continue;
            const Index k = Index(outs.size()) * columns;
            std::vector<T> block(n * k), found(n * k);
            each_number(Index(outs.size()), [&](Index p, Index at, Index row, Index column) { block[row * k + column] = right(outs[p])[at]; });
            Careful one(record);
            View of_block{b_.dtype, block.data()}, of_found{b_.dtype, found.data()};
            add(one, std::vector<Index>{i});
            one.add(of_block, n, k, {0});
            one.result(of_found, n * k, {0});
            if (xla::Error* error = one.run(1)) return error;
            each_number(Index(outs.size()), [&](Index p, Index at, Index row, Index column) { solution(outs[p])[at] = found[row * k + column]; });
        }
        return nullptr;
    }

  private:
    // The members of the batch of x, in the order of their matrices.
    void group(const std::vector<Index>& of_a) {
        starts_.assign(matrices_ + 1, 0);
        for (Index i : of_a) starts_[i + 1]++;
        for (Index i = 0; i < matrices_; i++) starts_[i + 1] += starts_[i];
        std::vector<Index> next(starts_.begin(), starts_.end() - 1);
        order_.resize(count);
        for (Index o = 0; o < count; o++) order_[next[of_a[o]]++] = o;
        of_each = count / std::max<Index>(matrices_, 1);
    }

    Index matrices_ = 0;
    View b_, x_;
    std::vector<Index> of_b_, starts_, order_;
};
