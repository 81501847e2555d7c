// 1 / (lam_j - lam_i) as ldiv.rules.inverse_gaps has it. What the rule refuses, warns of or takes for a cluster is declined.
#pragma once
#include "kernels/few_rows.hpp"
#include "limits.hpp"

template <class R> class Gaps {
  public:
    // most: the largest |lam_i|; error: the largest error bound
    Gaps(R most, R error) : most_(most), safe_(std::max(root * most, 2 * error / known_)) {}
    bool is_wide(R gap) const { return std::fabs(gap) > safe_; }  // the gap is resolved, and couplings are not noise
    bool is_resolved(R gap, R errors) const { return !is_near(gap, errors) && errors <= known_ * std::fabs(gap); }
    static bool is_near(R gap, R errors) { return !(std::fabs(gap) > R(RESOLVED) * errors); }
    // a coupling at the level of rounding, between close eigenvalues, carries no information
    bool is_noise(R gap, R coupling, R scale) const { return std::fabs(gap) <= root * most_ && coupling <= R(NOISE) * std::numeric_limits<R>::epsilon() * scale; }

    inline static const R root = std::sqrt(std::numeric_limits<R>::epsilon());

  private:
    const R known_ = std::pow(std::numeric_limits<R>::epsilon(), R(LOST));  // the share of a gap that its error may be
    R most_, safe_;
};

// |x|_2 of numbers with stride `step`, scaled so that no square overflows or underflows.
template <class T> Real<T> length(const T* x, Index count, Index step = 1) {
    Real<T> most = 0, sum = 0;
    for (Index i = 0; i < count; i++) most = std::max(most, weight(x[i * step]));
    if (!(most > 0) || !std::isfinite(most)) return most;
    for (Index i = 0; i < count; i++) sum += std::norm(x[i * step] / most);
    return most * std::sqrt(sum);
}

// True if the sorted eigenvalues of each cluster have equal cotangents. errors(i, j): the sum of their error bounds.
template <class R, class Errors> bool are_alike(const R* lam, const R* lam_bar, int n, R error, Errors errors) {
    R most = 0;
    for (int i = 0; i < n; i++) most = std::max(most, std::fabs(lam_bar[i]));
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n && Gaps<R>::is_near(lam[j] - lam[i], 2 * error); j++)
            if (Gaps<R>::is_near(lam[j] - lam[i], errors(i, j)) && !(std::fabs(lam_bar[i] - lam_bar[j]) <= Gaps<R>::root * most)) return false;
    return true;
}
