// A program calls: matrices and right-hand sides in, factors, solutions, determinants out, in threads of our own and without Python.
// Members of the batch that are declined go the careful way, which takes the GIL, and answers or raises.
//
//     factor     A (*batch, n, n), the probe z (n,)   -> F (*batch, n, n), pivots and a state (*batch, n + 1), norms and scales (*batch, 2 n + 2)
//     compute    A, [b], these three, [z]             -> what is asked, flags
//     answer     as xla_stages.hpp says
#include "xla_handlers.hpp"

#include <cstring>
#include <string>

#include "checked/factored.hpp"
#include "kernels/crew.hpp"
#include "xla_solves.hpp"
#include "xla_stages.hpp"

enum State : int { DECLINED, AS_IT_IS, SCALED, IS_LOSSY = 4 };  // the last one beside another
constexpr Index WIDE = 64;         // right-hand sides of one matrix that are solved for together

// "what kind op form ... stage": what is asked, of which kind of matrix, of which view of it, b a vector or a matrix; compute or
// answer. The rest is for the careful way alone.
struct DenseRule {
    explicit DenseRule(const xla::Span& given) : text(given.start, given.length) {
        size_t end = text.find(' ');
        what = text.substr(0, end);
        if (end == std::string::npos || text.size() < end + 6) return;
        kind = text[end + 1];
        op = text[end + 3];
        form = text[end + 5];
    }
    bool is_whole() const {
        auto one_of = [](char c, const char* choices) { return c && std::strchr(choices, c); };
        return one_of(kind, "LCH") && one_of(op, "NTHC") && form && (what == "factor" || what == "solve" || what == "inverse" || what == "slogdet" || what == "logabsdet");
    }

    std::string text, what;
    char kind = 0, op = 0, form = 0;
};

template <class T> class DenseCall {
    using R = Real<T>;
    struct Room : Factored<T>::Work {
        std::vector<T> b, y;
        typename Factored<T>::Units units;
    };

  public:
    DenseCall(xla::Frame* frame, const DenseRule& rule) : frame_(frame), rule_(rule) {}

    xla::Error* run() {
        if (!read()) return xla::error(frame_, xla::INVALID_ARGUMENT, "ldiv: a call with other arguments than those of this version");
        if (stage_.is_answer) return stage_.is_answered() ? nullptr : careful(stage_.declined());
        double operations = double(n_) * n_ * (is_factor_ ? n_ : solves_.columns * solves_.of_each) * count_;
        std::vector<char> declined(is_solve_ ? solves_.count : count_, 0);
        bool done = each<Room>(count_, n_, xla_threads(operations), [&](Index i, Room& room) {
            if (is_factor_)
                make(i, room);
            else
                member(i, room, declined.data());
            return true;
        });
        if (!done) return xla::error(frame_, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a dense factorization");
        if (!is_factor_) stage_.write(declined);
        return nullptr;
    }

  private:
    const xla::Buffer& argument(int i) const { return *static_cast<const xla::Buffer*>(frame_->arguments.each[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_->results.each[i]); }
    template <class S> static S* data(const xla::Buffer& x) { return static_cast<S*>(x.data); }

    bool read() {
        is_factor_ = rule_.what == "factor";
        is_solve_ = rule_.what == "solve";
        const xla::Buffer& a = argument(0);
        if (a.rank < 2 || a.dims[a.rank - 1] != a.dims[a.rank - 2]) return false;
        n_ = int(a.dims[a.rank - 1]);
        if (n_ < 1) return false;
        count_ = batch_of(a, 2);
        a_ = data<T>(a);
        const int count = int(frame_->arguments.count), own = 1 + is_solve_;
        if (is_factor_) return count == 2 && frame_->results.count == 3 && read_factor([&](int i) -> const xla::Buffer& { return result(i); }) && read_probe(argument(1));
        if (!stage_.read(frame_, rule_.text, rule_.what == "slogdet" ? 2 : 1) || count < own) return false;
        const xla::DataType dtype = a.dtype, real = xla::real_of(dtype);
        if (is_solve_) {
            if (!solves_.read(a, 2, argument(1), result(0), rule_.form == 'v') || solves_.n != n_) return false;
        } else if (rule_.what == "inverse") {
            if (!is_of_each(result(0), dtype, count_, {n_, n_})) return false;
        } else {
            const bool has_sign = rule_.what == "slogdet";
            if ((has_sign && !is_of_each(result(0), dtype, count_, {})) || !is_of_each(result(has_sign), real, count_, {})) return false;
        }
        if (!stage_.read_flags(own, is_solve_ ? solves_.count : count_)) return false;
        if (stage_.is_answer) return true;
        if (count != own + 3 + !is_solve_ || !read_factor([&](int i) -> const xla::Buffer& { return argument(own + i); })) return false;
        return is_solve_ || read_probe(argument(count - 1));
    }

    bool read_probe(const xla::Buffer& z) {
        if (!is_of_each(z, xla::real_of(argument(0).dtype), 1, {n_})) return false;
        probe_.z.assign(data<R>(z), data<R>(z) + n_);
        for (double x : probe_.z) probe_.size += std::fabs(x);
        return true;
    }

    template <class Get> bool read_factor(Get factor) {
        const xla::DataType dtype = argument(0).dtype;
        if (!is_of_each(factor(0), dtype, count_, {n_, n_}) || !is_of_each(factor(1), xla::S32, count_, {n_ + 1}) || !is_of_each(factor(2), xla::real_of(dtype), count_, {2 * n_ + 2})) return false;
        f_ = data<T>(factor(0));
        whole_ = data<int>(factor(1));
        real_ = data<R>(factor(2));
        return true;
    }

    // Where the factor of matrix i is.
    Factored<T> place(Index i) const {
        Factored<T> own;
        own.kind = rule_.kind == 'C' ? Kind::cholesky : Kind::lu;
        own.n = n_;
        own.f = f_ + i * n_ * n_;
        own.pivots = whole_ + i * (n_ + 1);
        return own;
    }
    bool is_hermitian() const { return rule_.kind != 'L'; }

    void make(Index i, Room& room) const {
        Factored<T> own = place(i);
        int& state = own.pivots[n_];
        R* found = real_ + i * (2 * n_ + 2);
        std::fill(own.pivots, own.pivots + n_ + 1, DECLINED);  // no result is left undefined
        std::fill(found, found + 2 * n_ + 2, R(0));
        if (!own.factor(a_ + i * n_ * n_, is_hermitian(), room.units, probe_, room)) {
            std::fill(own.f, own.f + Index(n_) * n_, T(0));
            return;
        }
        state = (own.scales ? SCALED : AS_IT_IS) | (own.lossy ? IS_LOSSY : 0);
        found[0] = own.by_rows;
        found[1] = own.by_columns;
        if (own.scales) std::copy(own.scales, own.scales + 2 * n_, found + 2);
    }

    // The factor that was made, unless it was declined.
    bool read(Index i, Factored<T>& own, Room& room) const {
        const int state = own.pivots[n_];
        const R* found = real_ + i * (2 * n_ + 2);
        if (state == DECLINED) return false;
        own.by_rows = found[0];
        own.by_columns = found[1];
        if (state & SCALED) own.scales = found + 2;
        own.lossy = state & IS_LOSSY;
        return own.restore(a_ + i * n_ * n_, is_hermitian(), room.units);
    }

    // One matrix, and all that is asked of it.
    void member(Index i, Room& room, char* declined) const {
        Factored<T> own = place(i);
        bool accepted = read(i, own, room);
        if (is_solve_) {
            if (!solves_.columns) return;
            const Index step = solves_.step(WIDE);
            for (Index p = solves_.first(i), last = solves_.first(i + 1); p < last; p += step) {
                Index end = std::min(p + step, last);
                if (!accepted || !solve(own, p, end, room))
                    for (Index q = p; q < end; q++) declined[solves_.out(q)] = 1;
            }
        } else if (rule_.what == "inverse")
            declined[i] = !(accepted && inverse(own, data<T>(result(0)) + i * n_ * n_, room));
        else
            declined[i] = !(accepted && slogdet(own, i, room));
    }

    bool solve(const Factored<T>& own, Index first, Index last, Room& room) const {
        Index k = (last - first) * solves_.columns, each = Index(n_) * solves_.columns;
        char op = rule_.op == 'C' ? 'N' : rule_.op;
        room.b.resize(n_ * k);
        room.y.resize(n_ * k);
        for (Index p = first; p < last; p++) transpose_rows(solves_.right(solves_.out(p)), room.b.data() + (p - first) * each, n_, solves_.columns);
        if (rule_.op == 'C') conjugate(room.b);
        if (!own.solve(room.b.data(), room.y.data(), int(k), op, true, room)) return false;
        if (rule_.op == 'C') conjugate(room.y);
        for (Index p = first; p < last; p++) transpose_columns(room.y.data() + (p - first) * each, solves_.solution(solves_.out(p)), n_, solves_.columns);
        return true;
    }
    static void conjugate(std::vector<T>& x) {
        for (T& value : x) value = conj_of(value);
    }

    bool inverse(const Factored<T>& own, T* x, Room& room) const {
        if (!own.inverse(x, probe_, true, room)) return false;
        for (int r = 0; rule_.op == 'T' || rule_.op == 'H' ? r < n_ : false; r++)
            for (int c = 0; c < r; c++) std::swap(x[Index(r) * n_ + c], x[Index(c) * n_ + r]);
        if (rule_.op == 'H' || rule_.op == 'C')
            for (Index j = 0; j < Index(n_) * n_; j++) x[j] = conj_of(x[j]);
        return true;
    }

    bool slogdet(const Factored<T>& own, Index i, Room& room) const {
        T sign;
        R size;
        if (!own.slogdet(&sign, &size, probe_, room)) return false;
        if (rule_.form == 'p' && !is_one(sign, n_)) return false;
        if (rule_.what == "slogdet") data<T>(result(0))[i] = rule_.op == 'H' || rule_.op == 'C' ? conj_of(sign) : sign;
        data<R>(result(int(rule_.what == "slogdet")))[i] = size;
        return true;
    }

    // -- what was declined ---------------------------------------------------------------------------

    xla::Error* careful(const std::vector<char>& declined) const {
        if (is_solve_)
            return solves_.careful(frame_, rule_.text, declined, [&](Careful& call, const std::vector<Index>& which) { call.add<T>(a_, which, n_, n_); });
        std::vector<Index> which;
        for (Index i = 0; i < count_; i++)
            if (declined[i]) which.push_back(i);
        if (which.empty()) return nullptr;
        Careful call(frame_, rule_.text);
        Index size = Index(n_) * n_;
        call.add<T>(a_, which, n_, n_);
        if (rule_.what != "logabsdet") call.result(data<T>(result(0)), which, rule_.what == "inverse" ? size : 1);
        if (rule_.what != "inverse") call.result(data<R>(result(int(rule_.what == "slogdet"))), which, 1);
        return call.run(Index(which.size()));
    }

    xla::Frame* frame_;
    const DenseRule& rule_;
    Stage stage_;
    bool is_factor_ = false, is_solve_ = false;
    int n_ = 0;
    Index count_ = 0;
    Solves<T> solves_;
    const T* a_ = nullptr;
    T* f_ = nullptr;
    int* whole_ = nullptr;
    R* real_ = nullptr;
    Direction probe_;
};

xla::Error* xla_dense(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const xla::Attributes& told = frame->attributes;
    bool is_told = told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 2 && frame->results.count >= 1;
    DenseRule rule(is_told ? *static_cast<xla::Span*>(told.each[0]) : xla::Span{"", 0});
    if (rule.is_whole()) switch (static_cast<xla::Buffer*>(frame->arguments.each[0])->dtype) {
        case xla::F32: return DenseCall<float>(frame, rule).run();
        case xla::F64: return DenseCall<double>(frame, rule).run();
        case xla::C64: return DenseCall<std::complex<float>>(frame, rule).run();
        case xla::C128: return DenseCall<std::complex<double>>(frame, rule).run();
        default: break;
    }
    return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
}
