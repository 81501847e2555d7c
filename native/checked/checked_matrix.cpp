// The checks of a sparse matrix, for every kind of factor: finite, equilibrated M = R A C, small growth along a random direction; then
// op(A) x = b with r = b - op(M) x small.
#include "checked_matrix.hpp"

#include "equilibrate.hpp"
#include "kernels/columns.hpp"
#include "kernels/hermitian.hpp"
#include "kernels/norms.hpp"
#include "checks.hpp"

// given_i = 2^(rows_i - power) b_i for `width` columns of b, which has k, and whether none was rounded, since it left the range.
template <int width, class T> static void scale_columns(const T* b, Index n, int k, const int* rows, const int* powers, T* given, bool* exact) {
    std::fill_n(exact, width, true);
    for (Index i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            const T before = b[i * k + c];
            const int e = (rows ? rows[i] : 0) - powers[c];
            const T now = given[i * width + c] = e ? scaled(before, e) : before;
            if (e) exact[c] = exact[c] && scaled(now, -e) == before;
        }
}

// The exponent of the largest scaled number of one column of b (n, k), without squares, which may underflow.
template <class T> static int exponent_in_units(const T* b, Index n, int k, const int* rows) {
    int e = NO_EXPONENT;
    for (Index i = 0; i < n; i++)
        if (const int own = exponent_of(b[i * k]); own != NO_EXPONENT) e = std::max(e, own + (rows ? rows[i] : 0));
    return e == NO_EXPONENT ? 0 : e;
}

// -- the matrix ------------------------------------------------------------------------------------

// The values of A in their slots; of the symmetric or the Hermitian part, where A differs from it by no more than ldiv.structures.asymmetry allows.
template <class T> bool CheckedMatrix<T>::gather(const T* values, bool in_slots) {
    Index slots = Index(pattern_->columns().rows.size()), entries = Index(pattern_->rows.size());
    if (pattern_->slot.empty() || in_slots)
        m_.assign(values, values + slots);
    else {
        m_.assign(slots, T(0));
        for (Index e = 0; e < entries; e++) m_[pattern_->slot[e]] += values[e];
    }
    const R tolerance = std::pow(eps<T>, R(SYMMETRIC));
    const bool conjugated = pattern_->is_hermitian();
    for (size_t s = 0; s < pattern_->mirror.size(); s++) {
        const size_t other = size_t(pattern_->mirror[s]);
        if (other < s) continue;
        const T x = m_[s], y = conjugated ? conj_of(m_[other]) : m_[other];
        if (x == y) continue;
        if (!are_near(x, y, tolerance)) return false;
        m_[s] = x / R(2) + y / R(2);
        m_[other] = conjugated ? conj_of(m_[s]) : m_[s];
    }
    return true;
}

// Read the values, check that they are finite, equilibrate, and compute the norm.
template <class T> bool CheckedMatrix<T>::load(const T* values, bool in_slots, const std::vector<int>* kept, Work& work) {
    const Compressed& a = pattern_->columns();
    if (!gather(values, in_slots) || !all_finite(m_.data(), Index(m_.size()))) return false;
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

// M = R A C, with the scales of the previous matrix if they balance this one, too.
template <class T> bool CheckedMatrix<T>::balance(const T* values, bool in_slots, const std::vector<int>* kept, Work& work) {
    const Compressed& a = pattern_->columns();
    if (kept) {
        powers_ = *kept;
        auto ends = scale(a, m_.data(), powers_, work.sums.data());
        if (is_moderate(ends.second) && ends.first >= R(BALANCED / DRIFT) * ends.second) return true;
        if (!powers_.empty()) gather(values, in_slots);
    }
    if (!equilibrate(a, m_.data(), powers_)) return false;
    if (!powers_.empty()) scale(a, m_.data(), powers_, work.sums.data());
    return true;
}

template <class T> template <class U> void CheckedMatrix<T>::round(const CheckedMatrix<U>& of) {
    m_.resize(of.m_.size());
    std::transform(of.m_.begin(), of.m_.end(), m_.begin(), [](U x) { return T(x); });
    powers_ = of.powers_;
    norm_ = R(of.norm_);
}

// |M| |M^-1 z| eps / |z| of a random z is small, and the backward error of y = M^-1 z is at most `most`.
template <class T> bool CheckedMatrix<T>::is_growth_small(Work& work, R most) {
    const Row n = pattern_->columns().size();
    work.given.resize(n);
    work.x.resize(n);
    work.r.resize(n);
    T *z = work.given.data(), *y = work.x.data(), *r = work.r.data();
    const Direction& probe = *pattern_->probe;
    auto growth = [&](int direction, int) {
        for (Row j = 0; j < n; j++) z[j] = T(R(direction ? probe.another(j) : probe.z[j]));
        R size;
        apply_inverse(1, z, y, 'N', false, work);
        one_norms<1>(y, n, &size);
        return norm_ * size * eps<T> / R(probe.size);
    };
    int range = 0;  // of the units of x, and of those of another view
    for (auto at = powers_.begin(); at != powers_.end(); at += n) {
        auto ends = std::minmax_element(at, at + n);
        range = std::max(range, *ends.second - *ends.first);
    }
    if (!::is_growth_small<T>(growth, 1, std::ldexp(R(1), range), needs_row_errors_)) return false;
    residual<1>(z, y, r, 'N');
    R of_r, of_y, of_z;
    max_norms<1>(r, n, &of_r);
    max_norms<1>(y, n, &of_y);
    max_norms<1>(z, n, &of_z);
    error_ = of_r / (norm_ * of_y + of_z);
    return error_ <= most;
}

// Check (M Z)_ii = 1 = (Z M)_ii, which need only entries of Z in the pattern: small pivots lose digits of Z that a solution does not show.
template <class T> bool CheckedMatrix<T>::is_inverse(const T* z, Work& work) const {
    const Compressed& a = pattern_->columns();
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

template <class T> void CheckedMatrix<T>::restore(const EntryPattern& pattern, const T* values, int state, std::vector<int> powers, const R* real, Work& work) {
    pattern_ = &pattern;
    needs_row_errors_ = state & NEEDS_ROW_ERRORS;
    powers_ = std::move(powers);
    gather(values, false);
    work.sums.resize(pattern.columns().size());
    if (!powers_.empty()) scale(pattern.columns(), m_.data(), powers_, work.sums.data());
    norm_ = real[0];
    error_ = real[1];
}

template <class T> Real<T> CheckedMatrix<T>::unscaled(R log_det) const {
    Index powers = 0;
    for (int e : powers_) powers += e;
    return log_det - R(powers) * std::log(R(2));
}

template <class T> bool CheckedMatrix<T>::write_entries(T* z, T* entries) const {
    const Compressed& a = pattern_->columns();
    const Row n = a.size();
    if (!powers_.empty())
        for (Row j = 0; j < n; j++)
            for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) z[s] = scaled(z[s], powers_[a.rows[s]] + powers_[n + j]);
    const bool in_order = pattern_->slot.empty();
    const Index count = Index(pattern_->rows.size());
    for (Index e = 0; e < count; e++) entries[e] = conj_of(z[in_order ? e : pattern_->slot[e]]);
    return all_finite(entries, count);
}

// -- solves ----------------------------------------------------------------------------------------

// r = b - op(M) x.
template <class T> template <int width>
void CheckedMatrix<T>::residual(const T* b, const T* __restrict x, T* __restrict r, char op) const {
    const Compressed& a = pattern_->columns();
    const Row n = pattern_->columns().size();
    const T* m = m_.data();
    std::copy(b, b + Index(n) * width, r);
    for (Row j = 0; j < n; j++)
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            Index i = a.rows[s], from = op == 'N' ? j : i, to = op == 'N' ? i : j;
            T entry = op == 'H' ? conj_of(m[s]) : m[s];
            for (int c = 0; c < width; c++) r[to * width + c] -= times(entry, x[from * width + c]);
        }
}

// sums += |op(M)| sizes.
template <class T> template <int width>
void CheckedMatrix<T>::add_sizes(R* __restrict sums, const R* __restrict sizes, char op) const {
    const Compressed& a = pattern_->columns();
    for (Row j = 0; j < a.size(); j++)
        for (Index s = a.starts[j]; s < a.starts[j + 1]; s++) {
            const Index i = a.rows[s], from = op == 'N' ? j : i, to = op == 'N' ? i : j;
            const R entry = size_of(m_[s]);
            for (int c = 0; c < width; c++) sums[to * width + c] += entry * sizes[from * width + c];
        }
}

template <class T>
bool CheckedMatrix<T>::solve(const T* b, T* x, int k, char op, Work& work) const {
    int c = 0;
    auto some = [&](auto width) {
        for (; k - c >= width; c += width)
            if (!solve_some<width>(b + c, x + c, k, op, work)) return false;
        return true;
    };
    using std::integral_constant;
    return some(integral_constant<int, 8>()) && some(integral_constant<int, 4>()) && some(integral_constant<int, 2>()) && some(integral_constant<int, 1>());
}

// `width` columns of b and x, which have k.
template <class T> template <int width>
bool CheckedMatrix<T>::solve_some(const T* b, T* x, int k, char op, Work& work) const {
    const Row n = pattern_->columns().size();
    const Index size = Index(n) * width;
    work.given.resize(size);
    work.x.resize(size);
    work.r.resize(size);
    T *given = work.given.data(), *y = work.x.data(), *r = work.r.data();
    const int *rows = powers_.empty() ? nullptr : powers_.data(), *columns = rows ? rows + n : nullptr;
    if (op != 'N') std::swap(rows, columns);
    constexpr R MOST = std::numeric_limits<R>::max();
    R of_given[width], of_y[width], of_r[width];
    int powers[width] = {};
    bool exact[width];
    scale_columns<width>(b, n, k, rows, powers, given, exact);
    max_norms<width>(given, n, of_given);
    for (int c = 0; c < width; c++)
        if (!exact[c] || !is_moderate(of_given[c])) powers[c] = exponent_in_units(b + c, n, k, rows);
    const bool has_powers = std::any_of(powers, powers + width, [](int e) { return e != 0; }), is_scaled = rows || has_powers;
    if (has_powers) scale_columns<width>(b, n, k, rows, powers, given, exact);
    // an entry of b that underflows here would lose a row of x
    if (!std::all_of(exact, exact + width, [](bool own) { return own; })) return false;
    apply_inverse(width, given, y, op, false, work);
    // b is another random direction: large growth along it is evidence of a singular matrix
    one_norms<width>(given, n, of_given);
    one_norms<width>(y, n, of_y);
    for (int c = 0; c < width; c++)
        if (!(norm_ * of_y[c] * rounding_ <= R(SUSPICIOUS) * of_given[c])) return false;
    const R enough = R(REFINED) * eps<T> * norm_;
    const bool in_single = rounding_ > eps<T>;  // then each row of a settled residual must be small, too
    bool settled = false;
    for (int step = 0;; step++) {
        residual<width>(given, y, r, op);
        max_norms<width>(y, n, of_y);
        max_norms<width>(r, n, of_r);
        bool small = true, finite = true;
        for (int c = 0; c < width; c++) {
            small = small && of_r[c] <= enough * of_y[c];
            finite = finite && of_r[c] <= MOST && of_y[c] <= MOST;
        }
        if (!finite) return false;
        if (small && needs_row_errors_ && (in_single || !settled)) {  // a norm hides small rows
            row_errors<width>(r, y, given, n, work.sums, [&](R* sums, const R* sizes) { add_sizes<width>(sums, sizes, op); }, of_r);
            for (int c = 0; c < width; c++) small = small && of_r[c] <= R(settled ? ENOUGH : REFINED) * eps<T>;
        }
        if (small) break;
        if (step == (in_single ? SINGLE_STEPS : COMPILED_STEPS) || (in_single && settled)) return false;
        if (needs_row_errors_) work.before.assign(y, y + size);
        apply_inverse(width, r, y, op, true, work);
        auto step_of = [&](Index at) { return y[at] - work.before[at]; };
        settled = needs_row_errors_ && are_settled<width>(y, n, step_of, rows, [&](R size, Index i) { return scaled(size, columns[i]); });
    }
    for (Index i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            const T own = y[i * width + c];
            x[i * k + c] = is_scaled ? scaled(own, powers[c] + (rows ? columns[i] : 0)) : own;
        }
    for (Index i = 0; is_scaled && i < n; i++)
        if (!all_finite(x + i * k, width)) return false;
    return true;
}

#define FOR(T) template class CheckedMatrix<T>;
EACH_NUMBER(FOR)
#define ROUNDED(T) template void CheckedMatrix<Narrow<T>>::round(const CheckedMatrix<T>&);
EACH_DOUBLE(ROUNDED)
