// M = R A C in double precision, and a factor F of M rounded to single:  y <- y + op(F)^-1 (b - op(M) y), until y is as good as by a factor in double.
#pragma once
#include "checked_matrix.hpp"

template <class T> class InSingle : public CheckedMatrix<T> {
    using Base = CheckedMatrix<T>;
    using S = Narrow<T>;

  public:
    using R = Real<T>;
    using Work = typename Base::Work;

    // Factor M in single precision; true if it is accepted. `low` has a pattern and no values; decompose(low, work) factors it.
    template <class Low, class Decompose>
    bool factor(const EntryPattern& pattern, const T* values, bool in_slots, const std::vector<int>* kept, Work& work, std::unique_ptr<Low> low, Decompose decompose) {
        this->pattern_ = &pattern;
        if (!this->load(values, in_slots, kept, work)) return false;
        if (!work.single) work.single = std::make_unique<typename Low::Work>();
        low->round(*this);
        if (!decompose(*low, *work.single)) return false;
        low->drop_values();
        this->reuses_pivots = low->reuses_pivots;
        this->needs_row_errors_ = true;  // small rows are refined, too
        this->rounding_ = eps<S>;
        low_ = std::move(low);
        return true;
    }
    bool slogdet(T*, R*) const override { return false; }  // a determinant cannot be refined
    size_t nbytes(const CheckedMatrix<T>* before) const override;

  private:
    void apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const override;
    template <int width> void apply(const T* b, T* x, char op, bool add, Work& work) const;

    std::unique_ptr<const CheckedMatrix<S>> low_;
};
