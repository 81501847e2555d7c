// L, U and F of one sparse matrix that passed every look, and solves that do.
#pragma once
#include "lu.hpp"
#include "sparse_pattern.hpp"

template <class T> class CheckedLu {
  public:
    using R = Real<T>;
    struct Work {
        std::vector<T> y, z, r, given, x;
        std::vector<R> sums;
    };

    // All of these say whether they accept; what they wrote where they do not is no answer.
    // Of values of entries, or of slots. Pivots that were kept serve where they are good enough, and are replaced by the last ones.
    bool factor(const SparsePattern& pattern, const T* values, bool in_slots, std::shared_ptr<const Pivots>& kept, Work& work);
    // `k` right-hand sides (n, k); where they are the `first` ones, they are looked at as directions, too.
    bool solve(const T* b, T* x, int k, char op, bool first, Work& work) const;
    bool slogdet(T* sign, R* size) const;
    // conj (A^-1)_ji for every entry (i, j) that was given: the gradient of log |det A|.
    bool inverse_entries(T* entries, Work& work) const;

    // As arrays, with room for so many entries of L and U: then the factor is there, else only that it is not. To be read
    // with the same values; nothing is looked at again.
    static Index whole_size(Index n, Index room);
    static Index numbers_size(Index n, Index room) { return n + room; }
    void write(Index room, int* whole, T* numbers, R* real) const;
    static void write_nothing(Index n, Index room, int* whole, T* numbers, R* real);
    bool read(const SparsePattern& pattern, const T* values, const int* whole, const T* numbers, const R* real, Work& work);

    const std::shared_ptr<const Pivots>& pivots() const { return lu_.pivots; }
    size_t nbytes() const { return m_.size() * sizeof(T) + powers_.size() * sizeof(int) + lu_.nbytes(); }
    bool is_by_kept = false;

  private:
    enum State : int { NOT_HERE, AS_IT_IS, SCALED };
    void gather(const T* values, bool in_slots);
    bool look(const T* values, bool in_slots, const Pivots* kept, Work& work);
    bool balance(const T* values, bool in_slots, const Pivots* kept, Work& work);
    bool is_calm(Work& work);
    bool is_inverse(const T* z, Work& work) const;
    LuParts<T> parts() const { return lu_.pivots ? lu_.parts() : read_; }
    template <int width> bool solve_some(const T* b, T* x, int k, char op, bool first, Work& work) const;
    template <int width> void apply_inverse(const T* b, T* x, char op, bool add, Work& work) const;
    template <int width> void residual(const T* b, const T* x, T* r, char op) const;

    const SparsePattern* pattern_ = nullptr;
    std::vector<T> m_;         // M = R A C in its slots
    std::vector<int> powers_;  // of R, then of C; none of an M that is A
    R norm_ = 0;               // the largest column sum
    R error_ = 0;              // of the solution for the probe
    Lu<T> lu_;
    LuParts<T> read_{};        // of one that is arrays
    std::vector<Row> above_row_;
};
