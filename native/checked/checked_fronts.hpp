// P M P^H = L L^H, L D L^T or L D L^H, front by front, of one sparse matrix that passed every check.
#pragma once
#include "checked_matrix.hpp"
#include "kernels/cholesky.hpp"
#include "kernels/ldl.hpp"
#include "symmetric_pattern.hpp"

template <class T, template <class> class F> class CheckedFronts : public CheckedMatrix<T> {
    using Base = CheckedMatrix<T>;
    using Base::error_, Base::is_growth_small, Base::needs_row_errors_, Base::m_, Base::norm_, Base::powers_, Base::unscaled, Base::write_entries;
    using Base::is_here, Base::is_scaled, Base::write_powers, Base::write_state;
    static constexpr bool has_d = std::is_same_v<F<T>, Ldl<T>>;

  public:
    using R = Real<T>;
    using Work = typename Base::Work;

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer. One factor may be had by several
    // threads; Ctrl-C, which they ask for, is noted.
    void use(const SymmetricPattern& pattern, T* panels = nullptr);  // `panels`: where L is to be, if not here
    bool decompose(int threads, Work& work);  // M, which was looked at
    bool slogdet(T* sign, R* size) const override;
    size_t nbytes(const CheckedMatrix<T>*) const override { return m_.size() * sizeof(T) + powers_.size() * sizeof(int) + made_->nbytes(); }
    const std::shared_ptr<F<T>>& made() const { return made_; }
    // of R, and so of C, in the order of A; none of an M that is A
    std::vector<int> scales() const { return {powers_.begin(), powers_.begin() + powers_.size() / 2}; }
    // conj (A^-1)_ji for every entry (i, j) that was given: the gradient of log |det A|. None of L D L^T.
    bool inverse_entries(T* entries, int threads, Work& work) const;
    bool signs(Signs& found) const;  // of the eigenvalues of a Hermitian A

    // The arrays of a factor, as in `CheckedLu`; they have no room for delayed columns.
    static Index whole_size(const SymmetricPattern& pattern) { return 2 + (pattern.kind == 'C' ? 1 : 2) * Index(pattern.columns().size()); }
    static Index numbers_size(const SymmetricPattern& pattern) { return pattern.fronts->entries(); }
    // Beside the panels, which were made there; where there is no room, they are copied.
    bool write(int* whole, R* real) const;
    bool read(const SymmetricPattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work);

  private:
    void apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const override;
    const SymmetricPattern* symmetric_ = nullptr;
    std::shared_ptr<F<T>> made_;
};

template <class T> using CheckedCholesky = CheckedFronts<T, Cholesky>;
template <class T> using CheckedLdl = CheckedFronts<T, Ldl>;
