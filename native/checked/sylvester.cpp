// Transposed, as LAPACK reads rows, B^T X^T + X^T A^T = Q^T is T Z + Z S = V^H Q^T U with X^T = V Z U^H.
#include "sylvester.hpp"

#include "kernels/hermitian.hpp"
#include "kernels/products.hpp"
#include "kernels/triangular_sylvester.hpp"
#include "checks.hpp"

namespace {

// max of the sums of |a_ij| over rows and over columns, which bounds |A|_2; not finite where A is not.
template <class T> Real<T> bound_of(const T* a, int n, std::vector<Real<T>>& sums) {
    using R = Real<T>;
    sums.assign(n, R(0));
    R most = 0, every = 0;
    for (Index i = 0; i < n; i++) {
        R sum = 0;
        for (Index j = 0; j < n; j++) {
            const R size = size_of(a[i * n + j]);
            sum += size;
            sums[j] += size;
        }
        every += sum;
        most = std::max(most, sum);
    }
    for (R sum : sums) most = std::max(most, sum);
    return std::isfinite(every) ? most : every;
}

// Random signs.
constexpr uint64_t SEED = 0x9e3779b97f4a7c15u;
template <class T> void draw(T* z, Index count, uint64_t state) {
    for (Index i = 0; i < count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        z[i] = state >> 63 ? T(1) : T(-1);
    }
}

template <class T> Real<T> length_of(const T* x, Index count) {
    Real<T> sum = 0;
    for (Index i = 0; i < count; i++) sum += std::norm(x[i]);
    return std::sqrt(sum);
}

// True if A needs no balancing (gebal). `own` is a copy of A, which is overwritten.
template <class T> bool is_balanced(T* own, int n, Real<T>* scales) {
    char job = 'S';
    int first = 0, last = 0, info = 0;
    Lapack<T>::gebal(&job, &n, own, &n, &first, &last, scales, &info);
    const auto ends = std::minmax_element(scales, scales + n);
    return info == 0 && *ends.first >= Real<T>(BALANCED) * *ends.second;
}

// The Schur form of what is in s by columns, and its eigenvalues (n,) and n imaginary parts of real matrices.
template <class T> bool decompose(T* s, T* u, int n, Real<T>* values, Buffer<T>& room, Real<T>* reals) {
    constexpr int BLOCK = 72;  // the block size of LAPACK, and what it keeps of each
    char vectors = 'V', none = 'N';
    int sorted = 0, info = 0, numbers = BLOCK * n;
    T* work = room.grow(numbers);
    if constexpr (Scalar<T>::is_complex)
        Lapack<T>::gees(&vectors, &none, nullptr, &n, s, &n, &sorted, reinterpret_cast<T*>(values), u, &n, work, &numbers, reals, nullptr, &info);
    else
        Lapack<T>::gees(&vectors, &none, nullptr, &n, s, &n, &sorted, values, values + n, u, &n, work, &numbers, nullptr, &info);
    return info == 0 && all_finite(s, Index(n) * n) && all_finite(u, Index(n) * n);
}

// Are |A w - U S U^H w| and |U U^H w - w| small for one random w? `a` by columns.
template <class T> bool is_form(const T* a, const T* s, const T* u, Index n, Real<T> norm, Buffer<T>& room) {
    const char adjoint = Scalar<T>::is_complex ? 'C' : 'T';
    T *w = room.grow(4 * n), *inside = w + n, *turned = inside + n, *image = turned + n;
    draw(w, n, SEED);
    Kernels<T>::apply(adjoint, n, n, T(1), u, n, w, T(0), inside);
    Kernels<T>::apply('N', n, n, T(1), s, n, inside, T(0), turned);
    Kernels<T>::apply('N', n, n, T(1), u, n, turned, T(0), image);
    Kernels<T>::apply('N', n, n, T(-1), a, n, w, T(1), image);
    const Real<T> enough = Real<T>(ENOUGH) * eps<T> * std::sqrt(Real<T>(n));
    if (!(length_of(image, n) <= enough * norm)) return false;
    Kernels<T>::apply('N', n, n, T(1), u, n, inside, T(-1), w);
    return length_of(w, n) <= enough;
}

// The least |l + k| of eigenvalues l and k.
template <class T> Real<T> least_sum(const Real<T>* l, int m, const Real<T>* k, int n) {
    using R = Real<T>;
    constexpr bool pairs = Scalar<T>::is_complex;  // (re, im), or all re and then all im
    R least = std::numeric_limits<R>::infinity();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            const R re = l[pairs ? 2 * i : i] + k[pairs ? 2 * j : j], im = l[pairs ? 2 * i + 1 : m + i] + k[pairs ? 2 * j + 1 : n + j];
            least = std::min(least, re * re + im * im);
        }
    return std::sqrt(least);
}

template <class T> bool is_adjoint(const T* a, const T* b, Index n) {
    for (Index i = 0; i < n; i++)
        for (Index j = 0; j < n; j++)
            if (b[i * n + j] != conj_of(a[j * n + i])) return false;
    return true;
}

// B = A^H: B^T = conj(A) = U S^H U^H, which backwards, from its last row and column to the first, is a Schur form.
template <class T> void take_adjoint(const T* s, const T* u, const Real<T>* l, int n, T* t, T* v, Real<T>* k) {
    constexpr bool pairs = Scalar<T>::is_complex;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++) t[Index(j) * n + i] = conj_of(s[Index(n - 1 - i) * n + n - 1 - j]);
        std::copy(u + Index(n - 1 - j) * n, u + Index(n - j) * n, v + Index(j) * n);
        k[pairs ? 2 * j : j] = l[pairs ? 2 * j : j];
        k[pairs ? 2 * j + 1 : n + j] = -l[pairs ? 2 * j + 1 : n + j];
    }
}

// y = V^H F U, or V F U^H where it is undone, by columns.
template <class T> void turn(const T* v, const T* u, int n, int m, bool undone, const T* f, T* between, T* y) {
    const char adjoint = Scalar<T>::is_complex ? 'C' : 'T';
    Kernels<T>::multiply(undone ? 'N' : adjoint, 'N', n, m, n, T(1), v, n, f, n, T(0), between, n);
    Kernels<T>::multiply('N', undone ? adjoint : 'N', n, m, m, T(1), between, n, u, m, T(0), y, n);
}

}  // namespace

template <class T> bool SchurForms<T>::triangular(char op, T* f) const { return triangular_sylvester<T>(op, {t, n, n}, {s, m, m}, f, n); }

template <class T> bool SchurForms<T>::solve(const T* a, const T* b, const T* q, T* x, SylvesterWork<T>& work) const {
    const Index of_a = Index(m) * m, of_b = Index(n) * n, size = Index(m) * n;
    T *own = work.given.grow(of_a + of_b + size), *right = own + of_a + of_b;
    std::copy(b, b + of_b, std::copy(a, a + of_a, own));
    std::copy(q, q + size, right);
    if (!all_finite(own, of_a + of_b + size)) return false;
    const int e = power_of(own, of_a + of_b, MODERATE), f = power_of(right, size, MODERATE);
    times_power(own, of_a + of_b, -e);
    times_power(right, size, -f);
    std::vector<Real<T>> sums;
    const Real<T> norm = bound_of(own, m, sums) + bound_of(own + of_a, n, sums);
    if (!factor_in_units(own, own + of_a, norm, work) || !solve_in_units(own, own + of_a, right, x, norm, work)) return false;
    times_power(s, of_a, e);
    times_power(t, of_b, e);
    times_power(x, size, f - e);
    return all_finite(x, size);
}

template <class T> bool SchurForms<T>::factor_in_units(const T* a, const T* b, Real<T> norm, SylvesterWork<T>& work) const {
    using R = Real<T>;
    const Index of_a = Index(m) * m, of_b = Index(n) * n, most = std::max(m, n);
    work.reals.resize(2 * Index(m) + 2 * n + most);
    R *l = work.reals.data(), *k = l + 2 * m, *reals = k + 2 * n;
    std::copy(a, a + of_a, s);
    std::copy(b, b + of_b, t);
    // declined: the Python code balances A and B
    if (!is_balanced(s, m, reals) || !is_balanced(t, n, reals)) return false;
    std::copy(a, a + of_a, s);
    std::copy(b, b + of_b, t);
    if (!decompose(s, u, m, l, work.room, reals)) return false;
    if (m == n && is_adjoint(a, b, n))
        take_adjoint(s, u, l, n, t, v, k);
    else if (!decompose(t, v, n, k, work.room, reals))
        return false;
    if (!is_form(a, s, u, m, norm, work.room) || !is_form(b, t, v, n, norm, work.room)) return false;
    return least_sum<T>(l, m, k, n) > eps<T> * norm;
}

template <class T> bool SchurForms<T>::solve_in_units(const T* a, const T* b, const T* q, T* x, Real<T> norm, SylvesterWork<T>& work) const {
    using R = Real<T>;
    const Index size = Index(m) * n;
    const R of_q = norms(q, size).most;
    T *y = work.own.grow(2 * size), *between = y + size;
    // in the basis of the Schur vectors a random direction is a random direction
    bool needs_row_errors = false, solved = true;
    auto growth = [&](int first, int count) {
        R most = 0;
        for (int c = first; c < first + count; c++) {
            draw(y, size, SEED + uint64_t(c));
            solved = solved && triangular('N', y);
            const R grown = norm * eps<T> * length_of(y, size) / std::sqrt(R(size));
            most = grown <= std::numeric_limits<R>::max() ? std::max(most, grown) : std::numeric_limits<R>::infinity();
        }
        return most;
    };
    if (!is_growth_small<T>(growth, eps<T> > R(FAINT) ? 2 : 1, R(1), needs_row_errors) || !solved) return false;
    turn(v, u, n, m, false, q, between, y);
    if (!triangular('N', y)) return false;
    turn(v, u, n, m, true, y, between, x);
    if (m == n && is_adjoint(a, b, n) && is_hermitian(q, n)) take_hermitian_part(x, n);
    // growth along Q itself is checked, too
    if (!(norm * eps<T> * length_of(x, size) <= R(SUSPICIOUS) * length_of(q, size))) return false;
    T *left = y, *right = between;
    product<'N', 'N'>(m, n, m, a, x, left);
    product<'N', 'N'>(m, n, n, x, b, right);
    for (Index i = 0; i < size; i++) left[i] = q[i] - left[i] - right[i];
    const R error = norms(left, size).most, enough = R(ENOUGH) * eps<T>;
    if (!all_finite(x, size) || !(error <= enough * (norm * norms(x, size).most + of_q))) return false;
    if (!needs_row_errors) return true;
    R row_error = 0;
    std::vector<R> room, abs_a(Index(m) * m), abs_b(Index(n) * n), both(2 * size);
    std::transform(a, a + abs_a.size(), abs_a.begin(), [](T z) { return size_of(z); });
    std::transform(b, b + abs_b.size(), abs_b.begin(), [](T z) { return size_of(z); });
    auto add = [&](R* total, const R* sizes) {
        product<'N', 'N'>(m, n, m, abs_a.data(), sizes, both.data());
        product<'N', 'N'>(m, n, n, sizes, abs_b.data(), both.data() + size);
        for (Index i = 0; i < size; i++) total[i] += both[i] + both[size + i];
    };
    row_errors<1>(left, x, q, size, room, add, &row_error);
    return row_error <= enough;
}

template <class T> bool SchurForms<T>::pullback(const T* x, const T* x_bar, T* a_bar, T* b_bar, T* q_bar, SylvesterWork<T>& work) const {
    using R = Real<T>;
    const Index of_s = Index(m) * m, of_t = Index(n) * n, size = Index(m) * n;
    T *own = work.given.grow(of_s + of_t + size), *bar = own + of_s + of_t;
    std::copy(t, t + of_t, std::copy(s, s + of_s, own));
    std::copy(x_bar, x_bar + size, bar);
    if (!all_finite(own, of_s + of_t + size)) return false;
    const int e = power_of(own, of_s + of_t, MODERATE), g = power_of(bar, size, MODERATE);
    times_power(own, of_s + of_t, -e);
    times_power(bar, size, -g);
    const SchurForms inside{own, u, own + of_s, v, m, n};
    T *f = work.own.grow(4 * size), *z = f + size, *left = z + size, *right = left + size;
    turn(v, u, n, m, false, bar, left, f);
    std::copy(f, f + size, z);
    if (!inside.triangular('C', z)) return false;
    const char adjoint = Scalar<T>::is_complex ? 'C' : 'T';
    Kernels<T>::multiply(adjoint, 'N', n, m, n, T(-1), inside.t, n, z, n, T(0), left, n);
    Kernels<T>::multiply('N', adjoint, n, m, m, T(-1), z, n, inside.s, m, T(0), right, n);
    std::vector<R> sums;
    const R norm = bound_of(inside.t, n, sums) + bound_of(inside.s, m, sums), of_z = norms(z, size).most, of_f = norms(f, size).most;
    for (Index i = 0; i < size; i++) left[i] += f[i] + right[i];
    if (!(norms(left, size).most <= R(ENOUGH) * eps<T> * (norm * of_z + of_f))) return false;
    turn(v, u, n, m, true, z, left, q_bar);
    times_power(q_bar, size, g - e);
    if (a_bar) product<'N', 'H'>(m, m, n, q_bar, x, a_bar, R(-1));
    if (b_bar) product<'H', 'N'>(n, n, m, x, q_bar, b_bar, R(-1));
    return all_finite(q_bar, size) && (!a_bar || all_finite(a_bar, Index(m) * m)) && (!b_bar || all_finite(b_bar, Index(n) * n));
}

#define FOR(T) template struct SchurForms<T>;
EACH_NUMBER(FOR)
