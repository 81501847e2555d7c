// A sparse matrix M = R A C with a factor, and the checks that its answers must pass.
#pragma once
#include <cstring>
#include <memory>

#include "entry_pattern.hpp"

template <class T> class CheckedMatrix {
  public:
    using R = Real<T>;
    struct Work {
        std::vector<T> y, z, r, given, x;
        std::vector<R> sums;
        std::vector<T> before;
        std::unique_ptr<typename CheckedMatrix<Narrow<T>>::Work> single;  // of a factor in single precision
    };
    virtual ~CheckedMatrix() = default;

    // Each returns true if its answer is accepted; otherwise what it wrote is not an answer.
    // op(A) x = b for `k` right-hand sides (n, k), each of which is checked as a direction, too.
    bool solve(const T* b, T* x, int k, char op, Work& work) const;
    // The values of M, of entries or of slots, finite and in units in which it is balanced. `kept`: powers of another matrix, which serve while they balance this one.
    bool load(const T* values, bool in_slots, const std::vector<int>* kept, Work& work);
    virtual bool slogdet(T* sign, R* size) const = 0;
    // `before`: another matrix; memory that both share is not counted
    virtual size_t nbytes(const CheckedMatrix* before) const = 0;

    // A factor that has no room in its arrays leaves the number by which it is found in the array of whole numbers; 0 if it is in its arrays.
    static void write_elsewhere(uint64_t number, int* whole) {
        whole[0] = ELSEWHERE;
        std::memcpy(whole + 2, &number, sizeof number);
    }
    static uint64_t elsewhere(const int* whole) {
        uint64_t number = 0;
        if (whole[0] == ELSEWHERE) std::memcpy(&number, whole + 2, sizeof number);
        return number;
    }

    // x = op(M)^-1 b for `width` right-hand sides beside each other, 1, 2, 4 or 8, or that is added to x.
    virtual void apply_inverse(int width, const T* b, T* x, char op, bool add, Work& work) const = 0;
    template <class F> static void with_width(int width, F f) {
        using std::integral_constant;
        if (width == 1) return f(integral_constant<int, 1>());
        if (width == 2) return f(integral_constant<int, 2>());
        if (width == 4) return f(integral_constant<int, 4>());
        f(integral_constant<int, 8>());
    }

    // Round M of another precision, already checked. Drop its values once it is factored.
    template <class U> void round(const CheckedMatrix<U>& of);
    void drop_values() { m_ = {}; }

    bool reuses_pivots = false;              // factored with the pivots of a previous matrix
    mutable bool is_interrupted = false;  // Ctrl-C was pressed during a factorization or a solve

  protected:
    enum State : int { ABSENT, UNSCALED, SCALED, ELSEWHERE, NEEDS_ROW_ERRORS = 4 };  // the last one is a flag, added to another
    int state() const { return (powers_.empty() ? UNSCALED : SCALED) | (needs_row_errors_ ? NEEDS_ROW_ERRORS : 0); }
    static bool is_here(int state) { return state != ABSENT && state != ELSEWHERE; }
    static bool is_scaled(int state) { return (state & ~NEEDS_ROW_ERRORS) == SCALED; }
    void write_state(int* whole, R* real) const { whole[0] = state(), whole[1] = 0, real[0] = norm_, real[1] = error_; }
    // Write `count` of the powers, zeros if M is A; return the end.
    int* write_powers(int* to, Index count) const { return powers_.empty() ? std::fill_n(to, count, 0) : std::copy_n(powers_.data(), count, to); }
    CheckedMatrix() = default;
    CheckedMatrix(const CheckedMatrix&) = default;
    CheckedMatrix(CheckedMatrix&&) = default;
    CheckedMatrix& operator=(const CheckedMatrix&) = default;
    CheckedMatrix& operator=(CheckedMatrix&&) = default;

    // Write the values of A to their slots; false if a declared symmetry does not hold.
    bool gather(const T* values, bool in_slots);

    bool balance(const T* values, bool in_slots, const std::vector<int>* kept, Work& work);
    bool is_growth_small(Work& work, R most);  // with an error of so much
    bool is_inverse(const T* z, Work& work) const;
    // Restore M from its values, its state, and `real`, which has its norm and its error.
    void restore(const EntryPattern& pattern, const T* values, int state, std::vector<int> powers, const R* real, Work& work);
    R unscaled(R log_det) const;
    // Write conj (A^-1)_ji for every entry, from (M^-1)_ji for every slot (i, j).
    bool write_entries(T* z, T* entries) const;

    const EntryPattern* pattern_ = nullptr;
    std::vector<T> m_;         // M = R A C in its slots
    std::vector<int> powers_;  // of R, then of C; none of an M that is A
    R norm_ = 0;               // the largest column sum
    R error_ = 0;              // of the solution for the probe
    bool needs_row_errors_ = false;       // growth is so large that the residual is checked row by row
    R rounding_ = eps<T>;      // of the factor

  private:
    template <class> friend class CheckedMatrix;
    template <int width> bool solve_some(const T* b, T* x, int k, char op, Work& work) const;
    template <int width> void add_sizes(R* sums, const R* sizes, char op) const;
    template <int width> void residual(const T* b, const T* x, T* r, char op) const;
};
