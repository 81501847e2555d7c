// Dense matrices A (*batch, n, n) in programs, of `kind` L, C or H.
//
//     factor     F (*batch, n, n), pivots and a state (*batch, n + 1), norms and scales (*batch, 2 n + 2)
//     constants  the probe z (n,), where there are no right-hand sides
#include "xla_handlers.hpp"

#include "checked/factored.hpp"
#include "xla_factors.hpp"

enum State : int { DECLINED, UNSCALED, SCALED, NEEDS_ROW_ERRORS = 4 };  // the last one is a flag, added to another

template <class T> class DenseProgram {
    using R = Real<T>;

  public:
    using Number = T;
    struct Room : Factored<T>::Work {
        Factored<T> own;
        typename Factored<T>::Units units;
    };
    static constexpr int axes = 2, constants = 1;
    static constexpr bool is_dense = true, solves_with_constants = false, keeps_b = false;  // b is overwritten by its scaled form
    static constexpr Index WIDE = 64;  // right-hand sides of one matrix that are solved for together
    static Index at(Index n, Index, Index row, Index column) { return column * n + row; }
    static bool is_interrupted(const Room&) { return false; }
    static void count_solves(size_t) {}

    explicit DenseProgram(const XlaCall& call) : call_(call), kind_(call.letter("kind", "LCH")) {}

    Index read(const View& a) {
        XlaCall::require(a.rank >= 2 && a.axis(1) == a.axis(2) && a.axis(1) >= 1);
        n = a.axis(1);
        dtype_ = a.dtype;
        count_ = a.batch(2);
        a_ = a.as<T>();
        return count_;
    }
    void read_constants(int at) {
        const View z = call_.argument(at);
        XlaCall::require(is_of_each(z, real_of(dtype_), 1, {n}));
        probe_ = Direction(z.as<R>(), n);
    }
    void read_entries(int) {}
    template <class Get> void read_factor(Get factor) {
        const View f = factor(0), whole = factor(1), real = factor(2);
        XlaCall::require(is_of_each(f, dtype_, count_, {n, n}) && is_of_each(whole, Dtype::i4, count_, {n + 1}) && is_of_each(real, real_of(dtype_), count_, {2 * n + 2}));
        f_ = f.as<T>();
        whole_ = whole.as<int>();
        real_ = real.as<R>();
    }
    double operations(const std::string& what, double columns) const { return what == "det" || what == "slogdet" || what == "logabsdet" ? n : double(n) * n * (what == "solve" ? columns : n); }
    int share(Index, int threads) const { return threads; }

    void make(Index i, Room& room) const {
        Factored<T>& own = place(i, room);
        R* found = real_ + i * (2 * n + 2);
        std::fill(own.pivots, own.pivots + n + 1, DECLINED);  // no result is left undefined
        std::fill(found, found + 2 * n + 2, R(0));
        if (!own.factor(a_ + i * n * n, kind_ != 'L', room.units, probe_, room)) {
            std::fill(own.f, own.f + n * n, T(0));
            return;
        }
        own.pivots[n] = (own.scales ? SCALED : UNSCALED) | (own.needs_row_errors ? NEEDS_ROW_ERRORS : 0);
        found[0] = own.by_rows;
        found[1] = own.by_columns;
        if (own.scales) std::copy(own.scales, own.scales + 2 * n, found + 2);
    }
    // Read the factor from its arrays; false if it was declined.
    bool find(Index i, Room& room) const {
        Factored<T>& own = place(i, room);
        const int state = own.pivots[n];
        const R* found = real_ + i * (2 * n + 2);
        if (state == DECLINED) return false;
        own.by_rows = found[0];
        own.by_columns = found[1];
        if (state & SCALED) own.scales = found + 2;
        own.needs_row_errors = state & NEEDS_ROW_ERRORS;
        return own.restore(a_ + i * n * n, kind_ != 'L', room.units);
    }
    static bool solve(Room& room, T* b, T* x, int k, char op) { return room.own.solve(b, x, k, op, room); }
    bool slogdet(T* sign, R* size, Room& room) const { return room.own.slogdet(sign, size, probe_, room); }
    bool det(T* d, Room& room) const { return room.own.det(d, probe_, room); }
    bool adjugate(T* x, Room& room) const { return room.own.adjugate(x, probe_, room); }
    bool inverse(T* x, char op, Room& room) const {
        if (!room.own.inverse(x, probe_, true, room)) return false;
        const bool conjugated = op == 'H' || op == 'C';
        if (op == 'T' || op == 'H')
            for (Index r = 0; r < n; r++)
                for (Index c = 0; c < r; c++) std::swap(x[r * n + c], x[c * n + r]);
        if (conjugated) conjugate(x, n * n);
        return true;
    }
    void add(Careful& asked, const View& a, const std::vector<Index>& which) const { asked.add(a, n, n, which); }

    Index n = 0;

  private:
    // The factor of matrix i, in the arrays of the program.
    Factored<T>& place(Index i, Room& room) const {
        room.own = Factored<T>();
        room.own.kind = kind_ == 'C' ? Kind::cholesky : Kind::lu;
        room.own.n = int(n);
        room.own.f = f_ + i * n * n;
        room.own.pivots = whole_ + i * (n + 1);
        return room.own;
    }
    const XlaCall& call_;
    const char kind_;
    Dtype dtype_ = Dtype::none;
    Index count_ = 0;
    const T* a_ = nullptr;
    T* f_ = nullptr;
    int* whole_ = nullptr;
    R* real_ = nullptr;
    Direction probe_;
};

xla::Error* xla_dense(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& call) {
        return with_floats(call.argument(0), [&](auto like) { return FactorCall<DenseProgram<decltype(like)>>(call).run(); });
    });
}
