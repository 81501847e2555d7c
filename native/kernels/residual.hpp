// R = B - A X in more digits than the numbers have, where the machine has them: A (m, n), X (n, k), B (m, k), row by row.
#pragma once
#include <vector>

#include "scalar.hpp"

template <class T> struct Wider { using Number = std::conditional_t<std::is_same_v<T, float>, double, long double>; };
template <class R> struct Wider<std::complex<R>> { using Number = std::complex<typename Wider<R>::Number>; };

template <class T> void residual(const T* a, const T* x, const T* b, T* r, int m, int n, int k) {
    using Wide = typename Wider<T>::Number;
    std::vector<Wide> row(k);
    for (Index i = 0; i < m; i++) {
        row.assign(b + i * k, b + (i + 1) * k);
        for (Index l = 0; l < n; l++) {
            const Wide entry = -Wide(a[i * n + l]);
            for (int j = 0; j < k; j++) row[j] += times(entry, Wide(x[l * k + j]));
        }
        for (int j = 0; j < k; j++) r[i * k + j] = T(row[j]);
    }
}
