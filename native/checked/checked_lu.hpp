// L, U and F of one sparse matrix that passed every check.
#pragma once
#include "checked_matrix.hpp"
#include "kernels/lu.hpp"
#include "sparse_pattern.hpp"

template <class T> class CheckedLu : public CheckedMatrix<T> {
    using Base = CheckedMatrix<T>;
    using Base::error_, Base::is_growth_small, Base::is_inverse, Base::m_, Base::norm_, Base::pattern_, Base::powers_, Base::unscaled, Base::write_entries;
    using Base::is_here, Base::is_scaled, Base::write_powers, Base::write_state;

  public:
    using R = Real<T>;
    using Work = typename Base::Work;

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    void use(const SparsePattern& pattern) { this->pattern_ = sparse_ = &pattern; }
    // Factor M, which was loaded. The pivots in `kept` are used if they are stable; otherwise new ones replace them.
    bool decompose(std::shared_ptr<const Pivots>& kept, Work& work);
    bool slogdet(T* sign, R* size) const override;
    // conj (A^-1)_ji for every entry (i, j) that was given: the gradient of log |det A|. By one thread.
    bool inverse_entries(T* entries, int threads, Work& work) const;

    // The arrays of a factor have room for so many entries of L and U; `write` declines where these are more. A factor is read with the same
    // values, and nothing is checked again.
    static Index whole_size(Index n, Index room);
    static Index numbers_size(Index n, Index room) { return n + room; }
    bool write(Index room, int* whole, T* numbers, R* real) const;
    bool read(const SparsePattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work);

    const std::shared_ptr<const Pivots>& pivots() const { return lu_.pivots; }
    size_t nbytes(const CheckedMatrix<T>* before = nullptr) const override;

  private:
    void apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const override;
    LuParts<T> parts() const { return lu_.pivots ? lu_.parts() : read_; }

    const SparsePattern* sparse_ = nullptr;
    Lu<T> lu_;
    LuParts<T> read_{};  // of one that is arrays
    std::vector<Row> above_row_;
};
