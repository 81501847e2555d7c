// Checks of a matrix that the caller declares Hermitian: A equals A^H up to rounding (ldiv.structures.asymmetry).
#pragma once
#include "scalar.hpp"

// Whether f(r, c) for all pairs c <= r. Tile by tile: of a large matrix (r, c) and (c, r) are in the cache together.
template <class N, class F> inline bool of_pairs(N n, F f) {
    constexpr int TILE = 8;
    for (int i = 0; i < n; i += TILE)
        for (int j = 0; j <= i; j += TILE)
            for (int r = i; r < std::min<int>(i + TILE, n); r++)
                for (int c = j; c < std::min(j + TILE, r + 1); c++)
                    if (!f(r, c)) return false;
    return true;
}

// Is A equal to A^H, to the last bit?
template <class T> bool is_hermitian(const T* a, int n) {
    return of_pairs(n, [=](int r, int c) { return a[Index(r) * n + c] == conj_of(a[Index(c) * n + r]); });
}

// f(below, above) sets both entries of each pair; on the diagonal they are one.
template <class N, class T, class F> void set_pairs(T* a, N n, F f) {
    of_pairs(n, [=](int r, int c) { return f(a[Index(r) * n + c], a[Index(c) * n + r]), true; });
}

// A <- (A + A^H) / 2.
template <class T> void take_hermitian_part(T* a, int n) {
    set_pairs(a, n, [](T& below, T& above) {
        below = (below + conj_of(above)) / Real<T>(2);
        above = conj_of(below);
    });
}

// Do x and y differ by no more than `enough` of their size? Their halves do not overflow, and no number is squared.
template <class T> bool are_near(T x, T y, Real<T> enough) {
    const T p = x / Real<T>(2), q = y / Real<T>(2);
    return x == y || std::abs(p - q) <= enough * std::max(std::abs(p), std::abs(q));
}

// part = (A + A^H) / 2; whether no pair differs by more than `enough` of its size.
template <class T> bool hermitian_part(const T* a, T* part, int n, Real<T> enough) {
    return of_pairs(n, [=](int r, int c) {
        T x = a[Index(r) * n + c], y = conj_of(a[Index(c) * n + r]), half = x / Real<T>(2) + y / Real<T>(2);
        part[Index(r) * n + c] = half;
        part[Index(c) * n + r] = conj_of(half);
        return are_near(x, y, enough);
    });
}
