// BLAS and LAPACK by SciPy's function pointers: nothing is linked.
#pragma once
#include <complex>
#include <type_traits>

#include "scalar.hpp"

// The complex routines have a real work array as a further argument.
template <class T> using Heevd = std::conditional_t<Scalar<T>::is_complex,
    void (*)(char* job, char* uplo, int* n, T* a, int* lda, Real<T>* w, T* work, int* lwork, Real<T>* rwork, int* lrwork, int* iwork, int* liwork, int* info),
    void (*)(char* job, char* uplo, int* n, T* a, int* lda, Real<T>* w, T* work, int* lwork, int* iwork, int* liwork, int* info)>;
template <class T> using Gesdd = std::conditional_t<Scalar<T>::is_complex,
    void (*)(char* job, int* m, int* n, T* a, int* lda, Real<T>* s, T* u, int* ldu, T* vh, int* ldvh, T* work, int* lwork, Real<T>* rwork, int* iwork, int* info),
    void (*)(char* job, int* m, int* n, T* a, int* lda, Real<T>* s, T* u, int* ldu, T* vh, int* ldvh, T* work, int* lwork, int* iwork, int* info)>;

template <class T> using Gees = std::conditional_t<Scalar<T>::is_complex,
    void (*)(char* job, char* sort, void* select, int* n, T* a, int* lda, int* sdim, T* w, T* vs, int* ldvs, T* work, int* lwork, Real<T>* rwork, int* bwork, int* info),
    void (*)(char* job, char* sort, void* select, int* n, T* a, int* lda, int* sdim, T* re, T* im, T* vs, int* ldvs, T* work, int* lwork, int* bwork, int* info)>;

template <class T> using Geev = std::conditional_t<Scalar<T>::is_complex,
    void (*)(char* left, char* right, int* n, T* a, int* lda, T* w, T* vl, int* ldvl, T* vr, int* ldvr, T* work, int* lwork, Real<T>* rwork, int* info),
    void (*)(char* left, char* right, int* n, T* a, int* lda, T* re, T* im, T* vl, int* ldvl, T* vr, int* ldvr, T* work, int* lwork, int* info)>;

template <class T> struct Lapack {
    inline static void (*getrf)(int* m, int* n, T* a, int* lda, int* pivots, int* info) = nullptr;
    inline static void (*getrs)(char* op, int* n, int* k, T* lu, int* lda, int* pivots, T* b, int* ldb, int* info) = nullptr;
    inline static void (*getri)(int* n, T* lu, int* lda, int* pivots, T* work, int* lwork, int* info) = nullptr;
    inline static void (*potrf)(char* uplo, int* n, T* a, int* lda, int* info) = nullptr;
    inline static void (*potrs)(char* uplo, int* n, int* k, T* l, int* lda, T* b, int* ldb, int* info) = nullptr;
    inline static void (*potri)(char* uplo, int* n, T* l, int* lda, int* info) = nullptr;
    inline static void (*geqrf)(int* m, int* n, T* a, int* lda, T* tau, T* work, int* lwork, int* info) = nullptr;
    inline static void (*ungqr)(int* m, int* n, int* k, T* a, int* lda, T* tau, T* work, int* lwork, int* info) = nullptr;  // of real numbers orgqr
    inline static Heevd<T> heevd = nullptr;  // of real numbers syevd
    inline static Gesdd<T> gesdd = nullptr;
    inline static Gees<T> gees = nullptr;
    inline static Geev<T> geev = nullptr;
    inline static void (*gebal)(char* job, int* n, T* a, int* lda, int* first, int* last, Real<T>* scales, int* info) = nullptr;
    inline static void (*trsyl)(char* opa, char* opb, int* sign, int* m, int* n, T* a, int* lda, T* b, int* ldb, T* c, int* ldc, Real<T>* scale, int* info) = nullptr;
    inline static void (*gemv)(char* op, int* m, int* n, T* alpha, T* a, int* lda, T* x, int* incx, T* beta, T* y, int* incy) = nullptr;
    inline static void (*gemm)(char* opa, char* opb, int* m, int* n, int* k, T* alpha, T* a, int* lda, T* b, int* ldb, T* beta, T* c, int* ldc) = nullptr;
    inline static void (*trsm)(char* side, char* uplo, char* op, char* diag, int* m, int* n, T* alpha, T* a, int* lda, T* b, int* ldb) = nullptr;
    // of real numbers these are syrk and symm
    inline static void (*herk)(char* uplo, char* op, int* n, int* k, Real<T>* alpha, T* a, int* lda, Real<T>* beta, T* c, int* ldc) = nullptr;
    inline static void (*hemm)(char* side, char* uplo, int* m, int* n, T* alpha, T* a, int* lda, T* b, int* ldb, T* beta, T* c, int* ldc) = nullptr;
    inline static void (*trsv)(char* uplo, char* op, char* diagonal, int* n, T* a, int* lda, T* x, int* incx) = nullptr;
    inline static void (*trmm)(char* side, char* uplo, char* op, char* diagonal, int* m, int* n, T* alpha, T* a, int* lda, T* b, int* ldb) = nullptr;
};
