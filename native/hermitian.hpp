// A as it is promised: equal to A^H, or different from it by rounding alone (ldiv.structures.asymmetry).
#pragma once
#include "scalar.hpp"

// Is it, to the last bit?
template <class T> bool is_hermitian(const T* a, int n) {
    for (int r = 0; r < n; r++)
        for (int c = 0; c <= r; c++)
            if (a[Index(r) * n + c] != conj_of(a[Index(c) * n + r])) return false;
    return true;
}

// part = (A + A^H) / 2; whether no pair differs by more than rounding.
template <class T> bool hermitian_part(const T* a, T* part, int n) {
    const Real<T> enough = std::sqrt(std::sqrt(eps<T>));
    bool accepted = true;
    for (int r = 0; r < n; r++)
        for (int c = 0; c <= r; c++) {
            T x = a[Index(r) * n + c], y = conj_of(a[Index(c) * n + r]);
            accepted = accepted && size_of(x - y) <= enough * std::max(size_of(x), size_of(y));
            T half = x / Real<T>(2) + y / Real<T>(2);
            part[Index(r) * n + c] = half;
            part[Index(c) * n + r] = conj_of(half);
        }
    return accepted;
}
