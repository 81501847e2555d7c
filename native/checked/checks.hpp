// The checks of every factor, dense or sparse, LU or Cholesky: growth along random directions, residuals row by row, and whether
// refinement has converged.
#pragma once
#include "kernels/scalar.hpp"
#include "limits.hpp"

// True if growth along the probe is small, and along a second direction if the first shows some. growth(first, count): the largest growth
// along `count` directions from `first` on, times eps. range: the ratio of the units of x. needs_row_errors: growth is so large that the
// residual is checked row by row.
template <class T, class Growth> bool is_growth_small(Growth growth, int at_once, Real<T> range, bool& needs_row_errors) {
    using R = Real<T>;
    const R grown = growth(0, at_once);
    if (!(grown < R(SUSPICIOUS))) return false;
    needs_row_errors = !(grown * range < R(LOSSY) * eps<T>);
    return at_once == 2 || grown < R(FAINT) || growth(1, 1) < R(SUSPICIOUS);
}

// max_i |r|_i / (|op(M)| |x| + |b|)_i, also where squares underflow, of each of `width` columns beside each other, which is the same in all units. `room` is for 2 n width
// numbers; add(sums, sizes): sums += |op(M)| sizes.
template <int width, class T, class Add> void row_errors(const T* r, const T* x, const T* b, Index n, std::vector<Real<T>>& room, Add add, Real<T>* found) {
    using R = Real<T>;
    constexpr R LEAST = std::numeric_limits<R>::min();  // smaller numbers are rounded as if they were this one
    const Index count = n * width;
    room.resize(2 * count);
    R *sums = room.data(), *sizes = sums + count;
    for (Index i = 0; i < count; i++) {
        sums[i] = std::abs(b[i]) + LEAST;
        sizes[i] = std::abs(x[i]) + LEAST;
    }
    add(sums, sizes);
    std::fill_n(found, width, R(0));
    for (Index i = 0; i < count; i += width)
        for (int c = 0; c < width; c++) found[c] = std::max(found[c], std::abs(r[i + c]) / sums[i + c]);
}

// True if the last step d(i) of refinement changed x by rounding only, in the units of M and in those of A. A row in which x is zero has a
// row error of 1 for every x, so that row errors cannot decide there.
template <int width, class T, class Step, class Unit> bool are_settled(const T* x, Index n, Step d, bool has_units, Unit in_unit) {
    using R = Real<T>;
    auto is_rounding = [&](auto measured) {
        R of_d[width] = {}, of_x[width] = {};
        for (Index i = 0; i < n; i++)
            for (int c = 0; c < width; c++) {
                of_d[c] = std::max(of_d[c], measured(size_of(d(i * width + c)), i));
                of_x[c] = std::max(of_x[c], measured(size_of(x[i * width + c]), i));
            }
        bool small = true;
        for (int c = 0; c < width; c++) small = small && of_d[c] <= R(ADEQUATE) * eps<T> * of_x[c];
        return small;
    };
    return is_rounding([](R size, Index) { return size; }) && (!has_units || is_rounding(in_unit));
}
