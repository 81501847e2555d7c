// The product of pivots as m 2^e: a sum of their logarithms, which grows, would round each of them to its own size.
#pragma once
#include "scalar.hpp"

// V: double or std::complex<double>.
template <class V> class PivotProduct {
  public:
    void take(V pivot) { m_ = near_one(times(m_, near_one(pivot))); }
    double log() const { return std::log(std::abs(m_)) + double(e_) * std::log(2.0); }
    V sign() const { return m_ / std::abs(m_); }

  private:
    // x 2^-k, so that the product of two of them neither under- nor overflows; 0 and what is not finite stay.
    V near_one(V x) {
        constexpr double FAR = 1e60;
        const double size = weight(x);
        if ((size > 1 / FAR && size < FAR) || !(size > 0) || !std::isfinite(size)) return x;
        const int k = std::ilogb(size);
        e_ += k;
        // in two steps: 2^-k may not be a number
        return x * std::ldexp(1.0, -k / 2) * std::ldexp(1.0, k / 2 - k);
    }
    V m_ = 1;
    Index e_ = 0;
};
