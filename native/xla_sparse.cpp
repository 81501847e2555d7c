// op(A) x = b, det A and entries of A^-1 for sparse matrices with one pattern, in threads of our own and without Python: factor, looks
// and what is asked in one call. Members of the batch that are declined go the careful way, which takes the GIL, and answers or raises.
//
//     rule       "sparse what kind op form n name ..."; a pattern is analysed once for its name, and the rest is for the careful way alone
//     arguments  values of A (*batch, entries), [b], [a factor that was made before], rows and columns of the entries (2, entries), [of Cholesky the order of elimination (n,)], the probe z (n,)
//     results    what is asked, [the factor: three arrays (*batch, ...), as checked_lu.cpp and checked_cholesky.cpp say; written where the rule ends with "made"]
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

#include "crew.hpp"
#include "program_factors.hpp"
#include "xla_solves.hpp"

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
        is_known = is_known && (what == "solve" || what == "slogdet" || what == "logabsdet" || what == "entries");
        by = text.substr(text.rfind(' ') + 1);
        op = own_op[0];
        form = own_form[0];
    }
    Index results() const { return what == "slogdet" ? 2 : 1; }
    std::string text, what, name, by;
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
        std::vector<T> b, y;
    };

  public:
    SparseCall(xla::Frame* frame, const SparseRule& rule) : frame_(frame), rule_(rule) {}

    xla::Error* run() {
        if (!read()) return xla::error(frame_, xla::INVALID_ARGUMENT, "ldiv: a call with other arguments than those of this version");
        double asked = is_solve_ ? Factors::entries(*pattern_) * solves_.of_each * solves_.columns : rule_.what == "entries" ? 4 * Factors::operations(*pattern_) : 0;
        std::vector<char> declined(is_solve_ ? solves_.count : count_, 0);
        int threads = xla_threads(double(count_) * (asked + (is_given_ ? 0 : Factors::operations(*pattern_))));
        inner_threads_ = count_ == 1 && Factors::entries(*pattern_) >= LARGE ? threads : 1;
        bool done = each<Room>(count_, rule_.n, threads, [&](Index i, Room& room) {
            member(i, room, declined.data());
            if (Factors::is_interrupted(room.factor)) is_interrupted_ = true;
            return !is_interrupted_;
        });
        if (!done) return is_interrupted_ ? xla_interrupted(frame_) : xla::error(frame_, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a sparse factorization");
        if (is_solve_) xla_solves += size_t(std::count(declined.begin(), declined.end(), 0));
        return careful(declined);
    }

  private:
    const xla::Buffer& argument(int i) const { return *static_cast<const xla::Buffer*>(frame_->arguments.each[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_->results.each[i]); }
    template <class S> static S* data(const xla::Buffer& x) { return static_cast<S*>(x.data); }

    bool read() {
        is_solve_ = rule_.what == "solve";
        const int arguments = int(frame_->arguments.count), results = int(frame_->results.count), own = 1 + is_solve_, given = int(rule_.results()), constants = 2 + Factors::has_order;
        const bool has_factor = results == given + 3;
        is_given_ = arguments == own + 3 + constants;
        is_made_ = has_factor && rule_.by == "made";
        if ((arguments != own + constants && !is_given_) || (results != given && !has_factor)) return false;
        const xla::Buffer &a = argument(0), &places = argument(arguments - constants), &probe = argument(arguments - 1);
        const xla::DataType dtype = a.dtype, real = xla::real_of(dtype);
        if (a.rank < 1) return false;
        entries_ = Index(a.dims[a.rank - 1]);
        count_ = batch_of(a, 1);
        values_ = data<T>(a);
        if (!is_of_each(places, xla::S32, 1, {2, entries_}) || !is_of_each(probe, real, 1, {rule_.n})) return false;
        places_ = data<int>(places);
        order_ = nullptr;
        if (Factors::has_order) {
            if (!is_of_each(argument(arguments - 2), xla::S32, 1, {rule_.n}) || (rule_.op != 'N' && rule_.op != 'C')) return false;
            order_ = data<int>(argument(arguments - 2));
        }
        if (is_solve_) {
            if (!solves_.read(a, 1, argument(1), result(0), rule_.form == 'v') || solves_.n != rule_.n) return false;
        } else if (rule_.what == "entries") {
            if (!is_of_each(result(0), dtype, count_, {entries_})) return false;
        } else {
            if (!is_of_each(result(given - 1), real, count_, {}) || (given == 2 && !is_of_each(result(0), dtype, count_, {}))) return false;
        }
        return analyse(data<R>(probe)) && (!(is_given_ || is_made_) || read_factor(own, given, dtype, real));
    }

    bool read_factor(int own, int given, xla::DataType dtype, xla::DataType real) {
        auto factor = [&](int i) -> const xla::Buffer& { return is_given_ ? argument(own + i) : result(given + i); };
        const xla::Buffer &whole = factor(0), &numbers = factor(1);
        if (whole.rank < 1 || numbers.rank < 1) return false;
        whole_size_ = Index(whole.dims[whole.rank - 1]);
        numbers_size_ = Index(numbers.dims[numbers.rank - 1]);
        if (!is_of_each(whole, xla::S32, count_, {whole_size_}) || !is_of_each(numbers, dtype, count_, {numbers_size_}) || !is_of_each(factor(2), real, count_, {2})) return false;
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
        bool accepted = obtain(i, room);
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

    bool obtain(Index i, Room& room) const {
        const T* values = values_ + i * entries_;
        if (!is_given_ && !is_made_) return factor(values, room);
        int* whole = whole_ + i * whole_size_;
        T* numbers = numbers_ + i * numbers_size_;
        R* real = real_ + 2 * i;
        if (is_given_) return room.factor.read(*pattern_, values, whole, numbers, real, room.work) || factor(values, room);
        bool accepted = factor(values, room, numbers);
        if (accepted)
            Factors::write(room.factor, *pattern_, numbers_size_, whole, numbers, real);
        else
            Factors::write_nothing(*pattern_, numbers_size_, whole, numbers, real);
        return accepted;
    }

    // `numbers`: those of the factor's array, if it is to be one.
    bool factor(const T* values, Room& room, T* numbers = nullptr) const {
        bool accepted = Factors::factor(room.factor, *pattern_, values, *named_, inner_threads_, room.work, numbers);
        xla_factorizations += accepted;
        return accepted;
    }

    bool solve(Index first, Index last, Room& room) const {
        int columns = solves_.columns;
        Index n = rule_.n, k = (last - first) * columns;
        bool conjugated = rule_.op == 'C' && Scalar<T>::is_complex, as_it_is = last - first == 1 && !conjugated;
        char op = rule_.op == 'C' ? 'N' : rule_.op;
        if (as_it_is) return room.factor.solve(solves_.right(solves_.out(first)), solves_.solution(solves_.out(first)), columns, op, !is_given_, room.work);
        room.b.resize(n * k);
        room.y.resize(n * k);
        auto each_number = [&](auto f) {
            for (Index p = first; p < last; p++)
                for (Index r = 0; r < n; r++)
                    for (Index c = 0; c < columns; c++) f(solves_.out(p), r * columns + c, r * k + (p - first) * columns + c);
        };
        auto turned = [&](T z) { return conjugated ? conj_of(z) : z; };
        each_number([&](Index o, Index from, Index to) { room.b[to] = turned(solves_.right(o)[from]); });
        if (!room.factor.solve(room.b.data(), room.y.data(), int(k), op, !is_given_, room.work)) return false;
        each_number([&](Index o, Index to, Index from) { solves_.solution(o)[to] = turned(room.y[from]); });
        return true;
    }

    // Of one matrix: what is no solution.
    bool answer(Index i, Room& room) const {
        if (rule_.what == "entries") return Factors::inverse_entries(room.factor, data<T>(result(0)) + i * entries_, inner_threads_, room.work);
        T sign;
        R size;
        if (!room.factor.slogdet(&sign, &size)) return false;
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
    bool is_solve_ = false, is_given_ = false, is_made_ = false;
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
        bool is_told = told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 3 && frame->results.count >= 1;
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
