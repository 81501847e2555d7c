#include "kernels/lapack.hpp"

#include <nanobind/nanobind.h>

#include <cstring>
#include <string>

#include "calls.hpp"
#include "kernels/blas_threads.hpp"

namespace nb = nanobind;

// Each capsule names its C signature, which is checked; its integers have 32 bits.
template <class F> static void take(const nb::dict& capsules, const std::string& name, F& f) {
    nb::object capsule = nb::borrow(capsules[name.c_str()]);
    const char* signature = PyCapsule_GetName(capsule.ptr());
    if (!signature || std::strncmp(signature, "void (", 6) || !std::strstr(signature, "int *"))
        throw nb::import_error(("SciPy's " + name + " has another signature").c_str());
    f = reinterpret_cast<F>(PyCapsule_GetPointer(capsule.ptr(), signature));
}

template <class T> static void take_all(const nb::dict& lapack, const nb::dict& blas, const std::string& type) {
    take(lapack, type + "getrf", Lapack<T>::getrf);
    take(lapack, type + "getrs", Lapack<T>::getrs);
    take(lapack, type + "getri", Lapack<T>::getri);
    take(lapack, type + "potrf", Lapack<T>::potrf);
    take(lapack, type + "potrs", Lapack<T>::potrs);
    take(lapack, type + "potri", Lapack<T>::potri);
    take(lapack, type + "gesdd", Lapack<T>::gesdd);
    take(lapack, type + "geqrf", Lapack<T>::geqrf);
    take(lapack, type + "gees", Lapack<T>::gees);
    take(lapack, type + "geev", Lapack<T>::geev);
    take(lapack, type + "gebal", Lapack<T>::gebal);
    take(lapack, type + "trsyl", Lapack<T>::trsyl);
    take(lapack, type + (Scalar<T>::is_complex ? "ungqr" : "orgqr"), Lapack<T>::ungqr);
    take(blas, type + "gemv", Lapack<T>::gemv);
    take(blas, type + "gemm", Lapack<T>::gemm);
    take(blas, type + "trsm", Lapack<T>::trsm);
    const std::string hermitian = Scalar<T>::is_complex ? "he" : "sy";
    take(lapack, type + hermitian + "evd", Lapack<T>::heevd);
    take(blas, type + hermitian + "rk", Lapack<T>::herk);
    take(blas, type + hermitian + "mm", Lapack<T>::hemm);
    take(blas, type + "trsv", Lapack<T>::trsv);
    take(blas, type + "trmm", Lapack<T>::trmm);
}

void load_lapack() {
    auto capsules = [](const char* name) { return nb::cast<nb::dict>(nb::module_::import_(name).attr("__pyx_capi__")); };
    nb::dict lapack = capsules("scipy.linalg.cython_lapack"), blas = capsules("scipy.linalg.cython_blas");
    take_all<float>(lapack, blas, "s");
    take_all<double>(lapack, blas, "d");
    take_all<std::complex<float>>(lapack, blas, "c");
    take_all<std::complex<double>>(lapack, blas, "z");
    find_blas_threads(reinterpret_cast<const void*>(Lapack<double>::gemm));
}
