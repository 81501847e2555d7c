// A = X diag(lam) X^H by divide and conquer (syevd, heevd): of 200 x 200 it takes 2.9 ms, syevr 3.0, syev 8.1; of 33 x 33 83, 96 and 92 us.
#include "gaps.hpp"
#include "kernels/hermitian.hpp"
#include "kernels/products.hpp"
#include "spectra.hpp"

namespace {

// part = (A + A^H) / 2 by columns, divided by 2^e, which brings its numbers near 1; false where A is not Hermitian, or not finite.
template <class T> bool take_part(const T* a, T* part, int n, int& e) {
    using R = Real<T>;
    R defect = 0, most = 0;
    of_pairs(n, [&](int r, int c) {
        const T x = a[Index(r) * n + c], y = conj_of(a[Index(c) * n + r]), half = x / R(2) + y / R(2);
        if (x != y) defect = std::max(defect, weight(x - y));
        most = std::max(most, weight(half));
        part[Index(r) * n + c] = conj_of(half);
        part[Index(c) * n + r] = half;
        return true;
    });
    const Index size = Index(n) * n;
    // weight is at most sqrt(2) times the size
    if (!all_finite(part, size) || !(defect <= std::pow(eps<T>, R(SYMMETRIC)) / 2 * most)) return false;
    e = power_of(part, size, MODERATE);
    times_power(part, size, -e);
    return true;
}

template <class T> bool decompose(char job, T* a, Real<T>* lam, int n, SpectralWork<T>& work) {
    constexpr Index BLOCK = 64;  // the block size of LAPACK
    const bool both = job == 'V';
    const Index size = Index(n) * n;
    int numbers = int(both ? 1 + (6 + BLOCK) * n + 2 * size : 1 + (2 + BLOCK) * n), integers = 3 + 5 * n, info = 0;
    work.work.grow(numbers);
    work.integers.resize(integers);
    char uplo = 'L';
    if constexpr (Scalar<T>::is_complex) {
        int reals = int(1 + 5 * Index(n) + 2 * size);
        work.reals.resize(reals);
        Lapack<T>::heevd(&job, &uplo, &n, a, &n, lam, work.work.data(), &numbers, work.reals.data(), &reals, work.integers.data(), &integers, &info);
    } else
        Lapack<T>::heevd(&job, &uplo, &n, a, &n, lam, work.work.data(), &numbers, work.integers.data(), &integers, &info);
    return info == 0 && all_finite(lam, n);
}

// bound_j = |A x_j - lam_j x_j| |x_j| + eps max |lam|; false if one is not at the level of rounding.
template <class N, class T> bool find_bounds(N n, const T* part, const Real<T>* lam, const T* x, Real<T>* bound, SpectralWork<T>& work) {
    using R = Real<T>;
    T* ax = work.b.grow(Index(n) * n);
    product<'N', 'N'>(n, x, part, ax);  // of rows: (A X)^T = X^T A^T
    const R most = most_of(lam, n);
    for (int j = 0; j < n; j++) {
        const T *own = x + Index(j) * n, *image = ax + Index(j) * n;
        R residual = 0, length = 0;
        for (int i = 0; i < n; i++) {
            residual += std::norm(image[i] - lam[j] * own[i]);
            length += std::norm(own[i]);
        }
        bound[j] = std::sqrt(residual) * std::sqrt(length) + eps<T> * most;
        if (!(bound[j] <= R(ENOUGH) * eps<T> * most)) return false;
    }
    return true;
}

// Is |A X w - X diag(lam) w| small for one random w? x has X^T, part A^T.
template <class T> bool is_decomposition(const T* part, const Real<T>* lam, const T* x, int n, const Direction& probe, std::vector<T>& room) {
    room.resize(4 * Index(n));
    T *w = room.data(), *xw = w + n, *image = xw + n, *expected = image + n;
    probe.write(w, n);
    map(x, n, n, true, w, xw);
    map(part, n, n, true, xw, image);
    for (int j = 0; j < n; j++) w[j] *= lam[j];
    map(x, n, n, true, w, expected);
    const double enough = ENOUGH * eps<T> * most_of(lam, n);
    return squares_between(image, expected, n) <= enough * enough * squares_of(probe.z.data(), n);
}

template <class N, class T>
bool pairs(N n, const T* a, Real<T>* lam, T* x, Real<T>* bound, T* h, InUnits<T> inside, const Direction& probe, SpectralWork<T>& work) {
    const Index size = Index(n) * n;
    T* part = work.a.grow(size);
    int e = 0;
    if ((inside.bound && !bound) || !take_part(a, part, n, e) || !inside.serves(h, e)) return false;
    std::copy(part, part + size, x);
    if (!decompose('V', x, lam, n, work) || !is_isometry(x, n, n, probe, work.vectors)) return false;
    if (bound ? !find_bounds(n, part, lam, x, bound, work) : !is_decomposition(part, lam, x, n, probe, work.vectors)) return false;
    inside.take(lam, bound, h, n, e);
    set_pairs(x, n, [](T& below, T& above) { std::swap(below, above); });
    return all_finite(x, size) && all_finite(lam, n);
}

// T in the place of X^H X_bar; false where a gap or a phase is for the rule to judge.
template <class T>
bool divide(const Real<T>* lam, const T* x, const Real<T>* bound, Real<T> unit, const Real<T>* lam_bar, const T* x_bar, T* t, int n, std::vector<Real<T>>& room) {
    using R = Real<T>;
    const Gaps<R> gaps(most_of(lam, n), most_of(bound, n));
    bool is_looked_at = Scalar<T>::is_complex;
    for (int i = 1; i < n; i++) is_looked_at |= !gaps.is_wide(lam[i] - lam[i - 1]);
    room.resize(2 * Index(n));
    R *of_x = room.data(), *of_bar = of_x + n;
    if (is_looked_at) {
        for (int j = 0; j < n; j++) {
            of_x[j] = length(x + j, n, n);
            of_bar[j] = length(x_bar + j, n, n);
            if (!std::isfinite(of_bar[j])) return false;
        }
    }
    bool accepted = true;
    of_pairs(n, [&](int i, int j) {
        T &here = t[Index(i) * n + j], &there = t[Index(j) * n + i];
        const T coupling = (here - conj_of(there)) / R(2);
        if (i == j) {
            accepted &= !Scalar<T>::is_complex || size_of(coupling) <= gaps.root * of_x[i] * of_bar[i];
            here = lam_bar ? lam_bar[i] : R(0);
            return accepted;
        }
        const R gap = lam[j] - lam[i];
        here = coupling / gap * unit;
        if (!gaps.is_wide(gap)) {
            accepted &= gaps.is_resolved(gap, bound[i] + bound[j]);
            if (gaps.is_noise(gap, size_of(coupling), std::max(of_x[i] * of_bar[j], of_x[j] * of_bar[i]))) here = T(0);
        }
        there = conj_of(here);
        return accepted;
    });
    return accepted;
}

template <class N, class T>
bool pull(N n, const Real<T>* lam, const T* x, const Real<T>* bound, Real<T> unit, const Real<T>* lam_bar, const T* x_bar, T* a_bar, SpectralWork<T>& work) {
    const Index size = Index(n) * n;
    T *t = work.a.grow(size), *xt = work.b.grow(size);
    if (x_bar) {
        product<'H', 'N'>(n, x, x_bar, t);
        if (!divide(lam, x, bound, unit, lam_bar, x_bar, t, n, work.reals)) return false;
        product<'N', 'N'>(n, x, t, xt);
    } else {
        if (!are_alike(lam, lam_bar, n, most_of(bound, n), [=](int i, int j) { return bound[i] + bound[j]; })) return false;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) xt[Index(i) * n + j] = lam_bar[j] * x[Index(i) * n + j];
    }
    product<'N', 'H'>(n, xt, x, a_bar);
    take_hermitian_part(a_bar, n);
    return all_finite(a_bar, size);
}

}  // namespace

template <class T> bool eigvalsh(const T* a, Real<T>* lam, int n, SpectralWork<T>& work) {
    const Index size = Index(n) * n;
    T* part = work.a.grow(size);
    int e = 0;
    if (!take_part(a, part, n, e)) return false;
    double trace = 0, squares = squares_of(part, size);
    for (int j = 0; j < n; j++) trace += double(std::real(part[Index(j) * (n + 1)]));
    if (!decompose('N', part, lam, n, work)) return false;
    const double most = most_of(lam, n), enough = ENOUGH * eps<T> * n * most;
    for (int j = 0; j < n; j++) {
        trace -= lam[j];
        squares -= double(lam[j]) * lam[j];
    }
    times_power(lam, n, e);
    return std::fabs(trace) <= enough && std::fabs(squares) <= enough * most && all_finite(lam, n);
}

template <class T>
bool eigh(const T* a, Real<T>* lam, T* x, Real<T>* bound, T* h, InUnits<T> inside, int n, const Direction& probe, SpectralWork<T>& work) {
    return with_fixed_size(n, [&](auto n) { return pairs(n, a, lam, x, bound, h, inside, probe, work); });
}

template <class T>
bool eigh_pullback(const Real<T>* lam, const T* x, const Real<T>* bound, Real<T> t, const Real<T>* lam_bar, const T* x_bar, T* a_bar, int n, SpectralWork<T>& work) {
    return (lam_bar || x_bar) && with_fixed_size(n, [&](auto n) { return pull(n, lam, x, bound, t * t, lam_bar, x_bar, a_bar, work); });
}

#define FOR(T)                                                                                                \
    template bool eigh(const T*, Real<T>*, T*, Real<T>*, T*, InUnits<T>, int, const Direction&, SpectralWork<T>&); \
    template bool eigvalsh(const T*, Real<T>*, int, SpectralWork<T>&);                                        \
    template bool eigh_pullback(const Real<T>*, const T*, const Real<T>*, Real<T>, const Real<T>*, const T*, T*, int, SpectralWork<T>&);
EACH_NUMBER(FOR)
