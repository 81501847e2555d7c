// P M P^H = L L^H of one sparse Hermitian matrix that passed every look.
#pragma once
#include "checked_matrix.hpp"
#include "kernels/cholesky.hpp"
#include "symmetric_pattern.hpp"

template <class T> class CheckedCholesky : public CheckedMatrix<T> {
    using Base = CheckedMatrix<T>;
    using Base::error_, Base::is_calm, Base::look, Base::m_, Base::norm_, Base::powers_, Base::unscaled, Base::write_entries;
    using Base::is_here, Base::is_scaled, Base::state;

  public:
    using R = Real<T>;
    using Work = typename Base::Work;

    // All of these say whether they accept; what they wrote where they do not is no answer. One factor may be had by several
    // threads; Ctrl-C, which they ask for, is noted.
    // The values are those of entries, or of slots. `panels`: where L is to be, if not here.
    bool factor(const SymmetricPattern& pattern, const T* values, bool in_slots, int threads, Work& work, T* panels = nullptr);
    bool slogdet(T* sign, R* size) const override;
    size_t nbytes(const CheckedMatrix<T>*) const override { return m_.size() * sizeof(T) + powers_.size() * sizeof(int) + cholesky_->nbytes(); }
    const std::shared_ptr<Cholesky<T>>& cholesky() const { return cholesky_; }
    // of R, and so of C, in the order of A; none of an M that is A
    std::vector<int> scales() const { return {powers_.begin(), powers_.begin() + powers_.size() / 2}; }
    // conj (A^-1)_ji for every entry (i, j) that was given: the gradient of log |det A|.
    bool inverse_entries(T* entries, int threads, Work& work) const;

    // As arrays, as those of `CheckedLu`.
    static Index whole_size(const SymmetricPattern& pattern) { return 1 + pattern.columns().size(); }
    static Index numbers_size(const SymmetricPattern& pattern) { return pattern.fronts->entries(); }
    void write(int* whole, R* real) const;  // beside the panels, which were made there
    static void write_nothing(const SymmetricPattern& pattern, int* whole, T* numbers, R* real);
    bool read(const SymmetricPattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work);

    mutable bool is_interrupted = false;

  private:
    bool gather(const T* values, bool in_slots) override;
    void apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const override;
    void use(const SymmetricPattern& pattern);

    const SymmetricPattern* symmetric_ = nullptr;
    std::shared_ptr<Cholesky<T>> cholesky_;
};
