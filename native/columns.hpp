// Square sparse matrices by compressed columns, as the verdict looks at them: sizes of entries and of columns, residuals.
#pragma once
#include <algorithm>

#include "scalar.hpp"

template <class R> inline R times(R a, R b) { return a * b; }
// Not the operator of std::complex, which looks for NaN: a residual with NaN is not small.
template <class R> inline std::complex<R> times(std::complex<R> a, std::complex<R> b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// max |x_i|; NaN if there is one.
template <class T> Real<T> largest_of(const T* x, Index n) {
    Real<T> most = 0;
    for (Index i = 0; i < n; i++) {
        Real<T> size = std::abs(x[i]);
        if (size > most || size != size) most = size;
    }
    return most;
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
        for (Index j = 0; j < n; j++)
            for (I k = starts[j]; k < starts[j + 1]; k++) r[rows[k]] += times(a[k], x[j]);
        for (Index i = 0; i < n; i++) r[i] = b[i] - r[i];
    }
};
