// Numbers of the four dtypes: |z|, conj z, eps, and whether all of an array are finite.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <type_traits>

using Index = std::ptrdiff_t;

template <class T> struct Scalar {
    using Real = T;
    static constexpr bool is_complex = false;
};
template <class R> struct Scalar<std::complex<R>> {
    using Real = R;
    static constexpr bool is_complex = true;
};
template <class T> using Real = typename Scalar<T>::Real;
template <class T> using Complex = std::complex<Real<T>>;
template <class T> using Narrow = std::conditional_t<Scalar<T>::is_complex, std::complex<float>, float>;
template <class T> using Wide = std::conditional_t<Scalar<T>::is_complex, std::complex<double>, double>;

#define EACH_DOUBLE(OF) OF(double) OF(std::complex<double>)
#define EACH_NUMBER(OF) OF(float) OF(std::complex<float>) EACH_DOUBLE(OF)

template <class R> inline R size_of(R x) { return std::fabs(x); }
// Not std::abs, which guards against overflow: what overflows here is declined.
template <class R> inline R size_of(std::complex<R> z) {
    return std::sqrt(z.real() * z.real() + z.imag() * z.imag());
}

// |Re| + |Im|, by which LAPACK chooses pivots, too: cheaper, and no square underflows, so that units change no choice.
template <class R> inline R weight(R x) { return std::fabs(x); }
template <class R> inline R weight(std::complex<R> z) { return std::fabs(z.real()) + std::fabs(z.imag()); }

template <class R> inline R times(R a, R b) { return a * b; }
// Not the operator of std::complex, which looks for NaN: a residual with NaN is not small.
template <class R> inline std::complex<R> times(std::complex<R> a, std::complex<R> b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class R> inline R conj_of(R x) { return x; }
template <class R> inline std::complex<R> conj_of(std::complex<R> z) { return std::conj(z); }

template <class T> void conjugate(T* x, Index count) {
    for (Index i = 0; Scalar<T>::is_complex && i < count; i++) x[i] = conj_of(x[i]);
}

template <class T> constexpr Real<T> eps = std::numeric_limits<Real<T>>::epsilon();

// 0 x is 0 for finite x, else NaN: the sum of all 0 x is 0 exactly if all x are finite, without a branch.
template <class T> bool all_finite(const T* x, Index count) {
    const Real<T>* parts = reinterpret_cast<const Real<T>*>(x);
    Index total = Scalar<T>::is_complex ? 2 * count : count;
    Real<T> sum[4] = {0, 0, 0, 0};
    const Index blocks = total / 4 * 4;
    for (Index i = 0; i < blocks; i += 4)
        for (int j = 0; j < 4; j++) sum[j] += Real<T>(0) * parts[i + j];
    for (Index i = blocks; i < total; i++) sum[0] += Real<T>(0) * parts[i];
    return sum[0] + sum[1] + sum[2] + sum[3] == 0;
}

// The largest |x_j|, NaN left out, and their sum, which is not finite if one is not. In lanes: a maximum or a sum waits for the one before.
template <class R> struct Norms {
    R most, sum;
};
template <class T, class N> Norms<Real<T>> norms(const T* x, N count) {
    using R = Real<T>;
    constexpr int LANES = std::is_integral_v<N> ? 4 : 1;  // unrolled if n is a compile-time constant
    R most[LANES] = {}, sum[LANES] = {};
    auto take = [&](Index i, int j) {
        R size = size_of(x[i]);
        most[j] = most[j] < size ? size : most[j];
        sum[j] += size;
    };
    const Index blocks = count / LANES * LANES;
    for (Index i = 0; i < blocks; i += LANES)
        for (int j = 0; j < LANES; j++) take(i + j, j);
    for (Index i = blocks; i < count; i++) take(i, 0);
    if constexpr (LANES == 1) return {most[0], sum[0]};
    else return {std::max(std::max(most[0], most[1]), std::max(most[2], most[3])), (sum[0] + sum[1]) + (sum[2] + sum[3])};
}

// Is the sixth power of a size in the range, as that of 1 / size? Then no intermediate result of a derivative leaves it.
template <class R> bool is_middle(R most) {
    constexpr int exponent = std::numeric_limits<R>::max_exponent / 6;
    return most == 0 || (most >= std::ldexp(R(1), -exponent) && most <= std::ldexp(R(1), exponent));
}

// Even e with 2^-e x near 1, where the numbers x are all small or one of them is large; else 0.
template <class T> int power_of(const T* x, Index count, double moderate) {
    const Real<T>* parts = reinterpret_cast<const Real<T>*>(x);
    Real<T> most = 0;
    for (Index i = 0; i < (Scalar<T>::is_complex ? 2 * count : count); i++) most = std::max(most, std::fabs(parts[i]));
    if (most == 0 || (most >= Real<T>(1 / moderate) && most <= Real<T>(moderate))) return 0;
    int e = 0;
    std::frexp(most, &e);
    return e & ~1;
}

// x <- x 2^e for even e, in two steps, for 2^e itself may be beyond the range; false where a number is rounded, since it leaves the range.
template <class T> bool times_power(T* x, Index count, int e) {
    const Real<T> half = std::ldexp(Real<T>(1), e / 2), back = 1 / half;
    bool exact = true;
    for (Index i = 0; e && i < count; i++) {
        const T made = x[i] * half * half;
        exact = exact && made * back * back == x[i];
        x[i] = made;
    }
    return exact;
}

// X (n, k), row by row, as columns one after another, and back.
template <class T, class U> void transpose_rows(const T* rows, U* columns, int n, int k) {
    for (int c = 0; c < k; c++)
        for (int j = 0; j < n; j++) columns[Index(c) * n + j] = rows[Index(j) * k + c];
}
template <class T> void transpose_columns(const T* columns, T* rows, int n, int k) {
    for (int j = 0; j < n; j++)
        for (int c = 0; c < k; c++) rows[Index(j) * k + c] = columns[Index(c) * n + j];
}
