// Arrays of Python, by the buffer protocol or by DLPack: contiguous rows, one of the four dtypes of floats or two of integers.
#pragma once
#include <nanobind/nanobind.h>

#include <cstring>
#include <optional>

#include "dlpack.hpp"
#include "view.hpp"

inline void require(bool holds, const char* what) {
    if (!holds) throw nanobind::value_error(what);
}

class Array : public View {
  public:
    // Results come by the buffer protocol, which says whether an array may be written to.
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

  private:
    void read(PyObject* x, bool writable) {
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(x, &view_, flags)) throw nanobind::python_error();
        const char* f = view_.format;
        dtype = !f ? Dtype::none : !std::strcmp(f, "d") ? Dtype::f8 : !std::strcmp(f, "f") ? Dtype::f4
              : !std::strcmp(f, "Zd") ? Dtype::c16 : !std::strcmp(f, "Zf") ? Dtype::c8
              : view_.itemsize == 4 && std::strchr("il", f[0]) && !f[1] ? Dtype::i4
              : view_.itemsize == 8 && std::strchr("lq", f[0]) && !f[1] ? Dtype::i8 : Dtype::none;
        data = view_.buf;
        rank = view_.ndim;
        dims = view_.shape;
    }

    void read(const DLPackExchangeAPI* exchange, PyObject* x) {
        DLTensor t;
        if (exchange->read(x, &t)) throw nanobind::python_error();
        constexpr int CPU = 1, INT = 0, FLOAT = 2, COMPLEX = 5;
        int code = t.dtype.lanes == 1 ? t.dtype.code : -1, bits = t.dtype.bits;
        dtype = code == FLOAT ? (bits == 64 ? Dtype::f8 : bits == 32 ? Dtype::f4 : Dtype::none)
              : code == COMPLEX ? (bits == 128 ? Dtype::c16 : bits == 64 ? Dtype::c8 : Dtype::none)
              : code == INT ? (bits == 64 ? Dtype::i8 : bits == 32 ? Dtype::i4 : Dtype::none) : Dtype::none;
        data = static_cast<char*>(t.data) + t.byte_offset;
        rank = t.ndim;
        dims = reinterpret_cast<const Index*>(t.shape);
        Index step = 1;
        bool in_rows = t.device.type == CPU && (t.data || !items());
        for (int i = rank - 1; i >= 0 && in_rows; step *= dims[i--]) in_rows = !t.strides || dims[i] == 1 || t.strides[i] == step || !items();
        if (!in_rows) throw nanobind::buffer_error("expected rows one after the other, in the memory of this process");
    }

    Py_buffer view_{};
};

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
