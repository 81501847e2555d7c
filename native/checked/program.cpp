#include "program.hpp"

#include "kernels/blas.hpp"
#include "kernels/hermitian.hpp"
#include "limits.hpp"

namespace {

template <class T> T most_of(const T* x, Index count) {
    T most = 0;
    for (Index i = 0; i < count; i++) most = std::max(most, std::fabs(x[i]));
    return most;
}

template <class T> T or_one(T x) { return x > 0 ? x : T(1); }

// Are all numbers finite, and none but 0 far from 1?
template <class T> bool are_near_one(const T* x, Index count) {
    const T most = std::ldexp(T(1), int(PLAIN_UNITS)), least = 1 / most;
    for (Index i = 0; i < count; i++)
        if (const T size = std::fabs(x[i]); !(size <= most && (size >= least || size == 0))) return false;
    return true;
}

// True without NaN, and with infinity only on the side where it means no bound.
template <class T> bool are_sides(const T* x, Index count, T none) {
    for (Index i = 0; i < count; i++)
        if (!(std::isfinite(x[i]) || x[i] == none)) return false;
    return true;
}

}  // namespace

template <class T> T Program<T>::most_of_q() const { return most_of(q, n); }

template <class T> bool Program<T>::find_rows(T* active, T* steps, Work& work) const {
    ActiveSet& own = work.rows;
    own.n = n, own.p.assign(work.matrix.begin(), work.matrix.end()), own.q.assign(q, q + n), own.c.clear(), own.d.clear();
    std::vector<int> at;  // the places in `active` of the rows with a finite side
    auto take = [&](int place, const T* entries, int sign, int unknown, T side) {
        own.c.resize(own.c.size() + n);
        double* made = own.c.data() + own.c.size() - n;
        if (entries) std::copy(entries, entries + n, made);
        else made[unknown] = sign;
        own.d.push_back(sign * double(side)), at.push_back(place);
    };
    for (int i = 0; i < k; i++) take(i, row(i), 1, 0, side(i));
    for (int i = 0; i < w; i++)
        if (lb[i] == ub[i]) take(rows() + i, nullptr, 1, i, ub[i]);
    own.equalities = int(at.size());
    for (int i = k; i < rows(); i++)
        if (std::isfinite(side(i))) take(i, row(i), 1, 0, side(i));
    for (int i = 0; i < w; i++) {
        if (lb[i] == ub[i]) continue;
        if (std::isfinite(ub[i])) take(rows() + i, nullptr, 1, i, ub[i]);
        if (std::isfinite(lb[i])) take(rows() + w + i, nullptr, -1, i, lb[i]);
    }
    if (!own.solve()) return false;
    std::fill(active, active + rows() + 2 * w, T(0));
    for (int i : own.active) active[at[i]] = 1;
    *steps = T(own.steps);
    return true;
}

// P + shift I = L L^H, beyond what rounding leaves of an eigenvalue 0
template <class T> bool Program<T>::is_convex(Work& work) const {
    const T shift = std::cbrt(eps<T> * eps<T>) * or_one(most_of(p, Index(n) * n));
    for (int i = 0; i < n; i++) work.matrix[Index(i) * (n + 1)] += shift;
    return Kernels<T>::cholesky_by_rows(n, work.matrix.data());
}

template <class T> bool Program<T>::system(const T* guess, T* kkt, T* r, T* active, T* steps, Work& work) const {
    constexpr T NONE = std::numeric_limits<T>::infinity();
    const Index square = Index(n) * n, t = n + rows() + w;
    if (!are_near_one(p, square) || !are_near_one(a, Index(k) * n) || !are_near_one(g, Index(m) * n)) return false;
    if ((guess && !all_finite(guess, rows() + 2 * w)) || !all_finite(q, n) || !all_finite(b, k) || !are_sides(h, m, NONE) || !are_sides(lb, w, -NONE) || !are_sides(ub, w, NONE)) return false;
    work.matrix.resize(square);
    if (!hermitian_part(p, work.matrix.data(), n, std::pow(eps<T>, T(SYMMETRIC)))) return false;
    if (guess) std::copy(guess, guess + rows() + 2 * w, active);
    if (!(guess ? is_convex(work) : find_rows(active, steps, work))) return false;
    std::fill(active, active + k, T(1));
    for (int i = 0; i < w; i++) {
        T &above = active[rows() + i], &below = active[rows() + w + i];
        if (lb[i] == ub[i]) above = below = T(1) / 2;
        if (above + below > 1) return false;
    }
    std::fill(kkt, kkt + t * t, T(0));
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) kkt[i * t + j] = curvature(i, j);
        r[i] = -q[i];
    }
    for (int i = 0; i < rows(); i++) {
        const Index at = n + i;
        for (int j = 0; j < n; j++) kkt[at * t + j] = kkt[j * t + at] = active[i] > 0 ? row(i)[j] : T(0) * row(i)[j];
        kkt[at * (t + 1)] = active[i] - 1;
        r[at] = active[i] > 0 ? active[i] * side(i) : T(0);
    }
    for (int i = 0; i < w; i++) {
        const Index at = n + rows() + i;
        const T above = active[rows() + i], below = active[rows() + w + i];
        kkt[at * t + i] = kkt[i * t + at] = above + below;
        kkt[at * (t + 1)] = above + below - 1;
        r[at] = (above > 0 ? above * ub[i] : T(0)) + (below > 0 ? below * lb[i] : T(0));
    }
    return all_finite(r, t);
}

template <class T> T Program<T>::unit_of_x(const T* active) const {
    T most = 0;
    auto add = [&](T is_active, T side, T height) {
        if (is_active > 0 && std::isfinite(side / height)) most = std::max(most, std::fabs(side) / height);
    };
    for (int i = 0; i < rows(); i++) add(active[i], side(i), most_of(row(i), n));
    for (int i = 0; i < w; i++) add(active[rows() + i], ub[i], T(1)), add(active[rows() + w + i], lb[i], T(1));
    const T of_p = most_of(p, Index(n) * n), of_q = most_of_q(), none = std::numeric_limits<T>::infinity();
    const T unit = std::min(of_p > 0 && of_q > 0 ? of_q / of_p : none, most > 0 ? most : none);
    return std::isfinite(unit) ? unit : T(0);
}

template <class T> bool Program<T>::is_solution(const T* active, T* z, const T* dz, Work& work) const {
    const T known = std::sqrt(eps<T>), fine = std::sqrt(known), unit = unit_of_x(active);
    const Index more = rows() + w;
    // what the solve left: of x or of the multipliers, whichever is more
    const T of_x = most_of(dz, n) / or_one(std::max(most_of(z, n), known * unit));
    const T of_y = most_of(dz + n, more) / or_one(std::max(most_of(z + n, more), known * most_of_q()));
    if (!(of_x <= known * fine && of_y <= known * fine)) return false;
    for (Index i = 0; i < n + more; i++) z[i] += dz[i];
    if (!all_finite(z, n + more)) return false;
    // multipliers are in units of the forces, slacks in those of their terms
    work.of_x.assign(n, T(0));
    work.around.resize(n);
    const T most = most_of(z, n);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) work.of_x[i] += curvature(i, j) * z[j];
        work.around[i] = std::fabs(z[i]) + fine * most + T(CANCELLED) * known * unit;
    }
    const T force = or_one(most_of(work.of_x.data(), n) + most_of_q());
    auto holds = [&](T is_active, T pull, T slack, T size) {
        return is_active > 0 ? pull > known * force : !std::isfinite(slack) || slack > known * or_one(size);
    };
    for (int i = 0; i < rows(); i++) {
        T along = 0, size = std::fabs(side(i)), height = 0;
        for (int j = 0; j < n; j++) {
            const T entry = row(i)[j];
            along += entry * z[j];
            size += std::fabs(entry) * work.around[j];
            height = std::max(height, std::fabs(entry));
        }
        if (i < k ? std::fabs(side(i) - along) > known * or_one(size) : !holds(active[i], z[n + i] * height, side(i) - along, size)) return false;
        if (!(active[i] > 0)) z[n + i] = 0;
    }
    for (int i = 0; i < w; i++) {
        T& y = z[n + rows() + i];
        if (lb[i] == ub[i]) continue;
        if (!holds(active[rows() + i], y, ub[i] - z[i], work.around[i] + std::fabs(ub[i]))) return false;
        if (!holds(active[rows() + w + i], -y, z[i] - lb[i], work.around[i] + std::fabs(lb[i]))) return false;
        if (!(at_bound(active, i) > 0)) y = 0;
    }
    return true;
}

template <class T> bool Program<T>::pullback(const T* active, const T* z, const T* lam, const Cotangents& bar) const {
    for (int i = 0; bar.p && i < n; i++)
        for (int j = 0; j < n; j++) bar.p[Index(i) * n + j] = -(lam[i] * z[j] + lam[j] * z[i]) / 2;
    for (int i = 0; i < n; i++) bar.q[i] = -lam[i];
    for (int i = 0; i < rows(); i++) {
        const T own = active[i] > 0 ? lam[n + i] : T(0);
        T *of_row = i < k ? bar.a : bar.g, *of_side = i < k ? bar.b : bar.h;
        const Index at = i < k ? i : i - k;
        for (int j = 0; of_row && j < n; j++) of_row[at * n + j] = -(own * z[j] + z[n + i] * lam[j]);
        if (of_side) of_side[at] = own;
    }
    for (int i = 0; i < w; i++) {
        const T own = lam[n + rows() + i];
        if (bar.ub) bar.ub[i] = active[rows() + i] * own;
        if (bar.lb) bar.lb[i] = active[rows() + w + i] * own;
    }
    auto are_finite = [](const T* x, Index count) { return !x || all_finite(x, count); };
    const bool of_rows = are_finite(bar.a, Index(k) * n) && are_finite(bar.b, k) && are_finite(bar.g, Index(m) * n) && are_finite(bar.h, m);
    return of_rows && are_finite(bar.p, Index(n) * n) && are_finite(bar.q, n) && are_finite(bar.ub, w) && are_finite(bar.lb, w);
}

template struct Program<float>;
template struct Program<double>;
