// Arrays of other libraries as DLPack 1 describes them: the part of its C exchange that reads them.
// https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once
#include <Python.h>

#include <cstdint>

struct DLTensor {
    void* data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;  // in items
    uint64_t byte_offset;
};

struct DLPackExchangeAPI {
    struct { uint32_t major, minor; } version;
    void* older;
    void *allocate, *own, *give;
    int (*read)(void* object, DLTensor* out);  // without a reference; -1 and an error, or 0
    void* stream;
};

// The exchange table of the type of an array, or null. The caller holds the GIL.
inline const DLPackExchangeAPI* exchange_of(PyTypeObject* type) {
    static PyTypeObject* known = nullptr;  // the last one that had it
    static const DLPackExchangeAPI* its = nullptr;
    if (type == known) return its;
    PyObject* capsule = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
    auto* found = capsule ? static_cast<DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api")) : nullptr;
    Py_XDECREF(capsule);
    PyErr_Clear();
    if (!found || found->version.major != 1 || !found->read) return nullptr;
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    Py_XDECREF(reinterpret_cast<PyObject*>(known));
    known = type;
    return its = found;
}
