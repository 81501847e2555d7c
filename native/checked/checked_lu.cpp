// P M Q = L U + F of a checked matrix M, with the pivots of the previous matrix if they are stable.
#include "checked_lu.hpp"

#include <cstring>

#include "equilibrate.hpp"
#include "kernels/columns.hpp"
#include "kernels/lu_entries.hpp"
#include "checks.hpp"

// -- factors ---------------------------------------------------------------------------------------

template <class T> bool CheckedLu<T>::decompose(std::shared_ptr<const Pivots>& kept, Work& work) {
    this->reuses_pivots = false;
    const LuAnalysis& a = sparse_->lu;
    if (kept && lu_.refactor(a, m_.data(), kept, R(SMALL_PIVOT)) && is_growth_small(work, R(ENOUGH) * eps<T>)
        && error_ <= std::max(R(REFINED) * eps<T>, R(2) * R(kept->error)))
        return this->reuses_pivots = true;
    if (!lu_.factor(a, m_.data(), R(pattern_->diagonal.empty() ? MATCHED : DIAGONAL))) return false;
    if (!is_growth_small(work, R(ENOUGH) * eps<T>)) return false;
    auto own = std::make_shared<Pivots>(*lu_.pivots);
    own->error = double(error_);
    own->powers = powers_;
    kept = lu_.pivots = std::move(own);
    return true;
}

// det A / |det A| and log |det A|: what is not refined, so the factors themselves must be accurate.
template <class T> bool CheckedLu<T>::slogdet(T* sign, R* size) const {
    if (!(error_ <= R(ENOUGH) * eps<T>)) return false;
    const auto product = parts().det(sparse_->lu);
    *sign = T(product.sign());
    *size = unscaled(R(product.log()));
    return std::isfinite(product.log());
}

template <class T> bool CheckedLu<T>::inverse_entries(T* entries, int, Work& work) const {
    if (!(error_ <= R(ENOUGH) * eps<T>)) return false;
    work.z.resize(m_.size());
    ::inverse_entries(sparse_->lu, parts(), work.z.data());
    return is_inverse(work.z.data(), work) && write_entries(work.z.data(), entries);
}

template <class T> size_t CheckedLu<T>::nbytes(const CheckedMatrix<T>* before) const {
    const size_t own = m_.size() * sizeof(T) + powers_.size() * sizeof(int) + lu_.nbytes();
    const bool is_counted = before && static_cast<const CheckedLu*>(before)->pivots() == pivots();
    return pivots() && !is_counted ? own + pivots()->nbytes() : own;
}

// -- as arrays ---------------------------------------------------------------------------------------
//
//     whole    is it here? 0; [where else it is (64 bits), or] the places of L and of U (64 bits); powers of R and of C; rows of pivots; rows of L, rows of U
//     numbers  L, U, D
//     real     the norm of M, and the error

template <class T> Index CheckedLu<T>::whole_size(Index n, Index room) { return (2 + 7 * n + 4 + room + 1) & ~Index(1); }

template <class T> bool CheckedLu<T>::write(Index room, int* whole, T* numbers, R* real) const {
    const Pivots& p = *lu_.pivots;
    Index n = sparse_->lu.n, of_l = Index(p.l_row.size()), of_u = Index(p.u_row.size());
    if (of_l + of_u > room) return false;
    write_state(whole, real);
    int* at = whole + 2;
    auto put = [&](const auto& from) {
        size_t bytes = from.size() * sizeof(from[0]);
        std::memcpy(at, from.data(), bytes);
        at += bytes / sizeof(int);
    };
    put(p.l_start), put(p.u_start);
    at = write_powers(at, 2 * n);
    put(p.place), put(p.l_row), put(p.u_row);
    T* end = std::copy(lu_.d.begin(), lu_.d.end(), std::copy(lu_.u.begin(), lu_.u.end(), std::copy(lu_.l.begin(), lu_.l.end(), numbers)));
    std::fill(at, whole + whole_size(n, room), 0);
    std::fill(end, numbers + numbers_size(n, room), T(0));
    return true;
}

template <class T> bool CheckedLu<T>::read(const SparsePattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work) {
    if (!is_here(whole[0])) return false;
    sparse_ = &pattern;
    const LuAnalysis& a = pattern.lu;
    const Index n = a.n;
    const int* at = whole + 2;
    const Index *l_start = reinterpret_cast<const Index*>(at), *u_start = l_start + n + 1;
    at += 4 * (n + 1);
    this->restore(pattern, values, whole[0], std::vector<int>(at, at + (is_scaled(whole[0]) ? 2 * n : 0)), real, work);
    at += 2 * n;
    const Row *place = at, *l_row = place + n, *u_row = l_row + l_start[n];
    take_above(a, m_.data(), lu_.f);
    above_row_.resize(a.above.rows.size());
    if (!above_row_.empty()) {
        std::vector<Row> pivot_of(n);
        for (Row k = 0; k < n; k++) pivot_of[place[k]] = k;
        for (size_t e = 0; e < above_row_.size(); e++) above_row_[e] = pivot_of[a.above.rows[e]];
    }
    const T *l = numbers, *u = l + l_start[n], *d = u + u_start[n];
    lu_.invert(d, n);
    read_ = {place, l_start, u_start, l_row, u_row, above_row_.data(), l, u, d, lu_.inv_d.data(), lu_.f.data()};
    lu_.pivots = nullptr;
    return true;
}

// -- solves ----------------------------------------------------------------------------------------

// x = op(M)^-1 b, or that is added to x; rows of b and x are those of M, or its columns.
template <class T> void CheckedLu<T>::apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const {
    work.y.resize(2 * Index(sparse_->lu.n) * width);
    this->with_width(width, [&](auto known) { parts().template apply<known>(sparse_->lu, b, x, width, work.y.data(), op, add); });
}

#define FOR(T) template class CheckedLu<T>;
EACH_NUMBER(FOR)
