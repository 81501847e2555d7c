// An array where it is, row after row: one of Python, of DLPack or of XLA.
#pragma once
#include <algorithm>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/scalar.hpp"

enum class Dtype { none, f4, f8, c8, c16, i4, i8 };
inline Dtype real_of(Dtype dtype) { return dtype == Dtype::f4 || dtype == Dtype::c8 ? Dtype::f4 : Dtype::f8; }
inline Dtype complex_of(Dtype dtype) { return real_of(dtype) == Dtype::f4 ? Dtype::c8 : Dtype::c16; }
inline Dtype single_of(Dtype dtype) { return dtype == complex_of(dtype) ? Dtype::c8 : Dtype::f4; }
inline bool are_floats(Dtype dtype) { return dtype != Dtype::none && dtype < Dtype::i4; }
inline size_t size_of(Dtype dtype) { return dtype == Dtype::c16 ? 16 : dtype == Dtype::f4 || dtype == Dtype::i4 ? 4 : 8; }

struct View {
    static_assert(sizeof(Index) == sizeof(int64_t), "shapes are read as they are");

    template <class T> T* as() const { return static_cast<T*>(data); }
    int ndim() const { return rank; }
    // counted from the last axis, which is 1
    Index axis(int from_last) const { return dims[rank - from_last]; }
    Index items() const { return batch(0); }
    // the product of all axes before the last `own`
    Index batch(int own) const {
        Index count = 1;
        for (int i = 0; i + own < rank; i++) count *= dims[i];
        return count;
    }
    bool is_like(const View& other) const { return dtype == other.dtype && rank == other.rank && std::equal(dims, dims + rank, other.dims); }

    Dtype dtype = Dtype::none;
    void* data = nullptr;
    int rank = 0;
    const Index* dims = nullptr;
};

// Has x, for each of `count` members of a batch, these axes?
inline bool is_of_each(const View& x, Dtype dtype, Index count, std::initializer_list<Index> axes) {
    const int own = int(axes.size());
    return x.dtype == dtype && x.rank >= own && x.batch(own) == count && std::equal(axes.begin(), axes.end(), x.dims + x.rank - own);
}

// Are the batch axes of x those of `out`, or of one, or left out?
inline bool broadcasts(const View& out, int own_out, const View& x, int own_x) {
    for (int a = out.rank - own_out - 1, c = x.rank - own_x - 1; c >= 0; a--, c--)
        if (x.dims[c] != 1 && (a < 0 || x.dims[c] != out.dims[a])) return false;
    return true;
}

// For each member of the batch of `out` the one of x, whose axes of one are repeated; none where they are the same.
inline std::vector<Index> members(const View& out, int own_out, const View& x, int own_x) {
    Index count = out.batch(own_out), inner = 1, stride = 1;
    if (x.batch(own_x) == count) return {};
    std::vector<Index> of(count, 0);
    for (int a = out.rank - own_out - 1, c = x.rank - own_x - 1; a >= 0; a--, c--) {
        if (c >= 0 && x.dims[c] != 1) {
            for (Index o = 0; o < count; o++) of[o] += o / inner % out.dims[a] * stride;
            stride *= x.dims[c];
        }
        inner *= out.dims[a];
    }
    return of;
}

// f(T()) with the type T of a dtype of floats.
template <class F> auto with_type(Dtype dtype, F f) {
    switch (dtype) {
        case Dtype::f4: return f(float());
        case Dtype::f8: return f(double());
        case Dtype::c8: return f(std::complex<float>());
        default: return f(std::complex<double>());
    }
}
