// Numbers of the four dtypes: |z|, conj z, eps, and whether all of an array are finite.
#pragma once
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

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

template <class R> inline R size_of(R x) { return std::fabs(x); }
// Not std::abs, which guards against overflow: what overflows here is declined.
template <class R> inline R size_of(std::complex<R> z) {
    return std::sqrt(z.real() * z.real() + z.imag() * z.imag());
}

template <class R> inline R conj_of(R x) { return x; }
template <class R> inline std::complex<R> conj_of(std::complex<R> z) { return std::conj(z); }

template <class T> constexpr Real<T> eps = std::numeric_limits<Real<T>>::epsilon();

// 0 x is 0 for finite x, else NaN: a sum tells of all, without a branch.
template <class T> bool all_finite(const T* x, Index count) {
    const Real<T>* parts = reinterpret_cast<const Real<T>*>(x);
    Index total = Scalar<T>::is_complex ? 2 * count : count;
    Real<T> sum[4] = {0, 0, 0, 0};
    Index i = 0;
    for (; i + 4 <= total; i += 4)
        for (int j = 0; j < 4; j++) sum[j] += Real<T>(0) * parts[i + j];
    for (; i < total; i++) sum[0] += Real<T>(0) * parts[i];
    return sum[0] + sum[1] + sum[2] + sum[3] == 0;
}
