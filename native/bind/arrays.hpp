// Arrays of Python, by the buffer protocol or by DLPack: contiguous rows, one of the four dtypes of floats or two of integers.
#pragma once
#include <nanobind/nanobind.h>

#include <complex>
#include <cstring>
#include <optional>

#include "dlpack.hpp"
#include "kernels/scalar.hpp"

enum class Dtype { none, f4, f8, c8, c16, i4, i8 };
inline Dtype real_of(Dtype dtype) { return dtype == Dtype::f4 || dtype == Dtype::c8 ? Dtype::f4 : Dtype::f8; }

class Array {
  public:
    // What is written to comes by the buffer protocol, which says whether that may be.
    Array(nanobind::handle x, bool writable) {
        const DLPackExchangeAPI* exchange = writable || PyObject_CheckBuffer(x.ptr()) ? nullptr : exchange_of(Py_TYPE(x.ptr()));
        if (exchange)
            read(exchange, x.ptr());
        else
            read(x.ptr(), writable);
    }
    ~Array() {
        if (view_.obj) PyBuffer_Release(&view_);
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    template <class T> T* as() const { return static_cast<T*>(data_); }
    int ndim() const { return ndim_; }
    // counted from the last axis, which is 1
    Index axis(int from_last) const { return shape_[ndim_ - from_last]; }
    Index items() const { return batch(0); }
    size_t bytes() const { return bytes_; }
    // the product of all axes before the last `own`
    Index batch(int own) const {
        Index count = 1;
        for (int i = 0; i + own < ndim_; i++) count *= shape_[i];
        return count;
    }
    bool is_like(const Array& other) const {
        if (dtype != other.dtype || ndim_ != other.ndim_) return false;
        for (int i = 0; i < ndim_; i++)
            if (shape_[i] != other.shape_[i]) return false;
        return true;
    }

    Dtype dtype;

  private:
    static_assert(sizeof(Index) == sizeof(int64_t), "shapes are read as they are");

    void read(PyObject* x, bool writable) {
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(x, &view_, flags)) throw nanobind::python_error();
        const char* f = view_.format;
        dtype = !f ? Dtype::none : !std::strcmp(f, "d") ? Dtype::f8 : !std::strcmp(f, "f") ? Dtype::f4
              : !std::strcmp(f, "Zd") ? Dtype::c16 : !std::strcmp(f, "Zf") ? Dtype::c8
              : view_.itemsize == 4 && std::strchr("il", f[0]) && !f[1] ? Dtype::i4
              : view_.itemsize == 8 && std::strchr("lq", f[0]) && !f[1] ? Dtype::i8 : Dtype::none;
        data_ = view_.buf;
        bytes_ = size_t(view_.len);
        ndim_ = view_.ndim;
        shape_ = view_.shape;
    }

    void read(const DLPackExchangeAPI* exchange, PyObject* x) {
        DLTensor t;
        if (exchange->read(x, &t)) throw nanobind::python_error();
        constexpr int CPU = 1, INT = 0, FLOAT = 2, COMPLEX = 5;
        int code = t.dtype.lanes == 1 ? t.dtype.code : -1, bits = t.dtype.bits;
        dtype = code == FLOAT ? (bits == 64 ? Dtype::f8 : bits == 32 ? Dtype::f4 : Dtype::none)
              : code == COMPLEX ? (bits == 128 ? Dtype::c16 : bits == 64 ? Dtype::c8 : Dtype::none)
              : code == INT ? (bits == 64 ? Dtype::i8 : bits == 32 ? Dtype::i4 : Dtype::none) : Dtype::none;
        data_ = static_cast<char*>(t.data) + t.byte_offset;
        ndim_ = t.ndim;
        shape_ = reinterpret_cast<const Index*>(t.shape);
        bytes_ = size_t(items()) * t.dtype.bits * t.dtype.lanes / 8;
        Index step = 1;
        bool in_rows = t.device.type == CPU && (t.data || !items());
        for (int i = ndim_ - 1; i >= 0 && in_rows; step *= shape_[i--]) in_rows = !t.strides || shape_[i] == 1 || t.strides[i] == step || !items();
        if (!in_rows) throw nanobind::buffer_error("expected rows one after the other, in the memory of this process");
    }

    Py_buffer view_{};
    void* data_;
    size_t bytes_;
    int ndim_;
    const Index* shape_;
};

// f(T()) with the type T of a dtype of floats.
template <class F> auto with_type(Dtype dtype, F f) {
    switch (dtype) {
        case Dtype::f4: return f(float());
        case Dtype::f8: return f(double());
        case Dtype::c8: return f(std::complex<float>());
        default: return f(std::complex<double>());
    }
}

// Without the GIL where the work is worth it: who lets go of it for microseconds may wait for milliseconds to have it again.
class Unlocked {
  public:
    explicit Unlocked(double operations) {
        if (operations > MANY) free_.emplace();
    }

  private:
    static constexpr double MANY = 1 << 16;
    std::optional<nanobind::gil_scoped_release> free_;
};
