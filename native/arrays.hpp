// Arrays of Python by the buffer protocol: contiguous rows, one of the four dtypes of floats or two of integers.
#pragma once
#include <nanobind/nanobind.h>

#include <complex>
#include <cstring>

#include "scalar.hpp"

enum class Dtype { none, f4, f8, c8, c16, i4, i8 };

class Array {
  public:
    Array(nanobind::handle x, bool writable) {
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(x.ptr(), &view_, flags)) throw nanobind::python_error();
        const char* f = view_.format;
        dtype = !f ? Dtype::none : !std::strcmp(f, "d") ? Dtype::f8 : !std::strcmp(f, "f") ? Dtype::f4
              : !std::strcmp(f, "Zd") ? Dtype::c16 : !std::strcmp(f, "Zf") ? Dtype::c8
              : view_.itemsize == 4 && std::strchr("il", f[0]) && !f[1] ? Dtype::i4
              : view_.itemsize == 8 && std::strchr("lq", f[0]) && !f[1] ? Dtype::i8 : Dtype::none;
    }
    ~Array() { PyBuffer_Release(&view_); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    template <class T> T* as() const { return static_cast<T*>(view_.buf); }
    int ndim() const { return view_.ndim; }
    // counted from the last axis, which is 1
    Index axis(int from_last) const { return view_.shape[view_.ndim - from_last]; }
    size_t bytes() const { return size_t(view_.len); }
    Index items() const { return view_.len / view_.itemsize; }
    // the product of all axes before the last `own`
    Index batch(int own) const {
        Index count = 1;
        for (int i = 0; i + own < view_.ndim; i++) count *= view_.shape[i];
        return count;
    }
    bool is_like(const Array& other) const {
        if (dtype != other.dtype || ndim() != other.ndim()) return false;
        for (int i = 0; i < ndim(); i++)
            if (view_.shape[i] != other.view_.shape[i]) return false;
        return true;
    }

    Dtype dtype;

  private:
    Py_buffer view_;
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
