// Integers and patterns from Python, with checks, so that no kernel reads beyond its arrays.
#pragma once
#include "arrays.hpp"
#include "kernels/compressed.hpp"

template <class To> std::vector<To> numbers(const Array& x, Index least, Index end, const char* what) {
    require(x.dtype == Dtype::i4 || x.dtype == Dtype::i8, what);
    std::vector<To> found(x.items());
    for (Index i = 0; i < x.items(); i++) {
        int64_t value = x.dtype == Dtype::i4 ? x.as<int32_t>()[i] : x.as<int64_t>()[i];
        require(value >= least && value < end, what);
        found[i] = To(value);
    }
    return found;
}

inline Compressed columns_of(const Array& starts, const Array& rows) {
    const char* what = "starts, rows: expected compressed columns of a square matrix, sorted, each position once";
    require(starts.items() >= 1 && starts.items() - 1 < INT32_MAX, what);
    const Row n = Row(starts.items() - 1);
    Compressed columns{numbers<Index>(starts, 0, rows.items() + 1, what), numbers<Row>(rows, 0, n, what)};
    require(columns.starts[0] == 0 && columns.starts[n] == rows.items(), what);
    for (Row j = 0; j < n; j++) {
        require(columns.starts[j] <= columns.starts[j + 1], what);
        for (Index k = columns.starts[j]; k < columns.starts[j + 1]; k++) require(k == columns.starts[j] || columns.rows[k - 1] < columns.rows[k], what);
    }
    return columns;
}
