// The factors of a batch, in several threads; equal neighbors share one factor.
#include "sparse_factor.hpp"

#include "kernels/columns.hpp"
#include "kernels/entries.hpp"

template <class T> void SparseFactor<T>::take(const T* values) {
    given_.assign(values, values + own_values_ * count);
    for (Index i = 0; i < count; i++) {
        const void *own = values + i * own_values_, *before = values + (i - 1) * own_values_;
        if (i == 0 || std::memcmp(own, before, own_values_ * sizeof(T))) first_.push_back(i);
        number_.push_back(Index(first_.size()) - 1);
    }
    members_.resize(first_.size());
}

template <class T> bool SparseFactor<T>::is_member(Index member, const T* one) const {
    return std::memcmp(static_cast<const void*>(values(member)), one, own_values_ * sizeof(T)) == 0;
}

template <class T> bool SparseFactor<T>::is_of(const T* values) const {
    return std::memcmp(static_cast<const void*>(given_.data()), values, given_.size() * sizeof(T)) == 0;
}

template <class T> size_t SparseFactor<T>::nbytes() const {
    size_t bytes = given_.size() * sizeof(T);
    const Member* before = nullptr;
    for (const auto& own : members_) {
        bytes += own->nbytes(before) / std::max<size_t>(own.use_count(), 1);  // of one that is shared, a part
        before = own.get();
    }
    return bytes;
}

template <class T> Index SparseFactor<T>::reused_pivots() const {
    return std::count_if(members_.begin(), members_.end(), [](const auto& own) { return own->reuses_pivots; });
}

template <class T> bool SparseFactor<T>::solve(const T* b, T* x, Index blocks, int k, char op, int threads) const {
    Index step = Index(n) * k;
    return each<Work>(blocks, n, threads, [&](Index i, Work& work) {
        return members_[count == 1 ? 0 : number_[i]]->solve(b + i * step, x + i * step, k, op, work);
    });
}

template <class T>
bool SparseFactor<T>::pullback(const T* x_bar, const T* x, T* lam, T* values_bar, Index blocks, int k, char op, int threads) const {
    if (!solve(x_bar, lam, blocks, k, op == 'N' ? 'H' : 'N', threads)) return false;
    if (!values_bar) return true;
    Index step = Index(n) * k, entries = Index(pattern_->rows.size());
    return each<Work>(blocks, n, threads, [&](Index i, Work&) {
        const T *u = lam + i * step, *v = x + i * step;
        if (op != 'N') std::swap(u, v);
        auto product = [&](Row row, Row column) { return -inner_product(u + Index(row) * k, v + Index(column) * k, k); };
        T* to = values_bar + i * entries;
        for (Index e = 0; e < entries; e++) {
            const Row row = pattern_->rows[e], column = pattern_->cols[e];
            to[e] = product(row, column);
            if (part_ == 'L') continue;
            const T mirror = product(column, row);
            to[e] = (to[e] + (part_ == 'T' ? mirror : conj_of(mirror))) / R(2);
        }
        return all_finite(to, entries);
    });
}

template <class T> bool SparseFactor<T>::slogdet(T* sign, R* size) const {
    for (Index i = 0; i < count; i++)
        if (!members_[number_[i]]->slogdet(sign + i, size + i)) return false;
    return all_finite(size, count) && all_finite(sign, count);
}

#define FOR(T) template class SparseFactor<T>;
EACH_NUMBER(FOR)
