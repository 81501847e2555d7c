// A = Q R by reflections (geqrf, orgqr).
#include "orthogonal.hpp"

#include <algorithm>
#include <cmath>

#include "equilibrate.hpp"
#include "kernels/products.hpp"
#include "triangles.hpp"

namespace {

template <class T> bool decompose(const T* a, T* q, T* r, int m, int n, SpectralWork<T>& work) {
    constexpr Index BLOCK = 64;  // the block size of LAPACK
    T *own = work.a.grow(Index(m) * n), *room = work.work.grow((BLOCK + 1) * n), *tau = room + BLOCK * n;
    int numbers = int(BLOCK * n), info = 0;
    transpose_rows(a, own, m, n);
    Lapack<T>::geqrf(&m, &n, own, &m, tau, room, &numbers, &info);
    for (Index i = 0; i < n; i++)
        for (Index j = 0; j < n; j++) r[i * n + j] = j < i ? T(0) : own[j * m + i];
    Lapack<T>::ungqr(&m, &n, &n, own, &m, tau, room, &numbers, &info);
    transpose_columns(own, q, m, n);
    return info == 0 && all_finite(q, Index(m) * n) && all_finite(r, Index(n) * n);
}

// Is |A w - Q R w| small for one random w?
template <class T> bool is_decomposition(const T* a, const T* q, const T* r, int m, int n, const Direction& probe, std::vector<T>& room) {
    room.resize(2 * (Index(n) + m));
    T *w = room.data(), *inside = w + n, *image = inside + n, *given = image + m;
    probe.write(w, n);
    map(a, m, n, false, w, given);
    map(r, n, n, false, w, inside);
    map(q, m, n, false, inside, image);
    const double size = squares_of(probe.z.data(), n);
    return squares_between(given, image, m) <= ENOUGH * ENOUGH * eps<T> * eps<T> * size * squares_of(r, Index(n) * n);
}

// Are the columns of R D^-1 independent, D their lengths? By its diagonal, and its inverse in one random direction, D y with R y = z.
template <class T> bool is_independent(const T* r, int n, const Direction& probe, SpectralWork<T>& work) {
    const Real<T> least = 4 * n * eps<T>;
    work.reals.resize(n);
    work.vectors.resize(n);
    T* in_unit = work.a.grow(Index(n) * n);  // squares of large numbers overflow
    Real<T> most = 0;
    for (Index i = 0; i < Index(n) * n; i++) most = std::max({most, std::fabs(std::real(r[i])), std::fabs(std::imag(r[i]))});
    const int power = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    for (Index i = 0; i < Index(n) * n; i++) in_unit[i] = scaled(r[i], -power);
    lengths(in_unit, work.reals.data(), n, n);
    T* y = work.vectors.data();
    double size = 0, grown = 0;
    for (int i = n - 1; i >= 0; i--) {
        const T* row = in_unit + Index(i) * n;
        if (!(size_of(row[i]) > least * work.reals[i])) return false;
        T sum = T(Real<T>(probe.z[i]));
        for (int j = i + 1; j < n; j++) sum -= times(row[j], y[j]);
        y[i] = sum / row[i];
        size += probe.z[i] * probe.z[i];
        grown += double(std::norm(work.reals[i] * y[i]));
    }
    return grown * double(least) * double(least) < size;
}

// X <- X R^-H.
template <class M, class N, class T> void divide_by_adjoint(M m, N n, const T* r, T* x) {
    if constexpr (is_fixed<N>) {
        for (int i = 0; i < m; i++, x += n)
            for (int j = n - 1; j >= 0; j--) {
                for (int c = j + 1; c < n; c++) x[j] -= times(x[c], conj_of(r[j * n + c]));
                x[j] /= std::real(r[j * (n + 1)]);
            }
    } else  // LAPACK reads rows as columns: X^T <- conj(R)^-1 X^T, and R as R^T
        Kernels<T>::triangular('L', 'L', Scalar<T>::is_complex ? 'C' : 'T', 'N', n, m, r, n, x, n);
}

template <class M, class N, class T> void pull(M m, N n, const T* q, const T* r, const T* q_bar, const T* r_bar, T* a_bar, SpectralWork<T>& work) {
    const Index square = Index(n) * n;
    T *w = work.a.grow(2 * square), *upper = w + square;
    std::fill(w, w + square, T(0));
    if (r_bar) {
        for (Index i = 0; i < n; i++)
            for (Index j = 0; j < n; j++) upper[i * n + j] = j < i ? T(0) : r_bar[i * n + j];
        product<'N', 'H'>(n, upper, r, w);
    }
    if (q_bar) {
        product<'H', 'N'>(n, n, m, q, q_bar, upper);
        for (Index i = 0; i < square; i++) w[i] -= upper[i];
    }
    for (Index i = 0; i < n; i++) {
        w[i * (n + 1)] = T(std::real(w[i * (n + 1)]));
        for (Index j = i + 1; j < n; j++) w[j * n + i] = conj_of(w[i * n + j]);
    }
    product<'N', 'N'>(m, n, n, q, w, a_bar);
    for (Index i = 0; q_bar && i < Index(m) * n; i++) a_bar[i] += q_bar[i];
    divide_by_adjoint(m, n, r, a_bar);
}

}  // namespace

template <class T> bool qr(const T* a, T* q, T* r, int m, int n, const Direction& probe, SpectralWork<T>& work) {
    if (m < n || !all_finite(a, Index(m) * n) || !decompose(a, q, r, m, n, work)) return false;
    return is_isometry(q, m, n, probe, work.vectors) && is_decomposition(a, q, r, m, n, probe, work.vectors);
}

template <class T> bool qr_pullback(const T* q, const T* r, const T* q_bar, const T* r_bar, T* a_bar, int m, int n, const Direction& probe, SpectralWork<T>& work) {
    if (m < n || !is_independent(r, n, probe, work)) return false;
    with_fixed_size(n, [&](auto n) {
        if (m == n) return pull(n, n, q, r, q_bar, r_bar, a_bar, work);
        pull(m, n, q, r, q_bar, r_bar, a_bar, work);
    });
    return all_finite(a_bar, Index(m) * n);
}

template <class T> bool Augmented<T>::factor(const T* a, const Direction& probe, SpectralWork<T>& work) {
    return qr(a, q, t, m, n, probe, work) && is_independent(t, n, probe, work);
}

template <class T> bool Augmented<T>::solve(const T* b, const T* c, T* r, T* x, SpectralWork<T>& work) const {
    if (!is_middle(norms(t, Index(n) * n).most)) return false;
    const Index size = Index(n) * k;
    const Triangle<T> triangle{t, n, false, false};
    T *y = work.b.grow(2 * size), *z = y + size;
    std::fill(y, y + 2 * size, T(0));
    if (b) product<'H', 'N'>(n, k, m, q, b, y);
    if (c && !triangle.solve(c, z, k, 'H')) return false;
    for (Index i = 0; i < size; i++) y[i] -= z[i];
    product<'N', 'N'>(m, k, n, q, y, r, Real<T>(-1));
    for (Index i = 0; b && i < Index(m) * k; i++) r[i] += b[i];
    return triangle.solve(y, x, k, 'N') && all_finite(r, Index(m) * k);
}

template <class T>
bool Augmented<T>::pullback(const T* r, const T* x, const T* r_bar, const T* x_bar, T* b_bar, T* c_bar, T* a_bar, SpectralWork<T>& work) const {
    if (!solve(r_bar, x_bar, b_bar, c_bar, work)) return false;
    if (!a_bar) return true;
    const Index size = Index(m) * n;
    T* other = work.a.grow(size);
    product<'N', 'H'>(m, n, k, b_bar, x, a_bar, Real<T>(-1));
    product<'N', 'H'>(m, n, k, r, c_bar, other);
    for (Index i = 0; i < size; i++) a_bar[i] -= other[i];
    return all_finite(a_bar, size);
}

#define FOR(T)                                                                                                                      \
    template bool qr(const T*, T*, T*, int, int, const Direction&, SpectralWork<T>&);                                               \
    template bool qr_pullback(const T*, const T*, const T*, const T*, T*, int, int, const Direction&, SpectralWork<T>&);            \
    template struct Augmented<T>;
EACH_NUMBER(FOR)
