// The factors of a batch, in threads; neighbors that are equal share one.
#include "sparse_factor.hpp"

#include <cstring>

#include "columns.hpp"
#include "crew.hpp"

template <class T> bool SparseFactor<T>::is_of(const T* values) const {
    return std::memcmp(static_cast<const void*>(given_.data()), values, given_.size() * sizeof(T)) == 0;
}

template <class T> size_t SparseFactor<T>::nbytes() const {
    size_t bytes = given_.size() * sizeof(T);
    const Pivots* before = nullptr;
    for (const CheckedLu<T>& own : members_) {
        bytes += own.nbytes();
        if (own.pivots() && own.pivots().get() != before) bytes += own.pivots()->nbytes();
        before = own.pivots().get();
    }
    return bytes;
}

template <class T> Index SparseFactor<T>::by_kept_pivots() const {
    return std::count_if(members_.begin(), members_.end(), [](const CheckedLu<T>& own) { return own.is_by_kept; });
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
    bool accepted = each<typename CheckedLu<T>::Work>(parts, n, int(parts), [&](Index t, auto& work) {
        for (Index i = different() * t / parts; i < different() * (t + 1) / parts; i++)
            if (!members_[i].factor(*pattern_, values + first[i] * entries, in_slots_, last[t], work)) return false;
        return true;
    });
    if (accepted) kept = last[0];
    return accepted;
}

// -- solves ----------------------------------------------------------------------------------------

template <class T> bool SparseFactor<T>::solve(const T* b, T* x, Index blocks, int k, char op, int threads) {
    bool first = !proven_.load(std::memory_order_relaxed);
    Index step = Index(n) * k;
    bool accepted = each<typename CheckedLu<T>::Work>(blocks, n, threads, [&](Index i, auto& work) {
        return members_[count == 1 ? 0 : number_[i]].solve(b + i * step, x + i * step, k, op, first, work);
    });
    if (accepted) proven_.store(true, std::memory_order_relaxed);
    return accepted;
}

template <class T>
bool SparseFactor<T>::pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads) {
    if (!solve(x_bar, lam, blocks, k, op == 'N' ? 'H' : 'N', threads)) return false;
    if (!values_bar) return true;
    Index step = Index(n) * k, entries = Index(pattern_->rows.size());
    return each<typename CheckedLu<T>::Work>(blocks, n, threads, [&](Index i, auto&) {
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

template <class T> bool SparseFactor<T>::slogdet(T* sign, R* size) const {
    for (Index i = 0; i < count; i++)
        if (!members_[number_[i]].slogdet(sign + i, size + i)) return false;
    return all_finite(size, count) && all_finite(sign, count);
}

template class SparseFactor<float>;
template class SparseFactor<double>;
template class SparseFactor<std::complex<float>>;
template class SparseFactor<std::complex<double>>;
