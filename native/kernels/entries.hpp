// Sums over the entries of a sparse matrix S: op(S) x, and u v^H at the places of the entries. The number k of columns is an int, or a
// Fixed one, for which the compiler unrolls the loops.
#pragma once
#include <algorithm>

#include "few_rows.hpp"
#include "scalar.hpp"

// sum_c u_c conj(v_c), of many in lanes: a sum waits for the one before.
template <class K, class T> T inner_product(const T* __restrict u, const T* __restrict v, K k) {
    constexpr int LANES = is_fixed<K> ? 1 : 4;
    T sum[4] = {};
    const int blocks = k / LANES * LANES;
    for (int c = 0; c < blocks; c += LANES)
        for (int j = 0; j < LANES; j++) sum[j] += times(u[c + j], conj_of(v[c + j]));
    for (int c = blocks; c < k; c++) sum[0] += times(u[c], conj_of(v[c]));
    return is_fixed<K> ? sum[0] : (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The entries by row: those of row i are order[s], or s if there is no order, in column columns[s], for starts[i] <= s < starts[i + 1].
struct ByRow {
    Index rows;
    const int *starts, *columns, *order;
};

// y_i = sum over the entries e of row i of p_e x_(column e), of rows with k numbers; p is conjugated if asked.
template <class K, class T> void sparse_product(const ByRow& entries, bool conjugated, const T* __restrict p, const T* __restrict x, T* __restrict y, K k) {
    for (Index i = 0; i < entries.rows; i++) {
        T few[8] = {}, *sum = is_fixed<K> ? few : y + i * k;
        if (!is_fixed<K>) std::fill_n(sum, int(k), T(0));
        for (int s = entries.starts[i]; s < entries.starts[i + 1]; s++) {
            T value = p[entries.order ? entries.order[s] : s];
            if (conjugated) value = conj_of(value);
            const T* from = x + Index(entries.columns[s]) * k;
            for (int c = 0; c < k; c++) sum[c] += times(value, from[c]);
        }
        if (is_fixed<K>) std::copy_n(few, int(k), y + i * k);
    }
}
