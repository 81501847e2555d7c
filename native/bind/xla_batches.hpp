// The batch axes of XLA's arrays.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels/scalar.hpp"
#include "view.hpp"
#include "xla_ffi.hpp"

inline Dtype dtype_of(xla::DataType x) {
    return x == xla::F32 ? Dtype::f4 : x == xla::F64 ? Dtype::f8 : x == xla::C64 ? Dtype::c8 : x == xla::C128 ? Dtype::c16 : x == xla::S32 ? Dtype::i4 : Dtype::none;
}
inline View view(const xla::Buffer& x) { return {dtype_of(x.dtype), x.data, int(x.rank), reinterpret_cast<const Index*>(x.dims)}; }

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

// The sign of a determinant of n rows that is to be positive, up to the rounding of its factors.
template <class T> bool is_one(T sign, Index n) { return size_of(sign - T(1)) <= (Scalar<T>::is_complex ? 8 * Real<T>(n) * eps<T> : Real<T>(0)); }
