// finite, balanced, P M^T = L U or M = L L^H, calm along a random direction; then op(M) x = b with r = b - op(M) x small.
#include "dense.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "lapack.hpp"
#include "limits.hpp"

template <class T> struct Dense<T>::Work {
    std::vector<T> x, r, inverse;
    std::vector<int> powers;
    std::vector<R> largest, sums;
};

template <class T>
Dense<T>::Dense(Kind kind, int n, Index count, std::shared_ptr<const Direction> probe)
    : n(n), count(count), kind_(kind), probe_(std::move(probe)), f_(size_t(n) * n * count),
      pivots_(kind == Kind::lu ? size_t(n) * count : 0), powers_(count), by_rows_(count), by_columns_(count) {}

template <class T> size_t Dense<T>::nbytes() const {
    return (m_.size() + f_.size()) * sizeof(T) + pivots_.size() * sizeof(int) + 2 * count * sizeof(R);
}

// f(i, work) for all members, in `threads` threads; false as soon as one of them is.
template <class T> template <class F> bool Dense<T>::each(F f, int threads) const {
    auto run = [&](Index first, Index last, std::atomic<bool>& accepted) {
        Work work;
        for (Index i = first; i < last && accepted.load(std::memory_order_relaxed); i++)
            if (!f(i, work)) accepted.store(false, std::memory_order_relaxed);
    };
    std::atomic<bool> accepted{true};
    Index parts = std::min<Index>(threads, count);
    std::vector<std::thread> others;
    for (Index t = 1; t < parts; t++)
        others.emplace_back(run, count * t / parts, count * (t + 1) / parts, std::ref(accepted));
    run(0, count / std::max(parts, Index(1)), accepted);
    for (std::thread& t : others) t.join();
    return accepted;
}

// -- the matrix ------------------------------------------------------------------------------------

template <class T> bool Dense<T>::is_of(Kind kind, const T* m) const {
    if (kind != kind_) return false;
    Index size = Index(n) * n;
    for (Index i = 0; i < count; i++, m += size) {
        const T* own = m_.data() + i * size;
        if (powers_[i] == 0) {
            if (std::memcmp(own, m, size * sizeof(T))) return false;
            continue;
        }
        for (Index j = 0; j < size; j++) {
            T there = own[j];
            times_power(&there, 1, powers_[i]);
            if (there != m[j]) return false;
        }
    }
    return true;
}

template <class T> bool Dense<T>::factor(const T* m, int threads) {
    m_.assign(m, m + f_.size());
    return each([&](Index i, Work& work) { return factor_one(i, work); }, threads);
}

template <class T> bool Dense<T>::factor_one(Index i, Work& work) {
    if (!look(i, work)) return false;
    int size = n, info = 0, one = 1;
    T* f = f_.data() + i * n * n;
    std::memcpy(static_cast<void*>(f), m_.data() + i * n * n, sizeof(T) * n * n);
    if (kind_ == Kind::lu)
        Lapack<T>::getrf(&size, &size, f, &size, pivots_.data() + i * n, &info);
    else {
        char upper = 'U';
        Lapack<T>::potrf(&upper, &size, f, &size, &info);
    }
    if (info != 0) return false;
    work.x.resize(n);
    for (int j = 0; j < n; j++) work.x[j] = T(R(probe_->z[j]));
    apply_inverse(i, work.x.data(), one, 'N');
    R sum = 0;
    for (int j = 0; j < n; j++) sum += size_of(work.x[j]);
    return by_columns_[i] * sum * eps<T> < R(SUSPICIOUS) * R(probe_->size);  // false for NaN
}

// Finite, with maxima of rows and columns alike; put in units where numbers are moderate, and the norms found, on the way.
template <class T> bool Dense<T>::look(Index i, Work& work) {
    T* m = m_.data() + i * n * n;
    if (!all_finite(m, Index(n) * n)) return false;
    powers_[i] = power_of(m, Index(n) * n, MODERATE);
    times_power(m, Index(n) * n, -powers_[i]);
    work.largest.assign(n, 0);
    work.sums.assign(n, 0);
    R *most = work.largest.data(), *sums = work.sums.data(), least_of_all = R(2 * MODERATE), most_of_all = 0, by_rows = 0;
    for (int r = 0; r < n; r++) {
        R largest = 0, sum = 0;
        for (int c = 0; c < n; c++) {
            R size = size_of(m[Index(r) * n + c]);
            largest = std::max(largest, size);
            sum += size;
            most[c] = std::max(most[c], size);
            sums[c] += size;
        }
        least_of_all = std::min(least_of_all, largest);
        most_of_all = std::max(most_of_all, largest);
        by_rows = std::max(by_rows, sum);
    }
    for (int c = 0; c < n; c++) least_of_all = std::min(least_of_all, most[c]);
    by_rows_[i] = by_rows;
    by_columns_[i] = *std::max_element(sums, sums + n);
    return least_of_all >= R(BALANCED) * most_of_all && most_of_all > 0;
}

// -- solves ----------------------------------------------------------------------------------------

template <class T> static void conjugate(T* x, Index count) {
    if (Scalar<T>::is_complex)
        for (Index j = 0; j < count; j++) x[j] = conj_of(x[j]);
}

// b <- op(M)^-1 b, column after column.
template <class T> void Dense<T>::apply_inverse(Index i, T* b, int k, char op) const {
    int size = n, info = 0;
    T* f = const_cast<T*>(f_.data()) + i * n * n;
    if (kind_ == Kind::lu) {
        // LAPACK holds M^T, and conj(M^-H b) = M^-T conj(b)
        char how = op == 'N' ? 'T' : 'N';
        if (op == 'H') conjugate(b, Index(n) * k);
        Lapack<T>::getrs(&how, &size, &k, f, &size, const_cast<int*>(pivots_.data()) + i * n, b, &size, &info);
        if (op == 'H') conjugate(b, Index(n) * k);
    } else {
        // LAPACK holds M^T = conj(M)
        char upper = 'U';
        if (op != 'T') conjugate(b, Index(n) * k);
        Lapack<T>::potrs(&upper, &size, &k, f, &size, b, &size, &info);
        if (op != 'T') conjugate(b, Index(n) * k);
    }
}

// r = b - op(M) x, column after column; x is left as it is.
template <class T> void Dense<T>::residual(Index i, const T* b, const T* x, T* r, int k, char op) const {
    int size = n, one = 1;
    T *m = const_cast<T*>(m_.data()) + i * n * n, *y = const_cast<T*>(x), minus = T(-1), plus = T(1);
    char how = op == 'N' ? 'T' : 'N', none = 'N';
    std::copy(b, b + Index(n) * k, r);
    if (op == 'H') {  // conj(r) = conj(b) - M^T conj(x)
        conjugate(r, Index(n) * k);
        conjugate(y, Index(n) * k);
    }
    if (k == 1)
        Lapack<T>::gemv(&how, &size, &size, &minus, m, &size, y, &one, &plus, r, &one);
    else
        Lapack<T>::gemm(&how, &none, &size, &k, &size, &minus, m, &size, y, &size, &plus, r, &size);
    if (op == 'H') {
        conjugate(r, Index(n) * k);
        conjugate(y, Index(n) * k);
    }
}

template <class T> static Real<T> largest(const T* x, int n) {
    Real<T> most = 0;
    for (int j = 0; j < n; j++) most = std::max(most, size_of(x[j]));
    return most;
}

template <class T> static Real<T> sum(const T* x, int n) {
    Real<T> total = 0;
    for (int j = 0; j < n; j++) total += size_of(x[j]);
    return total;
}

template <class T> bool Dense<T>::solve(const T* b, T* x, int k, char op, int threads) {
    bool first = !proven_.load(std::memory_order_relaxed);
    Index step = Index(n) * k;
    bool accepted = each([&](Index i, Work& work) { return solve_one(i, b + i * step, x + i * step, k, op, first, work); }, threads);
    if (accepted) proven_.store(true, std::memory_order_relaxed);
    return accepted;
}

template <class T>
bool Dense<T>::solve_one(Index i, const T* b, T* x, int k, char op, bool first, Work& work) const {
    if (!all_finite(b, Index(n) * k)) return false;
    work.x.resize(Index(n) * k);
    work.r.resize(2 * Index(n) * k);
    T *y = work.x.data(), *r = work.r.data(), *given = r + Index(n) * k;
    for (int c = 0; c < k; c++)
        for (int j = 0; j < n; j++) given[Index(c) * n + j] = b[Index(j) * k + c];
    work.powers.resize(k);
    for (int c = 0; c < k; c++) {
        work.powers[c] = power_of(given + Index(c) * n, n, MODERATE);
        times_power(given + Index(c) * n, n, -work.powers[c]);
    }
    std::copy(given, given + Index(n) * k, y);
    apply_inverse(i, y, k, op);
    if (!all_finite(y, Index(n) * k)) return false;
    // b is a direction, too: one that grows is evidence
    if (first)
        for (int c = 0; c < k; c++)
            if (!(by_columns_[i] * sum(y + Index(c) * n, n) * eps<T> <= R(SUSPICIOUS) * sum(given + Index(c) * n, n))) return false;
    R enough = R(REFINED) * eps<T> * (op == 'N' ? by_rows_[i] : by_columns_[i]);
    for (int step = 0;; step++) {
        residual(i, given, y, r, k, op);
        bool small = true;
        for (int c = 0; c < k; c++) small = small && largest(r + Index(c) * n, n) <= enough * largest(y + Index(c) * n, n);
        if (small) break;
        if (step == STEPS || !all_finite(r, Index(n) * k)) return false;
        apply_inverse(i, r, k, op);
        for (Index j = 0; j < Index(n) * k; j++) y[j] += r[j];
    }
    for (int c = 0; c < k; c++) {
        times_power(y + Index(c) * n, n, work.powers[c] - powers_[i]);
        for (int j = 0; j < n; j++) x[Index(j) * k + c] = y[Index(c) * n + j];
    }
    return all_finite(y, Index(n) * k);
}

// m_bar = -lam x^H, or as the letter says its transpose (of real numbers) or its Hermitian part.
template <class T> static void outer(const T* lam, const T* x, T* m_bar, int n, int k, char form) {
    if (form == 'T') std::swap(lam, x);
    if (k == 1)
        for (int r = 0; r < n; r++)
            for (int c = 0; c < n; c++) m_bar[Index(r) * n + c] = -lam[r] * conj_of(x[c]);
    else {  // LAPACK reads rows as columns: m_bar^T = -(x^T)^H lam^T
        char adjoint = Scalar<T>::is_complex ? 'C' : 'T', none = 'N';
        T minus = T(-1), zero = T(0);
        Lapack<T>::gemm(&adjoint, &none, &n, &n, &k, &minus, const_cast<T*>(x), &k, const_cast<T*>(lam), &k, &zero, m_bar, &n);
    }
    if (form == 'S')
        for (int r = 0; r < n; r++)
            for (int c = 0; c <= r; c++) {
                T &below = m_bar[Index(r) * n + c], &above = m_bar[Index(c) * n + r];
                below = (below + conj_of(above)) / Real<T>(2);
                above = conj_of(below);
            }
}

template <class T>
bool Dense<T>::pullback(const T* x_bar, const T* x, T* lam, T* m_bar, int k, char op, char form, int threads) {
    char adjoint = op == 'N' ? 'H' : 'N';
    if (!solve(x_bar, lam, k, adjoint, threads)) return false;
    if (!m_bar) return true;
    Index step = Index(n) * k, size = Index(n) * n;
    return each([&](Index i, Work&) {
        outer(lam + i * step, x + i * step, m_bar + i * size, n, k, form);
        return all_finite(m_bar + i * size, size);
    }, threads);
}

// -- what is not refined: the factors themselves must be accurate -------------------------------------

// |z - M y| / (|M| |y| + |z|) for the probe z.
template <class T> Real<T> Dense<T>::probe_error(Index i, const T* y, Work& work) const {
    work.r.resize(2 * n);
    T *r = work.r.data(), *z = r + n;
    for (int j = 0; j < n; j++) z[j] = T(R(probe_->z[j]));
    residual(i, z, y, r, 1, 'N');
    return largest(r, n) / (by_rows_[i] * largest(y, n) + largest(z, n));
}

// det M / |det M| and log |det M|.
template <class T> bool Dense<T>::slogdet(T* sign, R* size) const {
    Work work;
    for (Index i = 0; i < count; i++) {
        work.x.resize(n);
        for (int j = 0; j < n; j++) work.x[j] = T(R(probe_->z[j]));
        apply_inverse(i, work.x.data(), 1, 'N');
        if (!(probe_error(i, work.x.data(), work) <= R(ADEQUATE) * eps<T>)) return false;
        const T* f = f_.data() + i * n * n;
        T turn = T(1);
        R log = 0;
        for (int j = 0; j < n; j++) {
            T pivot = f[Index(j) * (n + 1)];
            R most = size_of(pivot);
            if (!(most > 0)) return false;
            log += std::log(most);
            if (kind_ == Kind::lu) turn *= (pivots_[i * n + j] == j + 1 ? T(1) : T(-1)) * (pivot / most);
        }
        sign[i] = turn;
        size[i] = (kind_ == Kind::lu ? log : 2 * log) + R(n) * R(powers_[i]) * std::log(R(2));
    }
    return all_finite(size, count) && all_finite(sign, count);
}

template <class T> bool Dense<T>::inverse(T* x, int threads) const {
    return each([&](Index i, Work& work) { return inverse_one(i, x + i * n * n, work); }, threads);
}

template <class T> bool Dense<T>::inverse_one(Index i, T* x, Work& work) const {
    int size = n, info = 0, lwork = 64 * n, one = 1;
    std::memcpy(static_cast<void*>(x), f_.data() + i * n * n, sizeof(T) * n * n);
    if (kind_ == Kind::lu) {
        work.inverse.resize(lwork);
        Lapack<T>::getri(&size, x, &size, const_cast<int*>(pivots_.data()) + i * n, work.inverse.data(), &lwork, &info);
    } else {
        char upper = 'U';
        Lapack<T>::potri(&upper, &size, x, &size, &info);
        for (int r = 0; r < n; r++)  // LAPACK's upper triangle is the lower one of the rows
            for (int c = r + 1; c < n; c++) x[Index(r) * n + c] = conj_of(x[Index(c) * n + r]);
    }
    if (info != 0 || !all_finite(x, Index(n) * n)) return false;
    work.x.resize(2 * n);
    T *y = work.x.data(), *z = y + n, unit = T(1), zero = T(0);
    char rows = 'T';
    for (int j = 0; j < n; j++) z[j] = T(R(probe_->z[j]));
    Lapack<T>::gemv(&rows, &size, &size, &unit, x, &size, z, &one, &zero, y, &one);
    if (!(probe_error(i, y, work) <= R(ENOUGH) * eps<T>)) return false;
    times_power(x, Index(n) * n, -powers_[i]);
    return powers_[i] == 0 || all_finite(x, Index(n) * n);
}

template class Dense<float>;
template class Dense<double>;
template class Dense<std::complex<float>>;
template class Dense<std::complex<double>>;
