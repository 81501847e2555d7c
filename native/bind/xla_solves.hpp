// Right-hand sides b (*batch, n, k) or (*batch, n) in a batch of matrices: which are of which matrix, and those that were declined.
#pragma once
#include "xla_batches.hpp"
#include "xla_careful.hpp"

template <class T> class Solves {
  public:
    // Matrices A (*batch, ...) with `own_a` axes of their own; false where they do not fit.
    bool read(const xla::Buffer& a, int own_a, const xla::Buffer& b, const xla::Buffer& x, bool is_vector) {
        int own = is_vector ? 1 : 2;
        if (a.rank < own_a || b.rank < own || x.rank < own || b.dtype != a.dtype || x.dtype != a.dtype) return false;
        if (!std::equal(b.dims + b.rank - own, b.dims + b.rank, x.dims + x.rank - own)) return false;
        if (!broadcasts(view(x), own, view(a), own_a) || !broadcasts(view(x), own, view(b), own)) return false;
        n = Index(b.dims[b.rank - own]);
        columns = is_vector ? 1 : int(b.dims[b.rank - 1]);
        matrices_ = batch_of(a, own_a);
        count = batch_of(x, own);
        of_b_ = members(view(x), own, view(b), own);
        if (count != matrices_) group(members(view(x), own, view(a), own_a));
        b_ = static_cast<const T*>(b.data);
        this->x = static_cast<T*>(x.data);
        return true;
    }

    Index n = 0, count = 0, of_each = 1;  // rows, solutions, those of one matrix
    int columns = 1;
    T* x = nullptr;

    // The places of matrix i in the order of matrices, and the solution in each place.
    Index first(Index i) const { return starts_.empty() ? i : starts_[i]; }
    // How many are solved for together: `wide` right-hand sides.
    Index step(Index wide) const { return std::max<Index>(1, wide / std::max(columns, 1)); }
    Index out(Index place) const { return order_.empty() ? place : order_[place]; }
    const T* right(Index o) const { return b_ + (of_b_.empty() ? o : of_b_[o]) * n * columns; }
    T* solution(Index o) const { return x + o * n * columns; }

    // All that were declined at once; of matrices that have several right-hand sides one after another, with a wide block.
    // `add(call, which)` gives the matrices.
    template <class Add> xla::Error* careful(xla::Frame* frame, const std::string& rule, const std::vector<char>& declined, Add add) const {
        std::vector<Index> which;
        for (Index o = 0; o < count; o++)
            if (declined[o]) which.push_back(o);
        if (which.empty()) return nullptr;
        if (starts_.empty()) {
            std::vector<Index> of_b = which;
            for (Index& o : of_b) o = of_b_.empty() ? o : of_b_[o];
            Careful call(frame, rule);
            add(call, which);
            call.add<T>(b_, of_b, n, columns);
            call.result(x, which, n * columns);
            return call.run(Index(which.size()));
        }
        for (Index i = 0; i < matrices_; i++) {
            std::vector<Index> outs;
            for (Index p = starts_[i]; p < starts_[i + 1]; p++)
                if (declined[order_[p]]) outs.push_back(order_[p]);
            if (outs.empty()) continue;
            Index k = Index(outs.size()) * columns;
            std::vector<T> block(n * k), found(n * k);
            auto place = [&](Index o, Index r, Index c) -> T& { return block[r * k + o * columns + c]; };
            for (Index o = 0; o < Index(outs.size()); o++)
                for (Index r = 0; r < n; r++)
                    for (Index c = 0; c < columns; c++) place(o, r, c) = right(outs[o])[r * columns + c];
            Careful one(frame, rule);
            add(one, std::vector<Index>{i});
            one.add<T>(block.data(), {0}, n, k);
            one.result(found.data(), {0}, n * k);
            if (xla::Error* error = one.run(1)) return error;
            block.swap(found);
            for (Index o = 0; o < Index(outs.size()); o++)
                for (Index r = 0; r < n; r++)
                    for (Index c = 0; c < columns; c++) solution(outs[o])[r * columns + c] = place(o, r, c);
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
    const T* b_ = nullptr;
    std::vector<Index> of_b_, starts_, order_;
};
