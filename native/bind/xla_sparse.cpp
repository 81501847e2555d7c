// Sparse matrices with one pattern in programs, values (*batch, entries), of `kind` L: LU; C: Cholesky; H, T: L D L^H and L D L^T, of the Hermitian or
// the symmetric part.
// A pattern is analysed once for its `name`.
//
//     factor     as checked_lu.cpp and checked_fronts.cpp say
//     constants  rows and columns of the entries (2, entries), [of those by fronts the order of elimination (n,)], the probe z (n,)
#include "xla_handlers.hpp"

#include "program_factors.hpp"
#include "xla_factors.hpp"

template <class Factors> class SparseProgram {
    using Pattern = typename Factors::Pattern;
    using Checked = typename Factors::Checked;

  public:
    using Number = typename Factors::Number;
    using T = Number;
    using R = Real<T>;
    struct Room {
        typename Checked::Work work;
        Checked factor;
        std::shared_ptr<const Checked> stored;  // used in place of `factor`, unless null
        const Checked& found() const { return stored ? *stored : factor; }
    };
    static constexpr int axes = 1, constants = 2 + Factors::has_order;
    static constexpr bool is_dense = false, solves_with_constants = true, keeps_b = true;
    static constexpr Index WIDE = 8;      // right-hand sides of one matrix that are solved for together
    static constexpr double LARGE = 1e5;  // numbers in a factor from which several threads are used
    static Index at(Index, Index k, Index row, Index column) { return row * k + column; }
    static bool is_interrupted(const Room& room) { return room.found().is_interrupted; }
    static void count_solves(size_t count) { xla_solves += count; }

    explicit SparseProgram(const XlaCall& call) : call_(call), kind_(call.letter("kind")), name_(call.text("name")) {
        const std::string& rows = call.text("n");
        XlaCall::require(!rows.empty() && rows.size() < 11 && rows.find_first_not_of("0123456789") == std::string::npos);
        n = std::stoll(rows);
        XlaCall::require(n > 0 && n < INT32_MAX);
        if (Factors::has_order) call.letter("op", "NC");
    }

    Index read(const View& values) {
        XlaCall::require(values.rank >= 1);
        entries_ = values.axis(1);
        dtype_ = values.dtype;
        values_ = values.as<T>();
        return count_ = values.batch(1);
    }
    void read_entries(int at) {
        const View places = call_.argument(at);
        XlaCall::require(is_of_each(places, Dtype::i4, 1, {2, entries_}));
        places_ = places;
    }
    // The pattern, which may be another program's, or is analysed now.
    void read_constants(int at) {
        read_entries(at);
        const View probe = call_.argument(at + constants - 1), order = call_.argument(at + 1);
        XlaCall::require(is_of_each(probe, real_of(dtype_), 1, {n}) && (!Factors::has_order || is_of_each(order, Dtype::i4, 1, {n})));
        named_ = program_pattern(name_);
        if (!named_) {
            const int* places = places_.as<int>();
            XlaCall::require(std::all_of(places, places + 2 * entries_, [&](int place) { return place >= 0 && place < n; }));
            auto made = Factors::pattern(kind_, Row(n), places, entries_, order.as<int>());
            made->probe = std::make_shared<Direction>(probe.as<R>(), n);
            named_ = add_program_pattern(name_, std::move(made));
        }
        pattern_ = dynamic_cast<const Pattern*>(named_->pattern.get());
        XlaCall::require(pattern_ && Factors::is_of_kind(*pattern_, kind_) && pattern_->columns().size() == n && Index(pattern_->rows.size()) == entries_);
    }
    template <class Get> void read_factor(Get factor) {
        const View whole = factor(0), numbers = factor(1), real = factor(2);
        XlaCall::require(whole.rank >= 1 && numbers.rank >= 1);
        whole_size_ = whole.axis(1);
        numbers_size_ = numbers.axis(1);
        XlaCall::require(is_of_each(whole, Dtype::i4, count_, {whole_size_}) && is_of_each(numbers, dtype_, count_, {numbers_size_}) && is_of_each(real, real_of(dtype_), count_, {2})
                         && Factors::fits(*pattern_, whole_size_, numbers_size_));
        whole_ = whole.as<int>();
        numbers_ = numbers.as<T>();
        real_ = real.as<R>();
    }
    double operations(const std::string& what, double columns) const {
        return what == "solve" ? Factors::entries(*pattern_) * columns : what == "factor" ? Factors::operations(*pattern_) : what == "inverse" ? 4 * Factors::operations(*pattern_) : 0;
    }
    // The threads that share the matrices; those of one matrix are its own affair.
    int share(Index count, int threads) {
        inner_threads_ = count == 1 && Factors::entries(*pattern_) >= LARGE ? threads : 1;
        return threads;
    }

    void make(Index i, Room& room) const {
        int* whole = whole_ + i * whole_size_;
        T* numbers = numbers_ + i * numbers_size_;
        R* real = real_ + 2 * i;
        const bool accepted = factor(i, room, numbers);
        if (accepted && Factors::write(room.factor, *pattern_, numbers_size_, whole, numbers, real)) return;
        std::fill_n(whole, whole_size_, 0);
        std::fill_n(numbers, numbers_size_, T(0));
        std::fill_n(real, 2, R(0));
        if (!accepted) return;
        // a factor too large for its arrays is stored with the pattern, under a number
        auto kept = std::make_shared<const Checked>(std::move(room.factor));
        Checked::write_elsewhere(named_->store_factor(dtype_number<T>(), kept, kept->nbytes(nullptr)), whole);
    }
    // Read the factor from its arrays, or find it with the pattern; factor again if it was dropped there. False if it was declined.
    bool find(Index i, Room& room) const {
        const int* whole = whole_ + i * whole_size_;
        room.stored = nullptr;
        if (room.factor.read(*pattern_, values_ + i * entries_, whole, numbers_ + i * numbers_size_, real_ + 2 * i, room.work)) return true;
        const uint64_t number = Checked::elsewhere(whole);
        if (number) room.stored = std::static_pointer_cast<const Checked>(named_->find_factor(dtype_number<T>(), number));
        return number && (room.stored || factor(i, room, nullptr));
    }
    static bool solve(Room& room, const T* b, T* x, int k, char op) { return room.found().solve(b, x, k, op, room.work); }
    bool slogdet(T* sign, R* size, Room& room) const { return room.found().slogdet(sign, size); }
    bool inverse(T* entries, char, Room& room) const { return room.found().inverse_entries(entries, inner_threads_, room.work); }
    void add(Careful& asked, const View& values, const std::vector<Index>& which) const {
        asked.add(values, 1, entries_, which);
        asked.add(places_, 2, entries_, {0});
    }

    Index n = 0;

  private:
    // `numbers`: those of the factor's array, if it is to be one.
    bool factor(Index i, Room& room, T* numbers) const {
        const bool accepted = Factors::factor(room.factor, *pattern_, values_ + i * entries_, *named_, inner_threads_, room.work, numbers);
        xla_factorizations += accepted;
        return accepted;
    }

    const XlaCall& call_;
    const char kind_;
    const std::string name_;
    std::shared_ptr<ProgramPattern> named_;
    const Pattern* pattern_ = nullptr;
    Dtype dtype_ = Dtype::none;
    View places_;
    int inner_threads_ = 1;
    Index count_ = 0, entries_ = 0, whole_size_ = 0, numbers_size_ = 0;
    const T* values_ = nullptr;
    int* whole_ = nullptr;
    T* numbers_ = nullptr;
    R* real_ = nullptr;
};

xla::Error* xla_sparse(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& call) {
        const char kind = call.letter("kind", "LCHT");
        return with_floats(call.argument(0), [&](auto like) {
            using T = decltype(like);
            return kind == 'L' ? FactorCall<SparseProgram<ProgramLu<T>>>(call).run()
                 : kind == 'C' ? FactorCall<SparseProgram<ProgramFronts<T, Cholesky>>>(call).run() : FactorCall<SparseProgram<ProgramFronts<T, Ldl>>>(call).run();
        });
    });
}
