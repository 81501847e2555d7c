// op(A) x = b, det A and entries of A^-1 for sparse matrices with one pattern, in threads of our own and without Python. Members of
// the batch that are declined go the careful way, which takes the GIL, and answers or raises.
//
//     rule       "sparse what kind op form n name ... stage"; a pattern is analysed once for its name, and the rest is for the careful way alone
//     factor     values of A (*batch, entries), the pattern -> three arrays (*batch, ...), as checked_lu.cpp and checked_cholesky.cpp say
//     compute    values, [b], these three, the pattern      -> what is asked, flags
//     answer     as xla_stages.hpp says, with rows and columns before where it stands
//     pattern    rows and columns of the entries (2, entries), [of Cholesky the order of elimination (n,)], the probe z (n,)
//
//     kind       L: LU; H, T: Cholesky, of the Hermitian or the symmetric part
//     what       results             form
//     solve      x                   v or m: a vector, or a matrix of right-hand sides
//     slogdet    sign, log |det A|   p: declined unless det A is positive
//     logabsdet  log |det A|
//     entries    conj (A^-1)_ji for each entry (i, j) of A (*batch, entries)
#include "xla_handlers.hpp"

#include <sstream>
#include <stdexcept>

#include "kernels/crew.hpp"
#include "program_factors.hpp"
#include "xla_solves.hpp"
#include "xla_stages.hpp"

constexpr Index WIDE = 8;      // right-hand sides of one matrix that are solved for together
constexpr double LARGE = 1e5;  // numbers in a factor from which a second thread is worth its start

struct SparseRule {
    explicit SparseRule(const xla::Span& given) : text(given.start, given.length) {
        std::istringstream words(text);
        std::string sparse, own_kind, own_op, own_form;
        words >> sparse >> what >> own_kind >> own_op >> own_form >> n >> name;
        is_known = words && sparse == "sparse" && own_kind.size() == 1 && own_op.size() == 1 && own_form.size() == 1 && n > 0 && n < INT32_MAX;
        kind = own_kind[0];
        is_known = is_known && (kind == 'L' || kind == 'H' || kind == 'T');
        is_known = is_known && (what == "factor" || what == "solve" || what == "slogdet" || what == "logabsdet" || what == "entries");
        op = own_op[0];
        form = own_form[0];
    }
    int results() const { return what == "slogdet" ? 2 : 1; }
    std::string text, what, name;
    bool is_known = false;
    char kind = 0, op = 0, form = 0;
    bool is_conjugated() const { return op == 'H' || op == 'C'; }
    Index n = 0;
};

template <class T, class Factors> class SparseCall {
    using R = Real<T>;
    using Pattern = typename Factors::Pattern;
    struct Room {
        typename Factors::Checked::Work work;
        typename Factors::Checked factor;
        std::shared_ptr<const typename Factors::Checked> held;  // instead of that, if there is one
        std::vector<T> b, y;
        const typename Factors::Checked& found() const { return held ? *held : factor; }
    };

  public:
    SparseCall(xla::Frame* frame, const SparseRule& rule) : frame_(frame), rule_(rule) {}

    xla::Error* run() {
        if (!read()) return xla::error(frame_, xla::INVALID_ARGUMENT, "ldiv: a call with other arguments than those of this version");
        if (stage_.is_answer) return stage_.is_answered() ? nullptr : careful(stage_.declined());
        const double once = is_solve_ ? Factors::entries(*pattern_) * solves_.of_each * solves_.columns : is_factor_ ? Factors::operations(*pattern_) : rule_.what == "entries" ? 4 * Factors::operations(*pattern_) : 0;
        std::vector<char> declined(is_solve_ ? solves_.count : count_, 0);
        const int threads = xla_threads(double(count_) * once);
        inner_threads_ = count_ == 1 && Factors::entries(*pattern_) >= LARGE ? threads : 1;
        bool done = each<Room>(count_, rule_.n, threads, [&](Index i, Room& room) {
            if (is_factor_)
                make(i, room);
            else
                member(i, room, declined.data());
            if (Factors::is_interrupted(room.found())) is_interrupted_ = true;
            return !is_interrupted_;
        });
        if (!done) return is_interrupted_ ? xla_interrupted(frame_) : xla::error(frame_, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a sparse factorization");
        if (is_solve_) xla_solves += size_t(std::count(declined.begin(), declined.end(), 0));
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
        const int arguments = int(frame_->arguments.count), own = 1 + is_solve_, constants = 2 + Factors::has_order;
        const xla::Buffer& a = argument(0);
        const xla::DataType dtype = a.dtype, real = xla::real_of(dtype);
        if (a.rank < 1) return false;
        entries_ = Index(a.dims[a.rank - 1]);
        count_ = batch_of(a, 1);
        values_ = data<T>(a);
        if (Factors::has_order && rule_.op != 'N' && rule_.op != 'C') return false;
        if (is_factor_) return arguments == 1 + constants && frame_->results.count == 3 && read_pattern(1) && read_factor([&](int i) -> const xla::Buffer& { return result(i); });
        const int given = rule_.results();
        if (!stage_.read(frame_, rule_.text, given) || arguments < own) return false;
        if (is_solve_) {
            if (!solves_.read(a, 1, argument(1), result(0), rule_.form == 'v') || solves_.n != rule_.n) return false;
        } else if (rule_.what == "entries") {
            if (!is_of_each(result(0), dtype, count_, {entries_})) return false;
        } else {
            if (!is_of_each(result(given - 1), real, count_, {}) || (given == 2 && !is_of_each(result(0), dtype, count_, {}))) return false;
        }
        if (!stage_.read_flags(own, is_solve_ ? solves_.count : count_)) return false;
        const int before = stage_.arguments(own);
        if (stage_.is_answer) return arguments > before && read_places(argument(before));
        return arguments == own + 3 + constants && read_pattern(own + 3) && read_factor([&](int i) -> const xla::Buffer& { return argument(own + i); });
    }

    bool read_places(const xla::Buffer& places) {
        places_ = data<int>(places);
        return is_of_each(places, xla::S32, 1, {2, entries_});
    }

    // The arguments that begin at this one.
    bool read_pattern(int at) {
        const xla::Buffer& probe = argument(at + 1 + Factors::has_order);
        if (!read_places(argument(at)) || !is_of_each(probe, xla::real_of(argument(0).dtype), 1, {rule_.n})) return false;
        order_ = nullptr;
        if (Factors::has_order) {
            if (!is_of_each(argument(at + 1), xla::S32, 1, {rule_.n})) return false;
            order_ = data<int>(argument(at + 1));
        }
        return analyse(data<R>(probe));
    }

    template <class Get> bool read_factor(Get factor) {
        const xla::DataType dtype = argument(0).dtype;
        const xla::Buffer &whole = factor(0), &numbers = factor(1);
        if (whole.rank < 1 || numbers.rank < 1) return false;
        whole_size_ = Index(whole.dims[whole.rank - 1]);
        numbers_size_ = Index(numbers.dims[numbers.rank - 1]);
        if (!is_of_each(whole, xla::S32, count_, {whole_size_}) || !is_of_each(numbers, dtype, count_, {numbers_size_}) || !is_of_each(factor(2), xla::real_of(dtype), count_, {2})) return false;
        whole_ = data<int>(whole);
        numbers_ = data<T>(numbers);
        real_ = data<R>(factor(2));
        return Factors::fits(*pattern_, whole_size_, numbers_size_);
    }

    // The pattern, which may be another program's, or is analysed now.
    bool analyse(const R* probe) {
        named_ = program_pattern(rule_.name);
        if (!named_) {
            for (Index e = 0; e < 2 * entries_; e++)
                if (places_[e] < 0 || places_[e] >= rule_.n) return false;
            auto made = Factors::pattern(Row(rule_.n), places_, entries_, order_);
            made->probe = std::make_shared<Direction>(probe, rule_.n);
            named_ = add_program_pattern(rule_.name, std::move(made));
        }
        pattern_ = dynamic_cast<const Pattern*>(named_->pattern.get());
        return pattern_ && pattern_->columns().size() == rule_.n && Index(pattern_->rows.size()) == entries_;
    }

    // One matrix, and all that is asked of it.
    void member(Index i, Room& room, char* declined) const {
        bool accepted = read(i, room);
        if (!is_solve_) {
            declined[i] = !(accepted && answer(i, room));
            return;
        }
        if (!solves_.columns) return;
        const Index step = solves_.step(WIDE);
        for (Index p = solves_.first(i), last = solves_.first(i + 1); p < last; p += step) {
            Index end = std::min(p + step, last);
            if (accepted && solve(p, end, room)) continue;
            for (Index q = p; q < end; q++) declined[solves_.out(q)] = 1;
        }
    }

    void make(Index i, Room& room) const {
        int* whole = whole_ + i * whole_size_;
        T* numbers = numbers_ + i * numbers_size_;
        R* real = real_ + 2 * i;
        if (!factor(i, room, numbers))
            Factors::write_nothing(*pattern_, numbers_size_, whole, numbers, real);
        else
            Factors::write(room.factor, *pattern_, *named_, numbers_size_, whole, numbers, real);
    }

    // The factor that was made, unless it was declined; anew if it was held and is no more.
    bool read(Index i, Room& room) const {
        const int* whole = whole_ + i * whole_size_;
        const Found found = Factors::read(room.factor, room.held, *pattern_, *named_, values_ + i * entries_, whole, numbers_ + i * numbers_size_, real_ + 2 * i, room.work);
        return found == Found::lost ? factor(i, room) : found == Found::here;
    }

    // `numbers`: those of the factor's array, if it is to be one.
    bool factor(Index i, Room& room, T* numbers = nullptr) const {
        bool accepted = Factors::factor(room.factor, *pattern_, values_ + i * entries_, *named_, inner_threads_, room.work, numbers);
        xla_factorizations += accepted;
        return accepted;
    }

    bool solve(Index first, Index last, Room& room) const {
        int columns = solves_.columns;
        Index n = rule_.n, k = (last - first) * columns;
        bool conjugated = rule_.op == 'C' && Scalar<T>::is_complex, as_it_is = last - first == 1 && !conjugated;
        char op = rule_.op == 'C' ? 'N' : rule_.op;
        if (as_it_is) return room.found().solve(solves_.right(solves_.out(first)), solves_.solution(solves_.out(first)), columns, op, true, room.work);
        room.b.resize(n * k);
        room.y.resize(n * k);
        auto each_number = [&](auto f) {
            for (Index p = first; p < last; p++)
                for (Index r = 0; r < n; r++)
                    for (Index c = 0; c < columns; c++) f(solves_.out(p), r * columns + c, r * k + (p - first) * columns + c);
        };
        auto turned = [&](T z) { return conjugated ? conj_of(z) : z; };
        each_number([&](Index o, Index from, Index to) { room.b[to] = turned(solves_.right(o)[from]); });
        if (!room.found().solve(room.b.data(), room.y.data(), int(k), op, true, room.work)) return false;
        each_number([&](Index o, Index to, Index from) { solves_.solution(o)[to] = turned(room.y[from]); });
        return true;
    }

    // Of one matrix: what is no solution.
    bool answer(Index i, Room& room) const {
        if (rule_.what == "entries") return Factors::inverse_entries(room.found(), data<T>(result(0)) + i * entries_, inner_threads_, room.work);
        T sign;
        R size;
        if (!room.found().slogdet(&sign, &size)) return false;
        if (rule_.form == 'p' && !is_one(sign, rule_.n)) return false;
        if (rule_.what == "slogdet") data<T>(result(0))[i] = rule_.is_conjugated() ? conj_of(sign) : sign;
        data<R>(result(int(rule_.results()) - 1))[i] = size;
        return true;
    }

    xla::Error* careful(const std::vector<char>& declined) const {
        auto add = [&](Careful& call, const std::vector<Index>& which) {
            call.add<T>(values_, which, 1, entries_);
            call.entries(places_, entries_);
        };
        if (is_solve_) return solves_.careful(frame_, rule_.text, declined, add);
        std::vector<Index> which;
        for (Index i = 0; i < count_; i++)
            if (declined[i]) which.push_back(i);
        if (which.empty()) return nullptr;
        Careful call(frame_, rule_.text);
        add(call, which);
        if (rule_.what == "entries") call.result(data<T>(result(0)), which, entries_);
        if (rule_.what == "slogdet") call.result(data<T>(result(0)), which, 1);
        if (rule_.what != "entries") call.result(data<R>(result(int(rule_.results()) - 1)), which, 1);
        return call.run(Index(which.size()));
    }

    xla::Frame* frame_;
    const SparseRule& rule_;
    Solves<T> solves_;
    std::shared_ptr<ProgramPattern> named_;
    const Pattern* pattern_ = nullptr;
    Stage stage_;
    bool is_factor_ = false, is_solve_ = false;
    std::atomic<bool> is_interrupted_{false};
    int inner_threads_ = 1;
    Index count_ = 0, entries_ = 0, whole_size_ = 0, numbers_size_ = 0;
    const T* values_ = nullptr;
    const int *places_ = nullptr, *order_ = nullptr;
    int* whole_ = nullptr;
    T* numbers_ = nullptr;
    R* real_ = nullptr;
};

template <class T> static xla::Error* run(xla::Frame* frame, const SparseRule& rule) {
    return rule.kind == 'L' ? SparseCall<T, ProgramLu<T>>(frame, rule).run() : SparseCall<T, ProgramCholesky<T>>(frame, rule).run();
}

xla::Error* xla_sparse(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const xla::Attributes& told = frame->attributes;
    try {
        bool is_told = told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 2 && frame->results.count >= 1;
        SparseRule rule(is_told ? *static_cast<xla::Span*>(told.each[0]) : xla::Span{"", 0});
        if (rule.is_known) switch (static_cast<xla::Buffer*>(frame->arguments.each[0])->dtype) {
            case xla::F32: return run<float>(frame, rule);
            case xla::F64: return run<double>(frame, rule);
            case xla::C64: return run<std::complex<float>>(frame, rule);
            case xla::C128: return run<std::complex<double>>(frame, rule);
            default: break;
        }
    } catch (const std::invalid_argument& error) {  // the order is none
        return xla::error(frame, xla::INVALID_ARGUMENT, error.what());
    } catch (const std::bad_alloc&) {
        return xla::error(frame, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a sparse factorization");
    }
    return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
}
