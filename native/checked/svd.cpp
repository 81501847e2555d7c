// A = U diag(s) V^H by divide and conquer (gesdd): of 200 x 200 it takes 4.8 ms, and the values alone 2.0.
#include "gaps.hpp"
#include "kernels/products.hpp"
#include "spectra.hpp"

namespace {

// A = U diag(s) V^H, all by columns; `a` is overwritten. The rows of A, which LAPACK reads as A^T, would give U and V other phases than elsewhere.
template <class T> bool decompose(char job, T* a, T* u, Real<T>* s, T* vh, int m, int n, SpectralWork<T>& work) {
    constexpr Index BLOCK = 64;  // the block size of LAPACK
    int k = std::min(m, n), most = std::max(m, n), info = 0;
    int numbers = int((job == 'N' ? 0 : 5 * Index(k) * k) + (BLOCK + 8) * (Index(m) + n));
    work.work.grow(numbers);
    work.integers.resize(8 * Index(k));
    if constexpr (Scalar<T>::is_complex) {
        work.reals.resize(job == 'N' ? 7 * Index(k) : 5 * Index(k) * k + 5 * k + 2 * Index(most) * k + 2 * Index(k) * k + k);
        Lapack<T>::gesdd(&job, &m, &n, a, &m, s, u, &m, vh, &k, work.work.data(), &numbers, work.reals.data(), work.integers.data(), &info);
    } else
        Lapack<T>::gesdd(&job, &m, &n, a, &m, s, u, &m, vh, &k, work.work.data(), &numbers, work.integers.data(), &info);
    return info == 0 && all_finite(s, k);
}

// Is |A w - U diag(s) V^H w| small for one random w?
template <class T> bool is_decomposition(const T* a, Triplets<T> found, int m, int n, const Direction& probe, std::vector<T>& room) {
    const int k = std::min(m, n);
    room.resize(Index(n) + k + 2 * Index(m));
    T *w = room.data(), *inside = w + n, *image = inside + k, *given = image + m;
    probe.write(w, n);
    map(a, n, m, true, w, given);  // by columns
    map(found.vh, k, n, false, w, inside);
    for (int i = 0; i < k; i++) inside[i] *= found.s[i];
    map(found.u, m, k, false, inside, image);
    const double size = squares_of(probe.z.data(), n);
    return squares_between(given, image, m) <= ENOUGH * ENOUGH * eps<T> * eps<T> * size * double(found.s[0]) * double(found.s[0]);
}

// The terms that are divided by s_i - s_j and s_i + s_j: inner <- 2 X o R + 2 Y o S + diag(s_bar) of the skew parts (X + Y, X - Y) of M_U = U^H U_bar and
// M_V = V^H V_bar; false where a gap or a phase is for the rule to judge.
template <class T>
bool divide(const T* mu, const T* mv, const Real<T>* s, Real<T> unit, const Real<T>* s_bar, const Real<T>* sizes, const Gaps<Real<T>>& gaps, Real<T> error, T* inner, int k) {
    using R = Real<T>;
    auto skew = [k](const T* x, int i, int j) { return (x[Index(i) * k + j] - conj_of(x[Index(j) * k + i])) / R(2); };
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) {
            const T of_u = skew(mu, i, j), of_v = skew(mv, i, j), x = (of_u + of_v) / R(2), y = (of_u - of_v) / R(2);
            const R gap = s[j] - s[i], scale = std::max(sizes[i], sizes[j]);
            T coupling = T(2) * x / gap * unit;
            if (i == j) {
                if (Scalar<T>::is_complex && !(size_of(x) <= gaps.root * scale)) return false;
                coupling = s_bar ? s_bar[i] : R(0);
            } else if (!gaps.is_wide(gap)) {
                if (!gaps.is_resolved(gap, 2 * error)) return false;
                if (gaps.is_noise(gap, size_of(x), scale)) coupling = T(0);
            }
            inner[Index(i) * k + j] = coupling + T(2) * y / (s[i] + s[j]) * unit;
        }
    return true;
}

// a_bar = U inner V^H, and of A that is not square (U_bar - U M_U) diag(1/s) V^H, or U diag(1/s) (V_bar - V M_V)^H.
template <class M, class N, class T> bool pull(M m, N n, Triplets<T> of, Real<T> unit, Triplets<T> bars, T* a_bar, SpectralWork<T>& work) {
    using R = Real<T>;
    const auto k = [&] { if constexpr (is_fixed<M>) return m; else return std::min(int(m), int(n)); }();
    const R error = eps<T> * R(std::max(int(m), int(n))) * of.s[0], least = of.s[k - 1];
    T* scaled = work.a.grow(Index(m) * k + Index(k) * n);
    if (!bars.u && !bars.vh) {
        if (Gaps<R>::is_near(least, 2 * error) || !are_alike(of.s, bars.s, k, error, [=](int, int) { return 2 * error; })) return false;
        for (int i = 0; i < m; i++)
            for (int j = 0; j < k; j++) scaled[Index(i) * k + j] = bars.s[j] * of.u[Index(i) * k + j];
        product<'N', 'N'>(m, n, k, scaled, of.vh, a_bar);
        return all_finite(a_bar, Index(m) * n);
    }
    const Gaps<R> gaps(of.s[0], error);
    if (!gaps.is_wide(least)) return false;
    const Index square = Index(k) * k;
    T *mu = work.b.grow(3 * square), *mv = mu + square, *inner = mv + square;
    std::fill(mu, mu + 2 * square, T(0));
    work.reals.assign(k, R(0));
    R* sizes = work.reals.data();
    if (bars.vh) {
        product<'N', 'H'>(k, k, n, of.vh, bars.vh, mv);
        for (int i = 0; i < k; i++) sizes[i] = length(bars.vh + Index(i) * n, n);
    }
    if (bars.u) {
        product<'H', 'N'>(k, k, m, of.u, bars.u, mu);
        for (int i = 0; i < k; i++) sizes[i] += length(bars.u + i, m, k);
    }
    for (int i = 0; i < k; i++)
        if (!std::isfinite(sizes[i])) return false;
    if (!divide(mu, mv, of.s, unit, bars.s, sizes, gaps, error, inner, k)) return false;
    T* rest = scaled + Index(m) * k;
    if (m >= n) {
        const bool outside = bars.u && m > n;
        for (int i = 0; outside && i < k; i++)
            for (int j = 0; j < k; j++) inner[Index(i) * k + j] -= mu[Index(i) * k + j] / of.s[j] * unit;
        product<'N', 'N'>(m, k, k, of.u, inner, scaled);
        for (int i = 0; outside && i < m; i++)
            for (int j = 0; j < k; j++) scaled[Index(i) * k + j] += bars.u[Index(i) * k + j] / of.s[j] * unit;
        product<'N', 'N'>(m, n, k, scaled, of.vh, a_bar);
    } else {
        for (int i = 0; bars.vh && i < k; i++)
            for (int j = 0; j < k; j++) inner[Index(i) * k + j] -= conj_of(mv[Index(j) * k + i]) / of.s[i] * unit;
        product<'N', 'N'>(k, n, k, inner, of.vh, rest);
        for (int i = 0; bars.vh && i < k; i++)
            for (int j = 0; j < n; j++) rest[Index(i) * n + j] += bars.vh[Index(i) * n + j] / of.s[i] * unit;
        product<'N', 'N'>(m, n, k, of.u, rest, a_bar);
    }
    return all_finite(a_bar, Index(m) * n);
}

}  // namespace

template <class T>
bool svd(const T* a, T* u, Real<T>* s, T* vh, T* h, InUnits<T> inside, int m, int n, const Direction& probe, SpectralWork<T>& work) {
    const Index size = Index(m) * n, k = std::min(m, n);
    T *given = work.a.grow(size), *own = work.b.grow(size + (m + n) * k), *left = own + size, *right = left + m * k;
    int e = 0;
    if (!take_columns(a, given, m, n, e) || !inside.serves(h, e)) return false;
    std::copy(given, given + size, own);
    if (!decompose('S', own, left, s, right, m, n, work)) return false;
    transpose_columns(left, u, m, int(k));
    transpose_columns(right, vh, int(k), n);
    if (!is_isometry(u, m, int(k), probe, work.vectors) || !is_isometry(vh, int(k), n, probe, work.vectors)) return false;
    if (!is_decomposition(given, {u, vh, s}, m, n, probe, work.vectors)) return false;
    inside.take(s, nullptr, h, int(k), e);
    return all_finite(u, Index(m) * k) && all_finite(vh, k * n) && all_finite(s, k);
}

template <class T> bool svdvals(const T* a, Real<T>* s, int m, int n, SpectralWork<T>& work) {
    const Index size = Index(m) * n, k = std::min(m, n);
    T *own = work.a.grow(size), none;
    int e = 0;
    if (!take_columns(a, own, m, n, e)) return false;
    double squares = squares_of(own, size);
    if (!decompose('N', own, &none, s, &none, m, n, work)) return false;
    const double most = double(s[0]) * double(s[0]);
    for (Index j = 0; j < k; j++) squares -= double(s[j]) * double(s[j]);
    times_power(s, k, e);
    return std::fabs(squares) <= ENOUGH * eps<T> * k * most && all_finite(s, k);
}

template <class T> bool svd_pullback(Triplets<T> found, Real<T> t, Triplets<T> bars, T* a_bar, int m, int n, SpectralWork<T>& work) {
    if (!bars.u && !bars.s && !bars.vh) return false;
    if (m == n) return with_fixed_size(n, [&](auto n) { return pull(n, n, found, t * t, bars, a_bar, work); });
    return pull(m, n, found, t * t, bars, a_bar, work);
}

#define FOR(T)                                                                                                   \
    template bool svd(const T*, T*, Real<T>*, T*, T*, InUnits<T>, int, int, const Direction&, SpectralWork<T>&); \
    template bool svdvals(const T*, Real<T>*, int, int, SpectralWork<T>&);                                       \
    template bool svd_pullback(Triplets<T>, Real<T>, Triplets<T>, T*, int, int, SpectralWork<T>&);
EACH_NUMBER(FOR)
