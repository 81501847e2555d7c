// finite, M = R A C, P M Q = L U + F, calm along a random direction; then op(A) x = b with r = b - op(M) x small.
#include "checked_lu.hpp"

#include <cstring>

#include "columns.hpp"
#include "equilibrate.hpp"
#include "limits.hpp"
#include "lu_entries.hpp"

// The pivot stays on the diagonal unless it is so much smaller than another of its column: that of A, or one of a matching,
// which knows no values.
constexpr double DIAGONAL = 1e-3, MATCHED = 0.1;

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

// -- factors ---------------------------------------------------------------------------------------

template <class T> bool CheckedLu<T>::factor(const SparsePattern& pattern, const T* values, bool in_slots, std::shared_ptr<const Pivots>& kept, Work& work) {
    pattern_ = &pattern;
    is_by_kept = false;
    if (!look(values, in_slots, kept.get(), work)) return false;
    const LuAnalysis& a = pattern_->lu;
    if (kept && lu_.refactor(a, m_.data(), kept) && is_calm(work)
        && error_ <= std::max(R(REFINED) * eps<T>, R(2) * R(kept->error)))
        return is_by_kept = true;
    if (!lu_.factor(a, m_.data(), R(pattern_->diagonal.empty() ? MATCHED : DIAGONAL))) return false;
    if (!is_calm(work)) return false;
    auto own = std::make_shared<Pivots>(*lu_.pivots);
    own->error = double(error_);
    own->powers = powers_;
    kept = lu_.pivots = std::move(own);
    return true;
}

// The values of A in their slots.
template <class T> void CheckedLu<T>::gather(const T* values, bool in_slots) {
    Index slots = Index(pattern_->lu.columns.rows.size()), entries = Index(pattern_->rows.size());
    if (pattern_->slot.empty() || in_slots)
        m_.assign(values, values + slots);
    else {
        m_.assign(slots, T(0));
        for (Index e = 0; e < entries; e++) m_[pattern_->slot[e]] += values[e];
    }
}

// The values of M, finite and with sums.
template <class T> bool CheckedLu<T>::look(const T* values, bool in_slots, const Pivots* kept, Work& work) {
    const Compressed& a = pattern_->lu.columns;
    gather(values, in_slots);
    if (!all_finite(m_.data(), Index(m_.size()))) return false;
    Columns<Index, Row> columns{a.size(), a.starts.data(), a.rows.data()};
    work.sums.resize(a.size());
    const Index* diagonal = pattern_->diagonal.empty() ? nullptr : pattern_->diagonal.data();
    Sizes<R> sizes = columns.sizes(m_.data(), diagonal, work.sums.data());
    powers_.clear();
    if (!(diagonal && is_moderate(sizes.entry) && sizes.diagonal >= R(BALANCED) * sizes.entry)) {
        if (!balance(values, in_slots, kept, work)) return false;
        if (!powers_.empty()) sizes = columns.sizes(m_.data(), nullptr, work.sums.data());
    }
    norm_ = sizes.most_sum;
    return sizes.least_sum > 0 && sizes.most_sum <= std::numeric_limits<R>::max();
}

// M = R A C: by the scales of the matrix whose pivots were kept, while they serve.
template <class T> bool CheckedLu<T>::balance(const T* values, bool in_slots, const Pivots* kept, Work& work) {
    const Compressed& a = pattern_->lu.columns;
    if (kept) {
        powers_ = kept->powers;
        auto ends = scale(a, m_.data(), powers_, work.sums.data());
        if (is_moderate(ends.second) && ends.first >= R(BALANCED / DRIFT) * ends.second) return true;
        if (!powers_.empty()) gather(values, in_slots);
    }
    if (!equilibrate(a, m_.data(), powers_)) return false;
    if (!powers_.empty()) scale(a, m_.data(), powers_, work.sums.data());
    return true;
}

// Is growth along the probe small? Its backward error is found on the way.
template <class T> bool CheckedLu<T>::is_calm(Work& work) {
    const Row n = pattern_->lu.n;
    work.given.resize(n);
    work.x.resize(n);
    work.r.resize(n);
    T *z = work.given.data(), *y = work.x.data(), *r = work.r.data();
    for (Row j = 0; j < n; j++) z[j] = T(R(pattern_->probe->z[j]));
    apply_inverse<1>(z, y, 'N', false, work);
    if (!(norm_ * one_norm(y, n, 1) * eps<T> < R(SUSPICIOUS) * R(pattern_->probe->size))) return false;
    residual<1>(z, y, r, 'N');
    error_ = max_norm(r, n, 1) / (norm_ * max_norm(y, n, 1) + max_norm(z, n, 1));
    return error_ <= R(ENOUGH) * eps<T>;
}

// det A / |det A| and log |det A|: what is not refined, so the factors themselves must be accurate.
template <class T> bool CheckedLu<T>::slogdet(T* sign, R* size) const {
    if (!(error_ <= R(ENOUGH) * eps<T>)) return false;
    const LuParts<T> f = parts();
    const Row n = pattern_->lu.n;
    T turn = T(R(pattern_->lu.sign() * sign_of(std::vector<Row>(f.place, f.place + n))));
    R log = 0;
    for (Row k = 0; k < n; k++) {
        const T pivot = f.d[k];
        R most = size_of(pivot);
        if (!(most > 0)) return false;
        log += std::log(most);
        turn *= pivot / most;
    }
    Index powers = 0;
    for (int e : powers_) powers += e;
    *sign = turn;
    *size = log - R(powers) * std::log(R(2));
    return true;
}

template <class T> bool CheckedLu<T>::inverse_entries(T* entries, Work& work) const {
    if (!(error_ <= R(ENOUGH) * eps<T>)) return false;
    const Compressed& a = pattern_->lu.columns;
    const Row n = a.size();
    work.z.resize(m_.size());
    T* z = work.z.data();
    ::inverse_entries(pattern_->lu, parts(), z);
    if (!is_inverse(z, work)) return false;
    if (!powers_.empty())
        for (Row j = 0; j < n; j++)
            for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) z[s] = scaled(z[s], powers_[a.rows[s]] + powers_[n + j]);
    const bool in_order = pattern_->slot.empty();
    const Index count = Index(pattern_->rows.size());
    for (Index e = 0; e < count; e++) entries[e] = conj_of(z[in_order ? e : pattern_->slot[e]]);
    return all_finite(entries, count);
}

// (M Z)_ii = 1 = (Z M)_ii, products of entries that were all computed: small pivots lose what a solution does not show.
template <class T> bool CheckedLu<T>::is_inverse(const T* z, Work& work) const {
    const Compressed& a = pattern_->lu.columns;
    const Row n = a.size();
    work.r.assign(2 * Index(n), T(0));
    work.sums.assign(2 * Index(n), R(0));
    T* sums = work.r.data();
    R* sizes = work.sums.data();
    for (Row j = 0; j < n; j++)
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            const T product = times(m_[s], z[s]);
            for (Row i : {a.rows[s], Row(n + j)}) {
                sums[i] += product;
                sizes[i] += size_of(product);
            }
        }
    for (Index i = 0; i < 2 * Index(n); i++)
        if (!(size_of(sums[i] - T(1)) <= R(ENOUGH) * eps<T> * std::max(sizes[i], R(1)))) return false;
    return true;
}

// -- as arrays ---------------------------------------------------------------------------------------
//
//     whole    is it here? 0; the places of L and of U (64 bits); powers of R and of C; rows of pivots; rows of L, rows of U
//     numbers  L, U, D
//     real     the norm of M, and the error

template <class T> Index CheckedLu<T>::whole_size(Index n, Index room) { return (2 + 7 * n + 4 + room + 1) & ~Index(1); }

template <class T> void CheckedLu<T>::write(Index room, int* whole, T* numbers, R* real) const {
    const Pivots& p = *lu_.pivots;
    Index n = pattern_->lu.n, of_l = Index(p.l_row.size()), of_u = Index(p.u_row.size());
    if (of_l + of_u > room) return write_nothing(n, room, whole, numbers, real);
    whole[0] = powers_.empty() ? AS_IT_IS : SCALED;
    whole[1] = 0;
    int* at = whole + 2;
    auto put = [&](const auto& from) {
        size_t bytes = from.size() * sizeof(from[0]);
        std::memcpy(at, from.data(), bytes);
        at += bytes / sizeof(int);
    };
    put(p.l_start), put(p.u_start);
    if (powers_.empty())
        at = std::fill_n(at, 2 * n, 0);
    else
        put(powers_);
    put(p.place), put(p.l_row), put(p.u_row);
    T* end = std::copy(lu_.d.begin(), lu_.d.end(), std::copy(lu_.u.begin(), lu_.u.end(), std::copy(lu_.l.begin(), lu_.l.end(), numbers)));
    std::fill(at, whole + whole_size(n, room), 0);
    std::fill(end, numbers + numbers_size(n, room), T(0));
    real[0] = norm_;
    real[1] = error_;
}

template <class T> void CheckedLu<T>::write_nothing(Index n, Index room, int* whole, T* numbers, R* real) {
    std::fill(whole, whole + whole_size(n, room), 0);
    std::fill(numbers, numbers + numbers_size(n, room), T(0));
    std::fill(real, real + 2, R(0));
}

template <class T> bool CheckedLu<T>::read(const SparsePattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work) {
    if (whole[0] != AS_IT_IS && whole[0] != SCALED) return false;
    pattern_ = &pattern;
    const LuAnalysis& a = pattern.lu;
    const Index n = a.n;
    const int* at = whole + 2;
    const Index *l_start = reinterpret_cast<const Index*>(at), *u_start = l_start + n + 1;
    at += 4 * (n + 1);
    powers_.assign(at, at + (whole[0] == SCALED ? 2 * n : 0));
    at += 2 * n;
    const Row *place = at, *l_row = place + n, *u_row = l_row + l_start[n];
    gather(values, false);
    work.sums.resize(n);
    if (!powers_.empty()) scale(a.columns, m_.data(), powers_, work.sums.data());
    take_above(a, m_.data(), lu_.f);
    above_row_.resize(a.above.rows.size());
    if (!above_row_.empty()) {
        std::vector<Row> pivot_of(n);
        for (Row k = 0; k < n; k++) pivot_of[place[k]] = k;
        for (size_t e = 0; e < above_row_.size(); e++) above_row_[e] = pivot_of[a.above.rows[e]];
    }
    const T *l = numbers, *u = l + l_start[n], *d = u + u_start[n];
    read_ = {place, l_start, u_start, l_row, u_row, above_row_.data(), l, u, d, lu_.f.data()};
    lu_.pivots = nullptr;
    norm_ = real[0];
    error_ = real[1];
    return true;
}

// -- solves ----------------------------------------------------------------------------------------

// x = op(M)^-1 b, or that is added to x; rows of b and x are those of M, or its columns.
template <class T> template <int width>
void CheckedLu<T>::apply_inverse(const T* b, T* x, char op, bool add, Work& work) const {
    const LuAnalysis& a = pattern_->lu;
    const Row n = a.n;
    const std::vector<Row>&before = op == 'N' ? a.row_at : a.column_at, &after = op == 'N' ? a.column_at : a.row_at;
    work.y.resize(Index(n) * width);
    work.z.resize(Index(n) * width);
    T *y = work.y.data(), *z = work.z.data();
    for (Row k = 0; k < n; k++)
        for (int c = 0; c < width; c++) y[Index(k) * width + c] = b[Index(before[k]) * width + c];
    parts().template solve<width>(a, y, z, op);
    for (Row k = 0; k < n; k++)
        for (int c = 0; c < width; c++) {
            T& to = x[Index(after[k]) * width + c];
            to = (add ? to : T(0)) + y[Index(k) * width + c];
        }
}

// r = b - op(M) x.
template <class T> template <int width>
void CheckedLu<T>::residual(const T* b, const T* x, T* r, char op) const {
    const Compressed& a = pattern_->lu.columns;
    const Row n = pattern_->lu.n;
    const T* m = m_.data();
    std::copy(b, b + Index(n) * width, r);
    for (Row j = 0; j < n; j++)
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            Index i = a.rows[s], from = op == 'N' ? j : i, to = op == 'N' ? i : j;
            T entry = op == 'H' ? conj_of(m[s]) : m[s];
            for (int c = 0; c < width; c++) r[to * width + c] -= times(entry, x[from * width + c]);
        }
}

template <class T>
bool CheckedLu<T>::solve(const T* b, T* x, int k, char op, bool first, Work& work) const {
    if (!all_finite(b, Index(pattern_->lu.n) * k)) return false;
    if (k == 1) return solve_some<1>(b, x, 1, op, first, work);
    for (int c = 0; c < k;) {
        int left = k - c;
        bool accepted = left >= 8 ? solve_some<8>(b + c, x + c, k, op, first, work) : left >= 4 ? solve_some<4>(b + c, x + c, k, op, first, work)
                      : left >= 2 ? solve_some<2>(b + c, x + c, k, op, first, work) : solve_some<1>(b + c, x + c, k, op, first, work);
        if (!accepted) return false;
        c += left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    }
    return true;
}

// `width` columns of b and x, which have k.
template <class T> template <int width>
bool CheckedLu<T>::solve_some(const T* b, T* x, int k, char op, bool first, Work& work) const {
    const Row n = pattern_->lu.n;
    const Index size = Index(n) * width;
    work.given.resize(size);
    work.x.resize(size);
    work.r.resize(size);
    T *given = work.given.data(), *y = work.x.data(), *r = work.r.data();
    const int *rows = powers_.data(), *columns = rows + n;
    if (op != 'N') std::swap(rows, columns);
    bool is_scaled = !powers_.empty();
    for (Row i = 0; i < n; i++)
        for (int c = 0; c < width; c++) given[Index(i) * width + c] = is_scaled ? scaled(b[Index(i) * k + c], rows[i]) : b[Index(i) * k + c];
    int powers[width];
    bool moderate = true;
    for (int c = 0; c < width; c++) moderate = (powers[c] = power_of(given + c, n, width)) == 0 && moderate;
    if (!moderate) times_powers<width>(given, n, powers, -1);
    apply_inverse<width>(given, y, op, false, work);
    if (!all_finite(given, size) || !all_finite(y, size)) return false;
    // b is a direction, too: one that grows is evidence
    if (first)
        for (int c = 0; c < width; c++)
            if (!(norm_ * one_norm(y + c, n, width) * eps<T> <= R(SUSPICIOUS) * one_norm(given + c, n, width))) return false;
    R enough = R(REFINED) * eps<T> * norm_;
    for (int step = 0;; step++) {
        residual<width>(given, y, r, op);
        bool small = true;
        for (int c = 0; c < width; c++) small = small && max_norm(r + c, n, width) <= enough * max_norm(y + c, n, width);
        if (small) break;
        if (step == STEPS || !all_finite(r, size)) return false;
        apply_inverse<width>(r, y, op, true, work);
    }
    if (!moderate) times_powers<width>(y, n, powers, 1);
    for (Row i = 0; i < n; i++)
        for (int c = 0; c < width; c++) x[Index(i) * k + c] = is_scaled ? scaled(y[Index(i) * width + c], columns[i]) : y[Index(i) * width + c];
    if (!is_scaled) return all_finite(y, size);
    for (Row i = 0; i < n; i++)
        if (!all_finite(x + Index(i) * k, width)) return false;
    return true;
}

template class CheckedLu<float>;
template class CheckedLu<double>;
template class CheckedLu<std::complex<float>>;
template class CheckedLu<std::complex<double>>;
