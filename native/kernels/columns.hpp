// Square sparse matrices in compressed columns: sizes of entries, sums of columns, and residuals, for the checks of an answer.
#pragma once
#include <algorithm>

#include "scalar.hpp"

// max |x_i|; NaN if there is one.
template <class T> Real<T> largest_of(const T* x, Index n) {
    // four independent maxima at a time
    constexpr int TURNS = 4;
    Real<T> most[TURNS] = {};
    bool is_nan = false;
    auto look = [&](int turn, Real<T> size) {
        is_nan |= size != size;
        most[turn] = size > most[turn] ? size : most[turn];
    };
    Index i = 0;
    for (; i + TURNS <= n; i += TURNS)
        for (int turn = 0; turn < TURNS; turn++) look(turn, std::abs(x[i + turn]));
    for (; i < n; i++) look(0, std::abs(x[i]));
    if (is_nan) return std::numeric_limits<Real<T>>::quiet_NaN();
    return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

template <class R> struct Sizes {
    R diagonal;            // min |a_jj|, 0 where the diagonal has gaps
    R entry;               // max |a_ij|
    R least_sum, most_sum;  // of |a_ij| over a column
};

template <class I, class J = I> struct Columns {
    Index n;
    const I* starts;
    const J* rows;

    template <class T> Sizes<Real<T>> sizes(const T* a, const Index* diagonal, Real<T>* sums) const {
        using R = Real<T>;
        const R infinity = std::numeric_limits<R>::infinity();
        Sizes<R> found{diagonal ? infinity : R(0), 0, infinity, 0};
        for (Index j = 0; j < n; j++) {
            R sum = 0;
            for (I k = starts[j]; k < starts[j + 1]; k++) {
                R size = std::abs(a[k]);
                sum += size;
                found.entry = std::max(found.entry, size);
            }
            sums[j] = sum;
            found.least_sum = std::min(found.least_sum, sum);
            found.most_sum = std::max(found.most_sum, sum);
            if (diagonal) found.diagonal = std::min<R>(found.diagonal, std::abs(a[diagonal[j]]));
        }
        return found;
    }

    // r = b - A x, or b - A^T x.
    template <class T> void residual(const T* a, const T* x, const T* b, T* r, bool transposed) const {
        if (transposed) {
            for (Index j = 0; j < n; j++) {
                T sum = 0;
                for (I k = starts[j]; k < starts[j + 1]; k++) sum += times(a[k], x[rows[k]]);
                r[j] = b[j] - sum;
            }
            return;
        }
        std::fill(r, r + n, T(0));
        for (Index j = 0; j < n; j++) {
            const T x_j = x[j];  // a local copy: the compiler cannot know that r does not alias it
            for (I k = starts[j]; k < starts[j + 1]; k++) r[rows[k]] += times(a[k], x_j);
        }
        for (Index i = 0; i < n; i++) r[i] = b[i] - r[i];
    }
};
