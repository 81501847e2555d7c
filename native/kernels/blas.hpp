// Small names for what a factorization asks of BLAS and LAPACK: lower triangles, matrices by columns.
#pragma once
#include "buffer.hpp"
#include "lapack.hpp"

template <class T> struct Kernels {
    using R = Real<T>;

    // L of A = L L^H in its place; false for one that is not positive definite
    static bool cholesky(Index n, T* a, Index lda) {
        int size = int(n), ld = int(lda), info = 0;
        Lapack<T>::potrf(LOWER, &size, a, &ld, &info);
        return info == 0;
    }
    // the same of A row by row, which LAPACK reads as A^T
    static bool cholesky_by_rows(Index n, T* a) {
        int size = int(n), info = 0;
        Lapack<T>::potrf(UPPER, &size, a, &size, &info);
        return info == 0;
    }
    // the lower triangle of (L L^H)^-1 in the place of L
    static void invert(Index n, T* l, Index ldl) {
        int size = int(n), ld = int(ldl), info = 0;
        Lapack<T>::potri(LOWER, &size, l, &ld, &info);
    }
    // B L^-1, B L^-T or B L^-H for B (m, n)
    static void right_solve(Index m, Index n, const T* l, Index ldl, T* b, Index ldb, char op) {
        triangular('R', 'L', op, 'N', m, n, l, ldl, b, ldb);
    }
    // op(T)^-1 B for B (m, n) and a triangle T on the left, or B op(T)^-1
    static void triangular(char side, char uplo, char op, char diagonal, Index m, Index n, const T* t, Index ldt, T* b, Index ldb) {
        if (m == 0) return;
        T one = 1;
        int rows = int(m), columns = int(n), ld = int(ldt), ldx = int(ldb);
        Lapack<T>::trsm(&side, &uplo, &op, &diagonal, &rows, &columns, &one, const_cast<T*>(t), &ld, b, &ldx);
    }
    // P L U of A in its place; false for one that is singular
    static bool lu(Index n, T* a, Index lda, int* pivots) {
        int size = int(n), ld = int(lda), info = 0;
        Lapack<T>::getrf(&size, &size, a, &ld, pivots, &info);
        return info == 0;
    }
    // B (n, k) <- op(P L U)^-1 B
    static void solve_lu(char op, Index n, Index k, const T* lu, const int* pivots, T* b) {
        int size = int(n), columns = int(k), info = 0;
        Lapack<T>::getrs(&op, &size, &columns, const_cast<T*>(lu), &size, const_cast<int*>(pivots), b, &size, &info);
    }
    // (P L U)^-1 in its place
    static bool invert_lu(Index n, T* lu, Index ldl, const int* pivots, Buffer<T>& work) {
        constexpr Index BLOCKED = 64;
        T* room = work.grow(BLOCKED * n);
        int size = int(n), ld = int(ldl), length = int(work.size()), info = 0;
        Lapack<T>::getri(&size, lu, &ld, const_cast<int*>(pivots), room, &length, &info);
        return info == 0;
    }
    // B op(T)^-1 for B (m, n) and a triangle T of P L U, `which` U, or L with ones on its diagonal
    static void right_divide(Index m, Index n, const T* lu, Index ldl, T* b, Index ldb, char which, char op) {
        triangular('R', which, op, which == 'L' ? 'U' : 'N', m, n, lu, ldl, b, ldb);
    }
    // C = alpha op(A) op(B) + beta C for C (m, n), op(A) (m, k)
    static void multiply(char opa, char opb, Index m, Index n, Index k, T alpha, const T* a, Index lda, const T* b, Index ldb, T beta, T* c, Index ldc) {
        if (m == 0 || n == 0) return;
        int rows = int(m), columns = int(n), inner = int(k), la = int(lda), lb = int(ldb), lc = int(ldc);
        Lapack<T>::gemm(&opa, &opb, &rows, &columns, &inner, &alpha, const_cast<T*>(a), &la, const_cast<T*>(b), &lb, &beta, c, &lc);
    }
    // C = beta C - A A^H for A (n, k)
    static void subtract_square(Index n, Index k, const T* a, Index lda, R beta, T* c, Index ldc) {
        R minus = -1;
        int size = int(n), inner = int(k), la = int(lda), lc = int(ldc);
        Lapack<T>::herk(LOWER, PLAIN, &size, &inner, &minus, const_cast<T*>(a), &la, &beta, c, &lc);
    }
    // C = alpha S B + beta C for a lower triangle S (m, m) of a Hermitian matrix, C (m, n)
    static void times_hermitian(Index m, Index n, T alpha, const T* s, Index lds, const T* b, Index ldb, T beta, T* c, Index ldc) {
        hermitian(LEFT, m, n, alpha, s, lds, b, ldb, beta, c, ldc);
    }
    // C = alpha B S + beta C for a lower triangle S (n, n) of a Hermitian matrix, C (m, n)
    static void by_hermitian(Index m, Index n, T alpha, const T* s, Index lds, const T* b, Index ldb, T beta, T* c, Index ldc) {
        hermitian(RIGHT, m, n, alpha, s, lds, b, ldb, beta, c, ldc);
    }
    // y += alpha op(A) x for A (m, n), op N or T
    static void apply(char op, Index m, Index n, T alpha, const T* a, Index lda, const T* x, T beta, T* y) {
        int rows = int(m), columns = int(n), ld = int(lda), one = 1;
        Lapack<T>::gemv(&op, &rows, &columns, &alpha, const_cast<T*>(a), &ld, const_cast<T*>(x), &one, &beta, y, &one);
    }

  private:
    static void hermitian(char* side, Index m, Index n, T alpha, const T* s, Index lds, const T* b, Index ldb, T beta, T* c, Index ldc) {
        if (m == 0 || n == 0) return;
        int rows = int(m), columns = int(n), ls = int(lds), lb = int(ldb), lc = int(ldc);
        Lapack<T>::hemm(side, LOWER, &rows, &columns, &alpha, const_cast<T*>(s), &ls, const_cast<T*>(b), &lb, &beta, c, &lc);
    }
    static inline char LOWER[] = "L", UPPER[] = "U", RIGHT[] = "R", LEFT[] = "L", PLAIN[] = "N";
};
