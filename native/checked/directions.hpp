// The random direction z of each size, along which the growth |M| |M^-1 z| / |z| is looked at: that of the careful way.
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
    // Another direction of the same size; of two rows it is at a right angle to z.
    double another(Index j) const { return (j % 2 ? -1 : 1) * z[z.size() - 1 - j]; }
    std::vector<double> z;
    double size = 0;  // |z|_1
};
