// max_i |x_i| and sum_i |x_i| of interleaved columns, in independent lanes, which the compiler vectorizes.
#pragma once
#include "scalar.hpp"

constexpr int LANES = 8;

// step(lane, |x|) for all numbers of x: those of column c are in the lanes c, c + width, ...
template <int width, class T, class Step> inline void in_lanes(const T* x, Index rows, Step step) {
    static_assert(LANES % width == 0, "a lane has numbers of one column");
    const Index total = rows * width;
    Index i = 0;
    for (; i + LANES <= total; i += LANES)
        for (int lane = 0; lane < LANES; lane++) step(lane, size_of(x[i + lane]));
    for (int lane = 0; lane < LANES; lane++)  // a number that is known, so that lanes stay in registers
        if (i + lane < total) step(lane, size_of(x[i + lane]));
}

// max_i |x_i| of each column; infinity if a number is not finite or its size overflows.
template <int width, class T> inline void max_norms(const T* x, Index rows, Real<T>* found) {
    using R = Real<T>;
    R most[LANES] = {}, zero[LANES] = {};
    in_lanes<width>(x, rows, [&](int lane, R size) {
        most[lane] = size > most[lane] ? size : most[lane];
        zero[lane] += R(0) * size;  // else NaN
    });
    for (int c = 0; c < width; c++) {
        found[c] = 0;
        for (int lane = c; lane < LANES; lane += width) found[c] = zero[lane] == 0 ? std::max(found[c], most[lane]) : std::numeric_limits<R>::infinity();
    }
}

template <int width, class T> inline void one_norms(const T* x, Index rows, Real<T>* found) {
    using R = Real<T>;
    R sum[LANES] = {};
    in_lanes<width>(x, rows, [&](int lane, R size) { sum[lane] += size; });
    for (int c = 0; c < width; c++) {
        found[c] = 0;
        for (int lane = c; lane < LANES; lane += width) found[c] += sum[lane];
    }
}
