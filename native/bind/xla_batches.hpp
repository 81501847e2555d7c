// The batch axes of XLA's arrays.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels/scalar.hpp"
#include "xla_ffi.hpp"

// The product of all axes but the last `own`.
inline Index batch_of(const xla::Buffer& x, int own) {
    Index count = 1;
    for (int a = 0; a + own < x.rank; a++) count *= x.dims[a];
    return count;
}

// Has x, for each of `count` members of a batch, these axes?
inline bool is_of_each(const xla::Buffer& x, xla::DataType dtype, Index count, std::initializer_list<Index> axes) {
    const int own = int(axes.size());
    return x.dtype == dtype && x.rank >= own && batch_of(x, own) == count && std::equal(axes.begin(), axes.end(), x.dims + x.rank - own);
}

// Are the batch axes of x those of `out`, or of one, or left out?
inline bool broadcasts(const xla::Buffer& out, int own_out, const xla::Buffer& x, int own_x) {
    for (int64_t a = out.rank - own_out - 1, c = x.rank - own_x - 1; c >= 0; a--, c--)
        if (x.dims[c] != 1 && (a < 0 || x.dims[c] != out.dims[a])) return false;
    return true;
}

// For each member of the batch of `out` the one of x, whose axes of one are repeated; none where they are the same.
inline std::vector<Index> members(const xla::Buffer& out, int own_out, const xla::Buffer& x, int own_x) {
    Index count = batch_of(out, own_out), inner = 1, stride = 1;
    if (batch_of(x, own_x) == count) return {};
    std::vector<Index> of(count, 0);
    for (int64_t a = out.rank - own_out - 1, c = x.rank - own_x - 1; a >= 0; a--, c--) {
        if (c >= 0 && x.dims[c] != 1) {
            for (Index o = 0; o < count; o++) of[o] += o / inner % out.dims[a] * stride;
            stride *= x.dims[c];
        }
        inner *= out.dims[a];
    }
    return of;
}

// The sign of a determinant of n rows that is to be positive, up to the rounding of its factors.
template <class T> bool is_one(T sign, Index n) { return size_of(sign - T(1)) <= (Scalar<T>::is_complex ? 8 * Real<T>(n) * eps<T> : Real<T>(0)); }
