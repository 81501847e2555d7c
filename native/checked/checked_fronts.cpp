// P M P^H = L L^H, declined at a pivot that is not positive, or L D L^H, with delayed pivots, of a checked matrix M.
#include "checked_fronts.hpp"

#include "equilibrate.hpp"
#include "limits.hpp"

template <class T, template <class> class F> void CheckedFronts<T, F>::use(const SymmetricPattern& pattern, T* panels) {
    this->pattern_ = symmetric_ = &pattern;
    if constexpr (has_d)
        made_ = std::make_shared<F<T>>(pattern.fronts, pattern.is_hermitian(), R(SYMMETRIC_PIVOT));
    else
        made_ = std::make_shared<F<T>>(pattern.fronts);
    if (!panels) return;
    use_large_pages(panels, pattern.fronts->entries() * sizeof(T));
    made_->borrow(panels);
}

template <class T, template <class> class F> bool CheckedFronts<T, F>::decompose(int threads, Work& work) {
    Team team(threads);
    const std::vector<Index>& to = symmetric_->permuted;
    if (!to.empty()) {
        work.z.resize(m_.size());
        for (size_t s = 0; s < m_.size(); s++) work.z[to[s]] = m_[s];
    }
    const bool accepted = made_->factor(to.empty() ? m_.data() : work.z.data(), team);
    this->is_interrupted = this->is_interrupted || team.is_interrupted();
    // entries of L D L^T may grow; each step of refinement multiplies the error by the backward error e, so e^(1 + steps) must be small
    const R most = has_d ? std::pow(R(REFINED) * eps<T>, R(1) / R(1 + COMPILED_STEPS)) : R(ENOUGH) * eps<T>;
    if (!accepted || !is_growth_small(work, most)) return false;
    needs_row_errors_ = needs_row_errors_ || (has_d && !powers_.empty());  // a norm hides what small entries lose
    return true;
}

template <class T, template <class> class F> bool CheckedFronts<T, F>::slogdet(T* sign, R* size) const {
    if (!(error_ <= R(ENOUGH) * eps<T>)) return false;
    *sign = T(1);
    if constexpr (has_d)
        *size = unscaled(R(made_->log_det(*sign)));
    else
        *size = unscaled(R(made_->log_det()));
    return true;
}

template <class T, template <class> class F> bool CheckedFronts<T, F>::signs(Signs& found) const {
    if constexpr (has_d) found = made_->signs();
    return has_d && (symmetric_->is_hermitian() || !Scalar<T>::is_complex) && error_ <= R(ADEQUATE) * eps<T>;
}

template <class T, template <class> class F> bool CheckedFronts<T, F>::inverse_entries(T* entries, int threads, Work& work) const {
    if constexpr (!has_d) {
        Team team(threads);
        work.z.resize(m_.size());
        const bool accepted = made_->inverse(work.z.data(), team);
        this->is_interrupted = this->is_interrupted || team.is_interrupted();
        if (!accepted) return false;
    } else
        return false;
    const std::vector<Index>& at = symmetric_->permuted;
    if (at.empty()) return write_entries(work.z.data(), entries);
    work.y.resize(m_.size());
    for (size_t s = 0; s < m_.size(); s++) work.y[s] = work.z[at[s]];
    return write_entries(work.y.data(), entries);
}

// -- as arrays ---------------------------------------------------------------------------------------
//
//     whole    is it here? 0; [where else it is (64 bits), or] powers of R, which are those of C; of L D L^T its order
//     numbers  the panels of L, and of D
//     real     the norm of M, and the error

template <class T, template <class> class F> bool CheckedFronts<T, F>::write(int* whole, R* real) const {
    const Index n = symmetric_->columns().size();
    if constexpr (has_d)
        if (!made_->write_order(whole + 2 + n)) return made_->copy_panels(), false;
    write_state(whole, real);
    write_powers(whole + 2, n);
    return true;
}

template <class T, template <class> class F> bool CheckedFronts<T, F>::read(const SymmetricPattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work) {
    if (!is_here(whole[0])) return false;
    use(pattern);
    const Index n = pattern.columns().size();
    std::vector<int> powers;
    for (int side = 0; side < 2 && is_scaled(whole[0]); side++) powers.insert(powers.end(), whole + 2, whole + 2 + n);
    this->restore(pattern, values, whole[0], std::move(powers), real, work);
    made_->borrow(const_cast<T*>(numbers));
    if constexpr (has_d) made_->read_order(whole + 2 + n);
    return true;
}

// -- solves ----------------------------------------------------------------------------------------

template <class T, template <class> class F> void CheckedFronts<T, F>::apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const {
    const std::vector<Row>& place = symmetric_->place;
    const Index n = Index(place.size());
    work.y.resize(n * width);
    T* y = work.y.data();
    for (Index i = 0; i < n; i++) std::copy_n(b + i * width, width, y + place[i] * width);
    Team team(1);
    const bool conjugated = op == (symmetric_->is_hermitian() ? 'T' : 'H');
    bool solved;
    if constexpr (has_d)
        solved = made_->solve(y, width, conjugated, team);
    else
        solved = made_->solve(y, width, 'A', conjugated, team);
    if (!solved) {  // nor is there an answer
        this->is_interrupted = true;
        y[0] = std::numeric_limits<R>::quiet_NaN();
    }
    for (Index i = 0; i < n; i++)
        for (int c = 0; c < width; c++) {
            T& to = x[i * width + c];
            to = (add ? to : T(0)) + y[place[i] * width + c];
        }
}

#define FOR(T) template class CheckedFronts<T, Cholesky>; template class CheckedFronts<T, Ldl>;
EACH_NUMBER(FOR)
