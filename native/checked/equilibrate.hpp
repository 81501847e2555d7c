// M = R A C with the largest numbers of rows and columns within a ratio; R and C are powers of two, counted by their exponents.
#pragma once
#include <cstring>
#include <utility>

#include "kernels/columns.hpp"
#include "kernels/compressed.hpp"
#include "limits.hpp"

// x 2^e, which rounds only where it leaves the range.
template <class R> inline R scaled(R x, int e) {
    if (e < -1000 || e > 1000) return std::ldexp(x, e);
    uint64_t bits = uint64_t(1023 + e) << 52;
    double power;
    static_assert(sizeof(bits) == sizeof(power));
    std::memcpy(&power, &bits, 8);
    return R(double(x) * power);
}
template <class R> inline std::complex<R> scaled(std::complex<R> z, int e) { return {scaled(z.real(), e), scaled(z.imag(), e)}; }

template <class R> bool is_moderate(R most) { return most >= R(1 / MODERATE) && most <= R(MODERATE); }

// M = R A C by given powers, none for R = C = 1; the least and the largest of the maxima of all rows and columns. NaN is left out.
template <class T> std::pair<Real<T>, Real<T>> scale(const Compressed& a, T* m, const std::vector<int>& powers, Real<T>* rows) {
    using R = Real<T>;
    const Row n = a.size();
    R least = std::numeric_limits<R>::infinity(), most = 0;
    std::fill(rows, rows + n, R(0));
    for (Row j = 0; j < n; j++) {
        R column = 0;
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            if (!powers.empty()) m[s] = scaled(m[s], powers[a.rows[s]] + powers[n + j]);
            R size = size_of(m[s]);
            column = std::max(column, size);
            rows[a.rows[s]] = std::max(rows[a.rows[s]], size);
        }
        least = std::min(least, column);
        most = std::max(most, column);
    }
    for (Row i = 0; i < n; i++) least = std::min(least, rows[i]);
    return {least, most};
}

constexpr int NO_EXPONENT = -100000;  // of zero

template <class T> int exponent_of(T x) {
    const Real<T>* parts = reinterpret_cast<const Real<T>*>(&x);
    Real<T> most = std::fabs(parts[0]);
    if (Scalar<T>::is_complex) most = std::max(most, std::fabs(parts[1]));
    int e = NO_EXPONENT;
    if (most > 0) std::frexp(most, &e);
    return e;
}

// Find the powers of two of R, then of C; none if A is balanced. False if a row or a column is zero.
// Each step is that of ldiv.engines.accuracy.equilibration:  r_i <- r_i / sqrt(max_j |m_ij|),  c_j <- c_j / sqrt(max_i |m_ij|).
template <class T> bool equilibrate(const Compressed& a, const T* values, std::vector<int>& powers) {
    Row n = a.size();
    std::vector<int> own(a.rows.size()), most(2 * size_t(n)), of(2 * size_t(n), 0);
    for (size_t s = 0; s < own.size(); s++) own[s] = exponent_of(values[s]);
    const int spread = std::ilogb(BALANCED), moderate = std::ilogb(MODERATE);
    int least_of_all = 0, most_of_all = 0;
    auto find_maxima = [&] {
        std::fill(most.begin(), most.end(), 2 * NO_EXPONENT);
        for (Row j = 0; j < n; j++)
            for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
                int e = own[s] + of[a.rows[s]] + of[n + j];
                most[a.rows[s]] = std::max(most[a.rows[s]], e);
                most[n + j] = std::max(most[n + j], e);
            }
        auto ends = std::minmax_element(most.begin(), most.end());
        least_of_all = *ends.first;
        most_of_all = *ends.second;
        return least_of_all > most_of_all + spread && most_of_all <= moderate && most_of_all > -moderate;
    };
    powers.clear();
    if (n == 0 || find_maxima()) return true;
    if (least_of_all < NO_EXPONENT / 2) return false;
    std::fill(of.begin(), of.end(), -((least_of_all + most_of_all) >> 2));
    for (int step = 0; step < SCALINGS && !find_maxima(); step++)
        for (size_t i = 0; i < of.size(); i++) of[i] -= most[i] >> 1;
    powers.swap(of);
    return true;
}
