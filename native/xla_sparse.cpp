// op(A) x = b, det A and entries of A^-1 for sparse matrices with one pattern, in threads of our own and without Python: factor, looks
// and what is asked in one call. Members of the batch that are declined go the careful way, which takes the GIL, and answers or raises.
//
//     rule       "sparse what op form n name ..."; a pattern is analysed once for its name, and the rest is for the careful way alone
//     arguments  values of A (*batch, entries), [b], [a factor that was made before], rows and columns of the entries (2, entries), the probe z (n,)
//     results    what is asked, [the factor: three arrays (*batch, ...), as checked_lu.cpp says; written where the rule ends with "made"]
//
//     what       results             form
//     solve      x                   v or m: a vector, or a matrix of right-hand sides
//     slogdet    sign, log |det A|   p: declined unless det A is positive
//     logabsdet  log |det A|
//     entries    conj (A^-1)_ji for each entry (i, j) of A (*batch, entries)
#include "xla_handlers.hpp"

#include <sstream>

#include "checked_lu.hpp"
#include "crew.hpp"
#include "program_patterns.hpp"
#include "xla_solves.hpp"

constexpr Index WIDE = 8;  // right-hand sides of one matrix that are solved for together

struct SparseRule {
    explicit SparseRule(const xla::Span& given) : text(given.start, given.length) {
        std::istringstream words(text);
        std::string sparse, own_op, own_form;
        words >> sparse >> what >> own_op >> own_form >> n >> name;
        is_known = words && sparse == "sparse" && own_op.size() == 1 && own_form.size() == 1 && n > 0 && n < INT32_MAX;
        is_known = is_known && (what == "solve" || what == "slogdet" || what == "logabsdet" || what == "entries");
        by = text.substr(text.rfind(' ') + 1);
        op = own_op[0];
        form = own_form[0];
    }
    Index results() const { return what == "slogdet" ? 2 : 1; }
    std::string text, what, name, by;
    bool is_known = false;
    char op = 0, form = 0;
    Index n = 0;
};

template <class T> class SparseCall {
    using R = Real<T>;
    struct Room {
        typename CheckedLu<T>::Work work;
        CheckedLu<T> factor;
        std::vector<T> b, y;
    };

  public:
    SparseCall(xla::Frame* frame, const SparseRule& rule) : frame_(frame), rule_(rule) {}

    xla::Error* run() {
        if (!read()) return xla::error(frame_, xla::INVALID_ARGUMENT, "ldiv: a call with other arguments than those of this version");
        const LuAnalysis& a = pattern_->pattern->lu;
        double asked = is_solve_ ? a.entries * solves_.of_each * solves_.columns : rule_.what == "entries" ? 4 * a.operations : 0;
        std::vector<char> declined(is_solve_ ? solves_.count : count_, 0);
        double operations = double(count_) * (asked + (is_given_ ? 0 : a.operations));
        bool done = each<Room>(count_, xla_threads(operations), [&](Index i, Room& room) {
            member(i, room, declined.data());
            return true;
        });
        if (!done) return xla::error(frame_, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a sparse factorization");
        if (is_solve_) xla_solves += size_t(std::count(declined.begin(), declined.end(), 0));
        return careful(declined);
    }

  private:
    const xla::Buffer& argument(int i) const { return *static_cast<const xla::Buffer*>(frame_->arguments.each[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_->results.each[i]); }

    bool read() {
        is_solve_ = rule_.what == "solve";
        const int arguments = int(frame_->arguments.count), results = int(frame_->results.count), own = 1 + is_solve_, given = int(rule_.results());
        is_given_ = arguments == own + 5;
        const bool has_factor = results == given + 3;
        is_made_ = has_factor && rule_.by == "made";
        if ((arguments != own + 2 && !is_given_) || (results != given && !has_factor)) return false;
        const xla::Buffer &a = argument(0), &places = argument(arguments - 2), &probe = argument(arguments - 1);
        if (a.rank < 1) return false;
        entries_ = Index(a.dims[a.rank - 1]);
        count_ = batch_of(a, 1);
        if (is_solve_) {
            if (!solves_.read(a, 1, argument(1), result(0), rule_.form == 'v') || solves_.n != rule_.n) return false;
        } else {
            for (int i = 0; i < given; i++)
                if (batch_of(result(i), 0) != (rule_.what == "entries" ? count_ * entries_ : count_)) return false;
        }
        values_ = static_cast<const T*>(a.data);
        if (places.dtype != xla::S32 || places.rank != 2 || places.dims[0] != 2 || places.dims[1] != entries_) return false;
        if (probe.rank != 1 || probe.dims[0] != rule_.n) return false;
        places_ = static_cast<const int*>(places.data);
        if (is_given_ || is_made_) {
            auto factor = [&](int i) -> const xla::Buffer& { return is_given_ ? argument(own + i) : result(given + i); };
            const xla::Buffer &whole = factor(0), &numbers = factor(1), &real = factor(2);
            for (const xla::Buffer* x : {&whole, &numbers, &real})
                if (x->rank < 1 || batch_of(*x, 1) != count_) return false;
            room_ = Index(numbers.dims[numbers.rank - 1]) - rule_.n;
            if (room_ < 0 || whole.dims[whole.rank - 1] != CheckedLu<T>::whole_size(rule_.n, room_) || real.dims[real.rank - 1] != 2) return false;
            if (whole.dtype != xla::S32 || numbers.dtype != a.dtype) return false;
            whole_ = static_cast<int*>(whole.data);
            numbers_ = static_cast<T*>(numbers.data);
            real_ = static_cast<R*>(real.data);
        }
        return analyse(static_cast<const R*>(probe.data));
    }

    // The pattern, which may be another program's, or is analysed now.
    bool analyse(const R* probe) {
        pattern_ = program_pattern(rule_.name);
        if (!pattern_) {
            for (Index e = 0; e < 2 * entries_; e++)
                if (places_[e] < 0 || places_[e] >= rule_.n) return false;
            auto made = std::make_shared<SparsePattern>(Row(rule_.n), places_, places_ + entries_, entries_);
            auto direction = std::make_shared<Direction>();
            direction->z.assign(probe, probe + rule_.n);
            for (double z : direction->z) direction->size += std::fabs(z);
            made->probe = std::move(direction);
            pattern_ = add_program_pattern(rule_.name, std::move(made));
        }
        const SparsePattern& own = *pattern_->pattern;
        return own.lu.n == rule_.n && Index(own.rows.size()) == entries_;
    }

    // One matrix, and all that is asked of it.
    void member(Index i, Room& room, char* declined) const {
        bool accepted = obtain(i, room);
        if (!is_solve_) {
            declined[i] = !(accepted && answer(i, room));
            return;
        }
        Index step = std::max<Index>(1, WIDE / solves_.columns);
        for (Index p = solves_.first(i), last = solves_.first(i + 1); p < last; p += step) {
            Index end = std::min(p + step, last);
            if (accepted && solve(p, end, room)) continue;
            for (Index q = p; q < end; q++) declined[solves_.out(q)] = 1;
        }
    }

    bool obtain(Index i, Room& room) const {
        const T* values = values_ + i * entries_;
        if (!is_given_ && !is_made_) return factor(values, room);
        int* whole = whole_ + i * CheckedLu<T>::whole_size(rule_.n, room_);
        T* numbers = numbers_ + i * CheckedLu<T>::numbers_size(rule_.n, room_);
        R* real = real_ + 2 * i;
        if (is_given_) return room.factor.read(*pattern_->pattern, values, whole, numbers, real, room.work) || factor(values, room);
        bool accepted = factor(values, room);
        if (accepted)
            room.factor.write(room_, whole, numbers, real);
        else
            CheckedLu<T>::write_nothing(rule_.n, room_, whole, numbers, real);
        return accepted;
    }

    bool factor(const T* values, Room& room) const {
        if (pattern_->pattern->lu.is_singular) return false;
        std::shared_ptr<const Pivots> before = pattern_->kept(DTYPE), kept = before;
        bool accepted = room.factor.factor(*pattern_->pattern, values, false, kept, room.work);
        if (kept != before) pattern_->keep(DTYPE, kept);
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
        if (rule_.what == "entries") return room.factor.inverse_entries(static_cast<T*>(result(0).data) + i * entries_, room.work);
        T sign;
        R size;
        if (!room.factor.slogdet(&sign, &size)) return false;
        if (rule_.form == 'p' && !is_one(sign, rule_.n)) return false;
        if (rule_.what == "slogdet") static_cast<T*>(result(0).data)[i] = rule_.op == 'H' || rule_.op == 'C' ? conj_of(sign) : sign;
        static_cast<R*>(result(int(rule_.results()) - 1).data)[i] = size;
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
        if (rule_.what == "entries") call.result(static_cast<T*>(result(0).data), which, entries_);
        if (rule_.what == "slogdet") call.result(static_cast<T*>(result(0).data), which, 1);
        if (rule_.what != "entries") call.result(static_cast<R*>(result(int(rule_.results()) - 1).data), which, 1);
        return call.run(Index(which.size()));
    }

    static constexpr int DTYPE = 2 * Scalar<T>::is_complex + (sizeof(R) == 8);
    xla::Frame* frame_;
    const SparseRule& rule_;
    Solves<T> solves_;
    std::shared_ptr<ProgramPattern> pattern_;
    bool is_solve_ = false, is_given_ = false, is_made_ = false;
    Index count_ = 0, entries_ = 0, room_ = 0;
    const T* values_ = nullptr;
    const int* places_ = nullptr;
    int* whole_ = nullptr;
    T* numbers_ = nullptr;
    R* real_ = nullptr;
};

xla::Error* xla_sparse(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const xla::Attributes& told = frame->attributes;
    try {
        bool is_told = told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 3 && frame->results.count >= 1;
        SparseRule rule(is_told ? *static_cast<xla::Span*>(told.each[0]) : xla::Span{"", 0});
        if (rule.is_known) switch (static_cast<xla::Buffer*>(frame->arguments.each[0])->dtype) {
            case xla::F32: return SparseCall<float>(frame, rule).run();
            case xla::F64: return SparseCall<double>(frame, rule).run();
            case xla::C64: return SparseCall<std::complex<float>>(frame, rule).run();
            case xla::C128: return SparseCall<std::complex<double>>(frame, rule).run();
            default: break;
        }
    } catch (const std::bad_alloc&) {
        return xla::error(frame, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a sparse factorization");
    }
    return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
}
