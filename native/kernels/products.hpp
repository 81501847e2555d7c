// C = alpha op(A) op(B) of matrices row by row: loops where the numbers of rows are known when it is compiled, else BLAS.
#pragma once
#include "blas.hpp"
#include "few_rows.hpp"

// op(A) (m, k), op(B) (k, n); op is N, or H, the conjugate transpose.
template <char of_a, char of_b, class M, class N, class K, class T> void product(M m, N n, K k, const T* a, const T* b, T* c, Real<T> alpha = 1) {
    static_assert((of_a == 'N' || of_a == 'H') && (of_b == 'N' || of_b == 'H'), "the matrix, or its conjugate transpose");
    constexpr Index FEW = 4096;  // multiplications
    constexpr int known = is_fixed<M> + is_fixed<N> + is_fixed<K>;
    if (known == 3 || (known == 2 && Index(m) * n * k <= FEW)) {
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                T sum = T(0);
                for (int l = 0; l < k; l++)
                    sum += times(of_a == 'N' ? a[i * k + l] : conj_of(a[l * m + i]), of_b == 'N' ? b[l * n + j] : conj_of(b[j * k + l]));
                c[i * n + j] = alpha * sum;
            }
    } else {  // BLAS reads rows as columns: C^T = op(B)^T op(A)^T, and B^H is the transpose of what it reads as B^T, conjugated
        auto letter = [](char of) { return of == 'N' ? 'N' : Scalar<T>::is_complex ? 'C' : 'T'; };
        const Index rows = m, columns = n, inner = k;
        Kernels<T>::multiply(letter(of_b), letter(of_a), columns, rows, inner, T(alpha), b, of_b == 'N' ? columns : inner, a, of_a == 'N' ? inner : rows, T(0), c, columns);
    }
}

// The same of square matrices.
template <char of_a, char of_b, class N, class T> void product(N n, const T* a, const T* b, T* c, Real<T> alpha = 1) {
    product<of_a, of_b>(n, n, n, a, b, c, alpha);
}
