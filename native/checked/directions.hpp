// The random direction z of each size for the growth |M| |M^-1 z| / |z|, the same as in Python.
#pragma once
#include <memory>
#include <vector>

#include "kernels/scalar.hpp"

struct Direction {
    Direction() = default;
    template <class R> Direction(const R* numbers, Index n) : z(numbers, numbers + n) {
        for (double x : z) size += std::fabs(x);
    }
    template <class T> void write(T* to, Index n) const {
        for (Index j = 0; j < n; j++) to[j] = T(Real<T>(z[j]));
    }
    // A second direction of the same norm, orthogonal to z for two rows.
    double another(Index j) const { return (j % 2 ? -1 : 1) * z[z.size() - 1 - j]; }
    std::vector<double> z;
    double size = 0;  // |z|_1
};
