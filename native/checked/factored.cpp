// Dense factors with checks: M is finite and balanced, P M^T = L U or M = L L^H, its growth along a random direction is small; then
// op(M) x = b with r = b - op(M) x small.
#include "factored.hpp"

#include <cstring>

#include "kernels/blas.hpp"
#include "kernels/few_rows.hpp"
#include "kernels/hermitian.hpp"
#include "checks.hpp"

// -- the matrix ------------------------------------------------------------------------------------

// M <- (A + A^H) / 2, unless a pair differs by more than rounding; A itself where it is Hermitian.
template <class T> bool Factored<T>::use_hermitian_part(const T* a, bool hermitian, Units& units) {
    m = a;
    if (!hermitian || is_hermitian(a, n)) return true;
    units.m.grow(Index(n) * n);
    m = units.m.data();
    return hermitian_part(a, units.m.data(), n, std::pow(eps<T>, R(SYMMETRIC)));
}

constexpr int SMALL = 64;  // rows

// LU or Cholesky; matrices with few rows by unrolled loops.
template <class T> template <class N> bool Factored<T>::decompose(N n) {
    if constexpr (is_fixed<N>) return kind == Kind::lu ? few_lu(n, f, pivots) : few_cholesky(n, f);
    else return kind == Kind::lu ? Kernels<T>::lu(n, f, n, pivots) : Kernels<T>::cholesky_by_rows(n, f);
}

template <class T>
bool Factored<T>::factor(const T* a, bool hermitian, Units& units, const Direction& probe, Work& work) {
    if (!use_hermitian_part(a, hermitian, units)) return false;
    return with_fixed_size(n, [&](auto n) { return check_and_scale(n, units, work) && factor(n, probe, work); });
}

template <class T> template <class N> bool Factored<T>::factor(N n, const Direction& probe, Work& work) {
    std::memcpy(static_cast<void*>(f), m, sizeof(T) * n * n);
    if (!decompose(n)) return false;
    work.x.resize(2 * n);
    // |M| |M^-1 z| / |z| eps, the largest over `count` directions z from `first` on; NaN counts as infinite
    auto growth = [&](int first, int count) {
        T* y = work.x.data();
        for (int c = 0; c < count; c++)
            for (int j = 0; j < n; j++) y[c * n + j] = T(R(first + c ? probe.another(j) : probe.z[j]));
        apply_inverse(n, y, count, 'N');
        if (!is_fixed<N> && first == 0) probe_solution.assign(y, y + n);
        R most = 0;
        for (int c = 0; c < count; c++) {
            const R grown = by_columns * norms(y + c * n, n).sum * eps<T> / R(probe.size);
            most = grown <= std::numeric_limits<R>::max() ? std::max(most, grown) : std::numeric_limits<R>::infinity();
        }
        return most;
    };
    // in single precision growth is never below FAINT, so both directions are needed: a small block of two costs BLAS less than two vectors
    const int at_once = eps<T> > R(FAINT) && n <= SMALL ? 2 : 1;
    R range = 1;
    for (int side = 0; side < 2 && scales; side++) {
        auto ends = std::minmax_element(scales + side * n, scales + (side + 1) * n);
        range = std::max(range, *ends.second / *ends.first);
    }
    return is_growth_small<T>(growth, at_once, range, needs_row_errors);
}

template <class T> static void scale_copy(const T* m, const Real<T>* scales, T* copy, int n) {
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) copy[Index(r) * n + c] = m[Index(r) * n + c] * scales[r] * scales[n + c];
}

template <class T> bool Factored<T>::restore(const T* a, bool hermitian, Units& units) {
    bool accepted = use_hermitian_part(a, hermitian, units);
    if (scales) {
        units.m.grow(Index(n) * n);
        scale_copy(m, scales, units.m.data(), n);
        m = units.m.data();
    }
    return accepted;
}

// The largest |m_ij| of each row, and of each column after them.
template <class T> static void maxima(const T* m, int n, Real<T>* most) {
    std::fill(most, most + 2 * n, Real<T>(0));
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) {
            Real<T> size = std::abs(m[Index(r) * n + c]);
            most[r] = std::max(most[r], size);
            most[n + c] = std::max(most[n + c], size);
        }
}

template <class R> struct Measures {
    R least, most;               // of the largest |m_ij| of all rows and columns
    R by_rows, by_columns, sum;  // the largest sums of |m_ij|, and that of all, which is not finite if one is not
};

// One pass, four rows at a time, so that the sums of rows are independent of each other.
template <class T, class N> static Measures<Real<T>> measured(const T* m, N n, Real<T>* __restrict largest, Real<T>* __restrict sums) {
    using R = Real<T>;
    constexpr int ROWS = 4;
    std::fill(largest, largest + n, R(0));
    std::fill(sums, sums + n, R(0));
    Measures<R> found{std::numeric_limits<R>::max(), 0, 0, 0, 0};
    auto larger = [](R x, R y) { return x < y ? y : x; };
    auto take = [&](R most, R sum) {
        found.least = std::min(found.least, most);
        found.most = std::max(found.most, most);
        found.by_rows = std::max(found.by_rows, sum);
        found.sum += sum;
    };
    int r = 0;
    for (; r + ROWS <= n; r += ROWS, m += ROWS * n) {
        for (int c = 0; c < n; c++) {
            R p = size_of(m[c]), q = size_of(m[c + n]), s = size_of(m[c + 2 * n]), t = size_of(m[c + 3 * n]);
            largest[c] = larger(largest[c], larger(larger(p, q), larger(s, t)));
            sums[c] += (p + q) + (s + t);
        }
        R most[ROWS] = {}, sum[ROWS] = {};
        for (int c = 0; c < n; c++)
            for (int j = 0; j < ROWS; j++) {
                R size = size_of(m[c + j * n]);
                most[j] = larger(most[j], size);
                sum[j] += size;
            }
        for (int j = 0; j < ROWS; j++) take(most[j], sum[j]);
    }
    for (; r < n; r++, m += n) {
        for (int c = 0; c < n; c++) {
            R size = size_of(m[c]);
            largest[c] = larger(largest[c], size);
            sums[c] += size;
        }
        Norms<R> row = norms(m, n);
        take(row.most, row.sum);
    }
    for (int c = 0; c < n; c++) {
        found.least = std::min(found.least, largest[c]);
        found.by_columns = std::max(found.by_columns, sums[c]);
    }
    return found;
}

// Check that M is finite and balanced, scale it if it is not, and compute its norms.
template <class T> template <class N> bool Factored<T>::check_and_scale(N n, Units& units, Work& work) {
    scales = nullptr;
    for (;;) {
        Measures<R> found;
        if constexpr (is_fixed<N>) {  // in registers
            R largest[n], sums[n];
            found = measured(m, n, largest, sums);
        } else {
            work.largest.resize(n);
            work.sums.resize(n);
            found = measured(m, n, work.largest.data(), work.sums.data());
        }
        if (!std::isfinite(found.sum) && (scales || !all_finite(m, Index(n) * n))) return false;
        by_rows = found.by_rows;
        by_columns = found.by_columns;
        bool moderate = found.most <= R(MODERATE) && found.most >= R(1 / MODERATE);
        if (moderate && found.least >= R(BALANCED) * found.most) return true;
        if (scales || !scale(units, work)) return false;
    }
}

// M <- R M C with maxima of rows and columns near 1, each step dividing by their roots.
template <class T> bool Factored<T>::scale(Units& units, Work& work) {
    auto inverse_root = [](R x) { return std::exp2(std::round(R(-0.5) * std::log2(x))); };
    std::vector<R>& most = work.largest;
    most.resize(2 * n);
    maxima(m, n, most.data());
    auto ends = std::minmax_element(most.begin(), most.end());
    if (!(*ends.first > 0) || !std::isfinite(*ends.second)) return false;
    units.scales.assign(2 * n, inverse_root(std::sqrt(*ends.first) * std::sqrt(*ends.second)));
    work.m.grow(Index(n) * n);
    for (int step = 0;; step++) {
        scale_copy(m, units.scales.data(), work.m.data(), n);
        maxima(work.m.data(), n, most.data());
        auto found = std::minmax_element(most.begin(), most.end());
        if (!(*found.first > 0) || step == SCALINGS) return false;
        if (*found.first >= R(BALANCED) * *found.second) break;
        for (int j = 0; j < 2 * n; j++) units.scales[j] *= inverse_root(most[j]);
    }
    std::swap(units.m, work.m);
    m = units.m.data();
    scales = units.scales.data();
    return all_finite(m, Index(n) * n);
}

// -- solves ----------------------------------------------------------------------------------------

// b <- op(M)^-1 b, column after column.
template <class T> template <class N> void Factored<T>::apply_inverse(N n, T* b, int k, char op) const {
    // factors are those of M^T, which is conj(M) for M = L L^H; and conj(M^-H b) = M^-T conj(b)
    const bool conjugated = kind == Kind::lu ? op == 'H' : op == 'T';
    if (conjugated) conjugate(b, Index(n) * k);
    if (is_fixed<N> || (kind == Kind::lu && n <= FEW && k == 1 && !Scalar<T>::is_complex)) {
        const bool by_rows = op == 'N', is_lu = kind == Kind::lu;  // M = U^T L^T P, M^T = P^T L U
        if (is_lu && !by_rows) few_exchanges(n, pivots, b, k, false);
        in_blocks(n, b, k, [&](auto width, T* x) { is_lu ? few_lu_solve<width>(n, f, x, by_rows) : few_cholesky_solve<width>(n, f, x); });
        if (is_lu && by_rows) few_exchanges(n, pivots, b, k, true);
    } else if (kind == Kind::lu)
        Kernels<T>::solve_lu(op == 'N' ? 'T' : 'N', n, k, f, pivots, b);
    else {  // by the factor of conj(M), as LAPACK reads it
        char upper = 'U';
        int size = n, info = 0;
        conjugate(b, Index(n) * k);
        Lapack<T>::potrs(&upper, &size, &k, f, &size, b, &size, &info);
        conjugate(b, Index(n) * k);
    }
    if (conjugated) conjugate(b, Index(n) * k);
}

// r <- r - A x of A row by row, or r - A^T x.
template <class N, class T> static void subtract_product(N n, const T* a, const T* x, T* r, bool by_rows) {
    if constexpr (is_fixed<N>) few_residual(n, a, x, r, by_rows);
    else Kernels<T>::apply(by_rows ? 'T' : 'N', n, n, T(-1), a, n, x, T(1), r);
}

// r = b - op(M) x, column after column; x is left as it is.
template <class T> template <class N> void Factored<T>::residual(N n, const T* b, const T* x, T* r, int k, char op) const {
    T* y = const_cast<T*>(x);
    std::copy(b, b + Index(n) * k, r);
    if (op == 'H') {  // conj(r) = conj(b) - M^T conj(x)
        conjugate(r, Index(n) * k);
        conjugate(y, Index(n) * k);
    }
    if (is_fixed<N> || k == 1)
        for (int c = 0; c < k; c++) subtract_product(n, m, x + c * n, r + c * n, op == 'N');
    else
        Kernels<T>::multiply(op == 'N' ? 'T' : 'N', 'N', n, k, n, T(-1), m, n, y, n, T(1), r, n);
    if (op == 'H') {
        conjugate(r, Index(n) * k);
        conjugate(y, Index(n) * k);
    }
}

// x_j <- x_j scales_j; true if no number was rounded by leaving the range.
template <class T> static bool multiply_by_scales(T* x, const Real<T>* scales, int n, int k) {
    bool exact = true;
    for (int c = 0; c < k; c++)
        for (int j = 0; j < n; j++) {
            T& own = x[Index(c) * n + j];
            const T made = own * scales[j];
            exact = exact && made / scales[j] == own;
            own = made;
        }
    return exact;
}

// Even e with 2^-e x near 1, as `power_of`, of numbers that were looked at.
template <class T> static int power_of(const T* x, int n, const Norms<Real<T>>& found) {
    using R = Real<T>;
    return found.most >= R(1 / MODERATE) && found.most <= R(MODERATE) ? 0 : power_of(x, n, MODERATE);
}

template <class T> static bool are_finite(const T* x, Index n, const Norms<Real<T>>& found) { return std::isfinite(found.sum) || all_finite(x, n); }

template <class T> bool Factored<T>::solve(T* b, T* x, int k, char op, Work& work) const {
    return with_fixed_size(n, [&](auto n) { return solve(n, b, x, k, op, work); });
}

template <class T> template <class N> bool Factored<T>::solve(N n, T* b, T* x, int k, char op, Work& work) const {
    const R *before = op == 'N' ? scales : scales + n, *after = op == 'N' ? scales + n : scales;
    work.r.resize(Index(n) * k);
    work.powers.resize(k);
    work.columns.resize(k);
    work.given.resize(k);
    // an entry of b that underflows here would lose a row of x
    if (scales && !multiply_by_scales(b, before, n, k)) return false;
    for (int c = 0; c < k; c++) {
        T* own = b + Index(c) * n;
        Norms<R>& given = work.given[c] = norms(own, n);
        if (!are_finite(own, n, given)) return false;
        if ((work.powers[c] = power_of(own, n, given)) == 0) continue;
        if (!times_power(own, n, -work.powers[c])) return false;
        given = norms(own, n);
    }
    std::copy(b, b + Index(n) * k, x);
    apply_inverse(n, x, k, op);
    T* r = work.r.data();
    residual(n, b, x, r, k, op);
    int left = 0;  // columns whose residual is not small
    for (int c = 0; c < k; c++) {
        const T *y = x + Index(c) * n, *own = r + Index(c) * n;
        const Norms<R> found = norms(y, n), given = work.given[c];
        if (!are_finite(y, n, found)) return false;
        // b is another random direction: large growth along it is evidence of a singular matrix
        if (!(by_columns * found.sum * eps<T> <= R(SUSPICIOUS) * given.sum)) return false;
        if (is_small(n, own, y, found.most, b + Index(c) * n, given.most, op, work)) continue;
        if (left != c) std::copy(own, own + n, r + Index(left) * n);
        work.columns[left++] = c;
    }
    if (left > 0 && !refine(b, x, left, op, scales ? after : nullptr, work)) return false;
    bool is_unscaled = left == 0 && !scales;
    for (int c = 0; c < k; c++) {
        const bool exact = times_power(x + Index(c) * n, n, work.powers[c]);
        if (scales && !exact) return false;  // in the units of A it may be in the range again
        is_unscaled = is_unscaled && work.powers[c] == 0;
    }
    if (scales) multiply_by_scales(x, after, n, k);
    return is_unscaled || all_finite(x, Index(n) * k);
}

// |r| <= eps (|M| |x| + |b|) in the maximum norm, and row by row if growth is large, since a norm hides small rows.
template <class T> template <class N>
bool Factored<T>::is_small(N n, const T* r, const T* x, R most_x, const T* b, R most_b, char op, Work& work, bool settled) const {
    const R enough = R(REFINED) * eps<T>, norm = op == 'N' ? by_rows : by_columns;
    Norms<R> found = norms(r, n);
    if (!(found.most <= enough * (norm * most_x + most_b) && std::isfinite(found.sum))) return false;
    return !needs_row_errors || settled || row_error(r, x, b, op, work) <= enough;
}

// Iterative refinement, x <- x + op(M)^-1 r, for the columns whose residuals r, packed one after another, are not small.
template <class T> bool Factored<T>::refine(const T* b, T* x, int left, char op, const R* units, Work& work) const {
    T* r = work.r.data();
    for (int step = 0; left > 0; step++) {
        if (step == COMPILED_STEPS || !all_finite(r, Index(n) * left)) return false;
        apply_inverse(n, r, left, op);
        work.m.grow(2 * Index(n) * left);
        T *now = work.m.data(), *right = now + Index(n) * left;
        work.settled.assign(left, false);
        for (int at = 0; at < left; at++) {
            T* y = x + Index(work.columns[at]) * n;
            const T* given = b + Index(work.columns[at]) * n;
            for (int j = 0; j < n; j++) y[j] += r[Index(at) * n + j];
            const T* d = r + Index(at) * n;
            work.settled[at] = are_settled<1>(y, n, [&](Index j) { return d[j]; }, units, [&](R size, Index j) { return size * units[j]; });
            std::copy(y, y + n, now + Index(at) * n);
            std::copy(given, given + n, right + Index(at) * n);
        }
        residual(n, right, now, r, left, op);
        int unfinished = 0;
        for (int at = 0; at < left; at++) {
            const T* own = r + Index(at) * n;
            const T* y = now + Index(at) * n;
            if (is_small(n, own, y, norms(y, n).most, right + Index(at) * n, work.given[work.columns[at]].most, op, work, work.settled[at])) continue;
            if (unfinished != at) std::copy(own, own + n, r + Index(unfinished) * n);
            work.columns[unfinished++] = work.columns[at];
        }
        left = unfinished;
    }
    return true;
}

// max_i |r|_i / (|op(M)| |x| + |b|)_i
template <class T> Real<T> Factored<T>::row_error(const T* r, const T* x, const T* b, char op, Work& work) const {
    constexpr int LANES = 4;
    R found;
    row_errors<1>(r, x, b, n, work.sums, [&](R* __restrict sums, const R* __restrict size) {
        for (int i = 0; i < n; i++) {
            const T* row = m + Index(i) * n;
            if (op != 'N') {
                for (int j = 0; j < n; j++) sums[j] += size_of(row[j]) * size[i];
                continue;
            }
            R sum[LANES] = {};
            int j = 0;
            for (; j + LANES <= n; j += LANES)
                for (int lane = 0; lane < LANES; lane++) sum[lane] += size_of(row[j + lane]) * size[j + lane];
            for (; j < n; j++) sum[0] += size_of(row[j]) * size[j];
            sums[i] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
        }
    }, &found);
    return found;
}

// -- determinants and inverses, which are not refined: the factors must be accurate --------------------

// |z - M y| / (|M| |y| + |z|) for the probe z.
template <class T> template <class N> Real<T> Factored<T>::probe_error(N n, const T* y, const Direction& probe, Work& work) const {
    work.r.resize(2 * n);
    T *r = work.r.data(), *z = r + n;
    probe.write(z, n);
    residual(n, z, y, r, 1, 'N');
    const Norms<R> error = norms(r, n);
    if (!std::isfinite(error.sum)) return error.sum;
    return error.most / (by_rows * norms(y, n).most + norms(z, n).most);
}

// Is the backward error M - P^T L U at the level of rounding? With partial pivoting |l_ij| <= 1, so for few rows it is if U is no larger
// than M. Otherwise the residual of one random direction decides.
template <class T> template <class N> bool Factored<T>::is_accurate(N n, const Direction& probe, Work& work) const {
    R most = 0;
    if (is_fixed<N> && kind == Kind::lu)
        for (int c = 0; c < n; c++) most = std::max(most, norms(f + c * n, c + 1).most);
    if (is_fixed<N> && most <= 2 * by_rows) return true;
    const T* y = probe_solution.data();
    if (probe_solution.empty()) {
        work.x.resize(n);
        probe.write(work.x.data(), n);
        apply_inverse(n, work.x.data(), 1, 'N');
        y = work.x.data();
    }
    return probe_error(n, y, probe, work) <= R(ADEQUATE) * eps<T>;
}

// det A = m 2^e; m is scaled during the product, so that it neither over- nor underflows.
template <class T> bool Factored<T>::determinant(T& m, Index& e, const Direction& probe, Work& work) const {
    constexpr R NEAR = 1 << 20;
    if (!with_fixed_size(n, [&](auto n) { return is_accurate(n, probe, work); })) return false;
    m = T(1);
    e = 0;
    for (int j = 0; j < n; j++) {
        m = times(m, f[Index(j) * (n + 1)]);
        if (kind == Kind::lu && pivots[j] != j + 1) m = -m;
        const R most = size_of(m);
        if (!(most > 0)) return false;
        if (most > 1 / NEAR && most < NEAR) continue;
        const int power = std::ilogb(most);
        m *= std::ldexp(R(1), -power);
        e += power;
    }
    if (kind == Kind::cholesky) {
        m = times(m, m);
        e *= 2;
    }
    for (int j = 0; scales && j < 2 * n; j++) e -= std::ilogb(scales[j]);
    return true;
}

// det A / |det A| and log |det A|.
template <class T> bool Factored<T>::slogdet(T* sign, R* size, const Direction& probe, Work& work) const {
    T m;
    Index e;
    if (!determinant(m, e, probe, work)) return false;
    const R most = size_of(m);
    *sign = m / most;
    *size = std::log(most) + R(e) * std::log(R(2));
    return all_finite(size, 1) && all_finite(sign, 1);
}

// x m 2^e, for m near 1, if their dtype can hold it.
template <class T> static bool scale_all(T* x, Index count, T m, Index e) {
    using R = Real<T>;
    constexpr Index BEYOND = 1 << 14;  // exponents
    const int power = int(std::clamp(e, -BEYOND, BEYOND)), half = power / 2;
    const R first = std::ldexp(R(1), half), rest = std::ldexp(R(1), power - half);
    for (Index j = 0; j < count; j++) x[j] = times(x[j] * first, m) * rest;
    return all_finite(x, count);
}

template <class T> bool Factored<T>::det(T* d, const Direction& probe, Work& work) const {
    T m;
    Index e;
    *d = T(1);
    return determinant(m, e, probe, work) && scale_all(d, 1, m, e);
}

template <class T> bool Factored<T>::adjugate(T* x, const Direction& probe, Work& work) const {
    T m;
    Index e;
    if (n == 1) return *x = T(1), true;  // whose reciprocal may be below the normal range
    return determinant(m, e, probe, work) && inverse(x, probe, true, work) && scale_all(x, Index(n) * n, m, e);
}

// A^-1 by rows: row r solves M^T y = e_r.
template <class T> template <class N> bool Factored<T>::invert(N n, T* x, Work& work) const {
    if constexpr (is_fixed<N>) {
        for (int j = 0; j < n * n; j++) x[j] = T(R(j % (n + 1) == 0));
        apply_inverse(n, x, n, 'T');
        return true;
    }
    std::memcpy(static_cast<void*>(x), f, sizeof(T) * n * n);
    if (kind == Kind::lu) return Kernels<T>::invert_lu(n, x, n, pivots, work.inverse);
    char upper = 'U';
    int size = n, info = 0;
    Lapack<T>::potri(&upper, &size, x, &size, &info);
    set_pairs(x, n, [](T& below, T& above) { above = conj_of(below); });  // LAPACK's upper triangle is the lower one of the rows
    return info == 0;
}

template <class T> bool Factored<T>::inverse(T* x, const Direction& probe, bool by_rows, Work& work) const {
    if (by_rows && needs_row_errors) {  // M^T y = e_r for every row
        std::vector<T> unit(Index(n) * n);
        for (int j = 0; j < n; j++) unit[Index(j) * (n + 1)] = T(1);
        return solve(unit.data(), x, n, 'T', work);
    }
    const bool is_accurate = with_fixed_size(n, [&](auto n) {
        if (!invert(n, x, work)) return false;
        work.x.assign(2 * n, T(0));
        T *y = work.x.data(), *z = y + n;
        for (int j = 0; j < n; j++) z[j] = -T(R(probe.z[j]));
        subtract_product(n, x, z, y, true);
        return probe_error(n, y, probe, work) <= R(ENOUGH) * eps<T>;
    });
    if (!is_accurate || !scales) return is_accurate;
    for (int r = 0; r < n; r++)
        for (int c = 0; c < n; c++) x[Index(r) * n + c] *= scales[n + r] * scales[c];
    return all_finite(x, Index(n) * n);
}

#define FOR(T) template struct Factored<T>;
EACH_NUMBER(FOR)
