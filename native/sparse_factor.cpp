// finite, M = R A C, P M Q = L U + F, calm along a random direction; then op(A) x = b with r = b - op(M) x small.
#include "sparse_factor.hpp"

#include "columns.hpp"
#include "equilibrate.hpp"
#include "limits.hpp"
#include "workers.hpp"

// The pivot stays on the diagonal unless it is so much smaller than another of its column: that of A, or one of a matching,
// which knows no values.
constexpr double DIAGONAL = 1e-3, MATCHED = 0.1;

template <class T> struct SparseFactor<T>::Work {
    std::vector<T> y, z, r, given, x;
    std::vector<R> sums;
};

// NaN counts, as the largest.
template <class T> static Real<T> one_norm(const T* x, Index count, int stride) {
    Real<T> total = 0;
    for (Index i = 0; i < count; i++) total += size_of(x[i * stride]);
    return total;
}

template <class T> static Real<T> max_norm(const T* x, Index count, int stride) {
    Real<T> most = 0;
    for (Index i = 0; i < count; i++) {
        Real<T> size = size_of(x[i * stride]);
        if (!(size <= most)) most = size;
    }
    return most;
}

// As `power_of` of numbers at a stride.
template <class T> static int power_of(const T* x, Index count, int stride) {
    Real<T> most = max_norm(x, count, stride);
    if (!(most < Real<T>(1 / MODERATE) || most > Real<T>(MODERATE)) || most == 0) return 0;
    int e = 0;
    for (Index i = 0; i < count; i++) e = std::max(i ? e : NO_EXPONENT, exponent_of(x[i * stride]));
    return e;
}

template <int width, class T> static void times_powers(T* x, Index rows, const int* powers, int sign) {
    for (Index i = 0; i < rows; i++)
        for (int c = 0; c < width; c++) x[i * width + c] = scaled(x[i * width + c], sign * powers[c]);
}

template <class T> bool SparseFactor<T>::is_of(const T* values) const {
    return std::memcmp(static_cast<const void*>(given_.data()), values, given_.size() * sizeof(T)) == 0;
}

template <class T> size_t SparseFactor<T>::nbytes() const {
    size_t bytes = given_.size() * sizeof(T);
    const Pivots* before = nullptr;
    for (const Member& own : members_) {
        bytes += own.m.size() * sizeof(T) + own.powers.size() * sizeof(int) + own.lu.nbytes();
        if (own.lu.pivots && own.lu.pivots.get() != before) bytes += own.lu.pivots->nbytes();
        before = own.lu.pivots.get();
    }
    return bytes;
}

template <class T> Index SparseFactor<T>::by_kept_pivots() const {
    return std::count_if(members_.begin(), members_.end(), [](const Member& own) { return own.is_by_kept; });
}

// -- factors ---------------------------------------------------------------------------------------

template <class T> bool SparseFactor<T>::factor(const T* values, std::shared_ptr<const Pivots>& kept, int threads) {
    Index entries = own_values();
    given_.assign(values, values + entries * count);
    std::vector<Index> first;
    for (Index i = 0; i < count; i++) {
        const void *own = values + i * entries, *before = values + (i - 1) * entries;
        if (i == 0 || std::memcmp(own, before, entries * sizeof(T))) first.push_back(i);
        number_.push_back(Index(first.size()) - 1);
    }
    members_.resize(first.size());
    Index parts = std::max<Index>(std::min<Index>(threads, different()), 1);
    std::vector<std::shared_ptr<const Pivots>> last(parts, kept);
    bool accepted = each<Work>(parts, int(parts), [&](Index t, Work& work) {
        for (Index i = different() * t / parts; i < different() * (t + 1) / parts; i++)
            if (!factor_one(members_[i], values + first[i] * entries, last[t], work)) return false;
        return true;
    });
    if (accepted) kept = last[0];
    return accepted;
}

template <class T> bool SparseFactor<T>::factor_one(Member& to, const T* values, std::shared_ptr<const Pivots>& kept, Work& work) const {
    if (!look(to, values, kept.get(), work)) return false;
    const LuAnalysis& a = pattern_->lu;
    if (kept && to.lu.refactor(a, to.m.data(), kept) && is_calm(to, work)
        && to.error <= std::max(R(REFINED) * eps<T>, R(2) * R(kept->error)))
        return to.is_by_kept = true;
    if (!to.lu.factor(a, to.m.data(), R(pattern_->diagonal.empty() ? MATCHED : DIAGONAL))) return false;
    if (!is_calm(to, work)) return false;
    auto own = std::make_shared<Pivots>(*to.lu.pivots);
    own->error = double(to.error);
    own->powers = to.powers;
    kept = to.lu.pivots = std::move(own);
    return true;
}

// The values of A in their slots.
template <class T> void SparseFactor<T>::gather(const T* values, std::vector<T>& m) const {
    Index entries = own_values(), slots = Index(pattern_->lu.columns.rows.size());
    if (pattern_->slot.empty() || in_slots_)
        m.assign(values, values + slots);
    else {
        m.assign(slots, T(0));
        for (Index e = 0; e < entries; e++) m[pattern_->slot[e]] += values[e];
    }
}

// The values of M, finite and with sums.
template <class T> bool SparseFactor<T>::look(Member& to, const T* values, const Pivots* kept, Work& work) const {
    const Compressed& a = pattern_->lu.columns;
    gather(values, to.m);
    if (!all_finite(to.m.data(), Index(to.m.size()))) return false;
    Columns<Index, Row> columns{n, a.starts.data(), a.rows.data()};
    work.sums.resize(n);
    const Index* diagonal = pattern_->diagonal.empty() ? nullptr : pattern_->diagonal.data();
    Sizes<R> sizes = columns.sizes(to.m.data(), diagonal, work.sums.data());
    to.powers.clear();
    if (!(diagonal && is_moderate(sizes.entry) && sizes.diagonal >= R(BALANCED) * sizes.entry)) {
        if (!balance(to, values, kept, work)) return false;
        if (!to.powers.empty()) sizes = columns.sizes(to.m.data(), nullptr, work.sums.data());
    }
    to.norm = sizes.most_sum;
    return sizes.least_sum > 0 && sizes.most_sum <= std::numeric_limits<R>::max();
}

// M = R A C: by the scales of the matrix whose pivots were kept, while they serve.
template <class T> bool SparseFactor<T>::balance(Member& to, const T* values, const Pivots* kept, Work& work) const {
    const Compressed& a = pattern_->lu.columns;
    if (kept) {
        to.powers = kept->powers;
        auto ends = scale(a, to.m.data(), to.powers, work.sums.data());
        if (is_moderate(ends.second) && ends.first >= R(BALANCED / DRIFT) * ends.second) return true;
        if (!to.powers.empty()) gather(values, to.m);
    }
    if (!equilibrate(a, to.m.data(), to.powers)) return false;
    if (!to.powers.empty()) scale(a, to.m.data(), to.powers, work.sums.data());
    return true;
}

// Is growth along the probe small? Its backward error is found on the way.
template <class T> bool SparseFactor<T>::is_calm(Member& to, Work& work) const {
    work.given.resize(n);
    work.x.resize(n);
    work.r.resize(n);
    T *z = work.given.data(), *y = work.x.data(), *r = work.r.data();
    for (Row j = 0; j < n; j++) z[j] = T(R(pattern_->probe->z[j]));
    apply_inverse<1>(to, z, y, 'N', false, work);
    if (!(to.norm * one_norm(y, n, 1) * eps<T> < R(SUSPICIOUS) * R(pattern_->probe->size))) return false;
    residual<1>(to, z, y, r, 'N');
    to.error = max_norm(r, n, 1) / (to.norm * max_norm(y, n, 1) + max_norm(z, n, 1));
    return to.error <= R(ENOUGH) * eps<T>;
}

// -- solves ----------------------------------------------------------------------------------------

// x = op(M)^-1 b, or that is added to x; rows of b and x are those of M, or its columns.
template <class T> template <int width>
void SparseFactor<T>::apply_inverse(const Member& of, const T* b, T* x, char op, bool add, Work& work) const {
    const LuAnalysis& a = pattern_->lu;
    const std::vector<Row>&before = op == 'N' ? a.row_at : a.column_at, &after = op == 'N' ? a.column_at : a.row_at;
    work.y.resize(Index(n) * width);
    work.z.resize(Index(n) * width);
    T *y = work.y.data(), *z = work.z.data();
    for (Row k = 0; k < n; k++)
        for (int c = 0; c < width; c++) y[Index(k) * width + c] = b[Index(before[k]) * width + c];
    of.lu.template solve<width>(a, y, z, op);
    for (Row k = 0; k < n; k++)
        for (int c = 0; c < width; c++) {
            T& to = x[Index(after[k]) * width + c];
            to = (add ? to : T(0)) + y[Index(k) * width + c];
        }
}

// r = b - op(M) x.
template <class T> template <int width>
void SparseFactor<T>::residual(const Member& of, const T* b, const T* x, T* r, char op) const {
    const Compressed& a = pattern_->lu.columns;
    const T* m = of.m.data();
    std::copy(b, b + Index(n) * width, r);
    for (Row j = 0; j < n; j++)
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            Index i = a.rows[s], from = op == 'N' ? j : i, to = op == 'N' ? i : j;
            T entry = op == 'H' ? conj_of(m[s]) : m[s];
            for (int c = 0; c < width; c++) r[to * width + c] -= times(entry, x[from * width + c]);
        }
}

template <class T> bool SparseFactor<T>::solve(const T* b, T* x, Index blocks, int k, char op, int threads) {
    bool first = !proven_.load(std::memory_order_relaxed);
    Index step = Index(n) * k;
    bool accepted = each<Work>(blocks, threads, [&](Index i, Work& work) {
        return solve_one(members_[count == 1 ? 0 : number_[i]], b + i * step, x + i * step, k, op, first, work);
    });
    if (accepted) proven_.store(true, std::memory_order_relaxed);
    return accepted;
}

template <class T>
bool SparseFactor<T>::solve_one(const Member& of, const T* b, T* x, int k, char op, bool first, Work& work) const {
    if (!all_finite(b, Index(n) * k)) return false;
    if (k == 1) return solve_some<1>(of, b, x, 1, op, first, work);
    for (int c = 0; c < k;) {
        int left = k - c;
        bool accepted = left >= 8 ? solve_some<8>(of, b + c, x + c, k, op, first, work) : left >= 4 ? solve_some<4>(of, b + c, x + c, k, op, first, work)
                      : left >= 2 ? solve_some<2>(of, b + c, x + c, k, op, first, work) : solve_some<1>(of, b + c, x + c, k, op, first, work);
        if (!accepted) return false;
        c += left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    }
    return true;
}

// `width` columns of b and x, which have k.
template <class T> template <int width>
bool SparseFactor<T>::solve_some(const Member& of, const T* b, T* x, int k, char op, bool first, Work& work) const {
    const Index size = Index(n) * width;
    work.given.resize(size);
    work.x.resize(size);
    work.r.resize(size);
    T *given = work.given.data(), *y = work.x.data(), *r = work.r.data();
    const int *rows = of.powers.data(), *columns = rows + n;
    if (op != 'N') std::swap(rows, columns);
    bool is_scaled = !of.powers.empty();
    for (Row i = 0; i < n; i++)
        for (int c = 0; c < width; c++) given[Index(i) * width + c] = is_scaled ? scaled(b[Index(i) * k + c], rows[i]) : b[Index(i) * k + c];
    int powers[width];
    bool moderate = true;
    for (int c = 0; c < width; c++) moderate = (powers[c] = power_of(given + c, n, width)) == 0 && moderate;
    if (!moderate) times_powers<width>(given, n, powers, -1);
    apply_inverse<width>(of, given, y, op, false, work);
    if (!all_finite(given, size) || !all_finite(y, size)) return false;
    // b is a direction, too: one that grows is evidence
    if (first)
        for (int c = 0; c < width; c++)
            if (!(of.norm * one_norm(y + c, n, width) * eps<T> <= R(SUSPICIOUS) * one_norm(given + c, n, width))) return false;
    R enough = R(REFINED) * eps<T> * of.norm;
    for (int step = 0;; step++) {
        residual<width>(of, given, y, r, op);
        bool small = true;
        for (int c = 0; c < width; c++) small = small && max_norm(r + c, n, width) <= enough * max_norm(y + c, n, width);
        if (small) break;
        if (step == STEPS || !all_finite(r, size)) return false;
        apply_inverse<width>(of, r, y, op, true, work);
    }
    if (!moderate) times_powers<width>(y, n, powers, 1);
    for (Row i = 0; i < n; i++)
        for (int c = 0; c < width; c++) x[Index(i) * k + c] = is_scaled ? scaled(y[Index(i) * width + c], columns[i]) : y[Index(i) * width + c];
    if (!is_scaled) return all_finite(y, size);
    for (Row i = 0; i < n; i++)
        if (!all_finite(x + Index(i) * k, width)) return false;
    return true;
}

template <class T>
bool SparseFactor<T>::pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads) {
    if (!solve(x_bar, lam, blocks, k, op == 'N' ? 'H' : 'N', threads)) return false;
    if (!values_bar) return true;
    Index step = Index(n) * k, entries = Index(pattern_->rows.size());
    return each<Work>(blocks, threads, [&](Index i, Work&) {
        const T *u = lam + i * step, *v = x + i * step;
        if (op != 'N') std::swap(u, v);
        T* to = values_bar + i * entries;
        for (Index e = 0; e < entries; e++) {
            const T *left = u + Index(pattern_->rows[e]) * k, *right = v + Index(pattern_->cols[e]) * k;
            T sum = 0;
            for (int c = 0; c < k; c++) sum -= times(left[c], conj_of(right[c]));
            to[e] = sum;
        }
        return all_finite(to, entries);
    });
}

// -- what is not refined: the factors themselves must be accurate -------------------------------------

// det A / |det A| and log |det A|.
template <class T> bool SparseFactor<T>::slogdet(T* sign, R* size) const {
    int order = pattern_->lu.sign();
    for (Index i = 0; i < count; i++) {
        const Member& own = members_[number_[i]];
        if (!(own.error <= R(ENOUGH) * eps<T>)) return false;
        T turn = T(R(order * own.lu.pivots->sign()));
        R log = 0;
        for (T pivot : own.lu.d) {
            R most = size_of(pivot);
            if (!(most > 0)) return false;
            log += std::log(most);
            turn *= pivot / most;
        }
        Index powers = 0;
        for (int e : own.powers) powers += e;
        sign[i] = turn;
        size[i] = log - R(powers) * std::log(R(2));
    }
    return all_finite(size, count) && all_finite(sign, count);
}

template class SparseFactor<float>;
template class SparseFactor<double>;
template class SparseFactor<std::complex<float>>;
template class SparseFactor<std::complex<double>>;
