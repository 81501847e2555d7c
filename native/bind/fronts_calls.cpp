// Fronts of a sparse pattern, and factors by them, L L^H, L D L^H and L D U, as Python asks for them: an answer, or None where there is no memory.
#include "fronts_calls.hpp"

#include <variant>

#include "calls.hpp"
#include "columns_of.hpp"
#include "factor_calls.hpp"
#include "kernels/block_lu.hpp"
#include "kernels/ldl.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

// Compressed columns with sorted rows, as many entries above the diagonal as below it, in the same places.
static Compressed symmetric_columns_of(const Array& starts, const Array& rows) {
    Compressed a = columns_of(starts, rows);
    Indices next(a.starts.begin(), a.starts.end() - 1);  // the first entry of each column whose mirror image was not met yet
    for (Row j = 0; j < a.size(); j++)
        for (Index& e = next[j]; e < a.starts[j + 1]; e++) {
            const Row i = a.rows[e];
            const bool has_mirror = i == j || (i > j && next[i] < a.starts[i + 1] && a.rows[next[i]++] == j);
            require(has_mirror, "starts, rows: expected compressed columns of a symmetric pattern, sorted");
        }
    return a;
}

static Indices order_of(const Array& order, const Array& starts) {
    require(starts.items() > 0 && order.items() == starts.items() - 1, "order: expected a number for each column");
    return numbers<Index>(order, 0, order.items(), "order: expected a permutation");
}

// `Calls` is the class that Python knows; its slots(fronts) says how many numbers the matrix has there, or -1 before they are located.
template <class Calls, template <class> class F> class FrontFactor {
    template <class T> using Owned = std::shared_ptr<F<T>>;

  public:
    using Any = std::variant<Owned<float>, Owned<double>, Owned<std::complex<float>>, Owned<std::complex<double>>>;
    FrontFactor(Any of, Dtype dtype) : of_(std::move(of)), dtype_(dtype) {}

    // The factor of the values in the slots; or the number of the supernode that was refused; or None.
    template <class... Options> static nb::object factor(std::shared_ptr<const Fronts> fronts, nb::handle values, int threads, Options... options) {
        Array a(values, false);
        require(a.dtype != Dtype::none && a.dtype < Dtype::i4, "values: expected floats");
        require(a.items() == Calls::slots(*fronts), "values: expected a number for each slot that was located");
        return with_type(a.dtype, [&](auto like) -> nb::object {
            using T = decltype(like);
            Team team(threads);
            auto made = std::make_shared<F<T>>(std::move(fronts), options...);
            if (without_gil([&] { return made->factor(a.as<T>(), team); })) return nb::cast(new Calls(std::move(made), a.dtype), nb::rv_policy::take_ownership);
            return made->refused() < 0 ? nb::none() : nb::object(nb::int_(made->refused()));
        });
    }
    // solve(own, numbers of X, columns, team): whether X (n, k) is that of an answer.
    template <class Solve> bool solve_by(nb::handle x, int threads, Solve solve) const {
        Array found(x, true);
        return visit([&](auto& own) {
            require(found.dtype == dtype_ && found.ndim() == 2 && found.axis(2) == own.fronts().n && found.axis(1) < (Index(1) << 31),
                    "x: expected n rows of the dtype of A");
            Team team(threads);
            return without_gil([&] { return solve(own, numbers(own, found), found.axis(1), team); });
        });
    }
    bool inverse(nb::handle slots, int threads) {
        Array found(slots, true);
        return visit([&](auto& own) {
            require_slots(found, own);
            Team team(threads);
            return without_gil([&] { return own.inverse(numbers(own, found), team); });
        });
    }
    bool tangent(nb::handle e, nb::handle slots, int threads) {
        Array given(e, false), found(slots, true);
        return visit([&](auto& own) {
            require_slots(given, own);
            require_slots(found, own);
            Team team(threads);
            return without_gil([&] { return own.tangent(numbers(own, given), numbers(own, found), team); });
        });
    }
    // log |det|, and the real and imaginary part of det / |det|
    nb::tuple slogdet() const {
        return visit([](auto& own) {
            typename std::decay_t<decltype(own)>::Number sign;
            const double size = own.log_det(sign);
            const std::complex<double> both(sign);
            return nb::make_tuple(size, both.real(), both.imag());
        });
    }
    size_t nbytes() const {
        return visit([](auto& own) { return own.nbytes(); });
    }

  protected:
    template <class Do> auto visit(Do f) const {
        return std::visit([&](auto& own) { return f(*own); }, of_);
    }
    template <class C> static typename C::Number* numbers(const C&, const Array& x) { return x.as<typename C::Number>(); }
    template <class C> void require_slots(const Array& x, const C& own) const {
        require(x.dtype == dtype_ && x.items() == Calls::slots(own.fronts()), "e, slots: expected a number for each slot of A");
    }
    Any of_;
    Dtype dtype_;
};

class CholeskyCalls : public FrontFactor<CholeskyCalls, Cholesky> {
  public:
    using FrontFactor::FrontFactor;
    static Index slots(const Fronts& f) { return f.slot_starts.empty() ? -1 : Index(f.place.size()); }

    bool solve(nb::handle x, const char* part, bool conjugated, int threads) const {
        require(part[0] && !part[1] && std::strchr("ALH", part[0]), "part: expected A, L or H");
        return solve_by(x, threads, [&](auto& own, auto* to, Index k, Team& team) { return own.solve(to, k, part[0], conjugated, team); });
    }
    double log_det() const {
        return visit([](auto& own) { return own.log_det(); });
    }
    void write(nb::handle entries) const {
        Array found(entries, true);
        visit([&](auto& own) {
            const Fronts& f = own.fronts();
            Index total = f.entries();
            for (Index s = 0; s < f.count(); s++) total -= f.columns(s) * (f.columns(s) - 1) / 2;
            require(found.dtype == dtype_ && found.items() == total, "entries: expected a number for each entry of L");
            own.write(numbers(own, found));
        });
    }
};

// A = L D U.
class BlockLuCalls : public FrontFactor<BlockLuCalls, BlockLu> {
  public:
    using FrontFactor::FrontFactor;
    static Index slots(const Fronts& f) { return Index(f.both.size()); }

    bool solve(nb::handle x, bool transposed, int threads) const {
        return solve_by(x, threads, [&](auto& own, auto* to, Index k, Team& team) { return own.solve(to, k, transposed, team); });
    }
};

// A = L D L^T, or L D L^H.
class LdlCalls : public FrontFactor<LdlCalls, Ldl> {
  public:
    using FrontFactor::FrontFactor;
    static Index slots(const Fronts& f) { return CholeskyCalls::slots(f); }

    bool solve(nb::handle x, bool conjugated, int threads) const {
        return solve_by(x, threads, [&](auto& own, auto* to, Index k, Team& team) { return own.solve(to, k, conjugated, team); });
    }
    nb::tuple signs() const {
        return visit([](auto& own) {
            const Signs found = own.signs();
            return nb::make_tuple(found.positive, found.negative);
        });
    }
    Index delayed() const {
        return visit([](auto& own) { return own.delayed(); });
    }
};

class FrontsCalls {
  public:
    FrontsCalls(nb::handle starts, nb::handle rows, nb::handle order) {
        Array s(starts, false), r(rows, false), o(order, false);
        nb::gil_scoped_release free;
        fronts_ = std::make_shared<Fronts>(symmetric_columns_of(s, r), order_of(o, s));
    }
    Index count() const { return fronts_->count(); }
    Index rows() const { return Index(fronts_->rows.size()); }
    Index entries() const { return fronts_->entries(); }
    size_t nbytes() const { return fronts_->nbytes(); }

    void write(nb::handle order, nb::handle starts, nb::handle parent, nb::handle rows, nb::handle row_starts) const {
        copy(fronts_->order, order), copy(fronts_->starts, starts), copy(fronts_->parent, parent);
        copy(fronts_->rows, rows), copy(fronts_->row_starts, row_starts);
    }
    void locate(nb::handle starts, nb::handle rows) {
        Array s(starts, false), r(rows, false);
        require(s.items() == fronts_->n + 1 && !is_located_, "starts, rows: expected those of the permuted pattern, once");
        {
            nb::gil_scoped_release free;
            fronts_->locate(symmetric_columns_of(s, r));
        }
        is_located_ = true;
    }
    void locate_both(nb::handle places) {
        Array found(places, false);
        require(found.dtype == Dtype::i8 && !are_both_located_, "places: expected 64-bit integers, once");
        fronts_->locate(found.as<int64_t>(), found.items());
        are_both_located_ = true;
    }
    nb::object factor(nb::handle values, int threads) const { return CholeskyCalls::factor(fronts_, values, threads); }
    nb::object block_lu(nb::handle values, int threads) const { return BlockLuCalls::factor(fronts_, values, threads); }
    nb::object ldl(nb::handle values, bool is_hermitian, double least, int threads) const {
        require(least > 0 && least <= 0.25, "least: expected a number above 0, up to 1 / 4");
        return LdlCalls::factor(fronts_, values, threads, is_hermitian, least);
    }
    std::shared_ptr<const Fronts> located() const {
        require(is_located_, "fronts: expected some that know their slots");
        return fronts_;
    }

  private:
    static void copy(const Indices& from, nb::handle to) {
        Array found(to, true);
        require(found.dtype == Dtype::i8 && found.items() == Index(from.size()), "order, starts, ...: expected room for 64-bit integers");
        std::copy(from.begin(), from.end(), found.as<int64_t>());
    }
    std::shared_ptr<Fronts> fronts_;
    bool is_located_ = false, are_both_located_ = false;
};

std::shared_ptr<const Fronts> located_fronts(nb::handle fronts) {
    if (!nb::isinstance<FrontsCalls>(fronts)) throw nb::type_error("fronts: expected fronts");
    return nb::cast<const FrontsCalls&>(fronts).located();
}

template <class T> nb::object cholesky_calls(std::shared_ptr<Cholesky<T>> own, Dtype dtype) {
    return nb::cast(new CholeskyCalls(std::move(own), dtype), nb::rv_policy::take_ownership);
}
#define FOR(T) template nb::object cholesky_calls(std::shared_ptr<Cholesky<T>>, Dtype);
EACH_NUMBER(FOR)

// The entries of L, and the operations that it takes.
static nb::tuple fill(nb::handle starts, nb::handle rows, nb::handle order) {
    Array s(starts, false), r(rows, false), o(order, false);
    double entries = 0, work = 0;
    {
        nb::gil_scoped_release free;
        for (Index count : column_counts(symmetric_columns_of(s, r), order_of(o, s))) {
            entries += double(count);
            work += double(count) * double(count);
        }
    }
    return nb::make_tuple(entries, work);
}

void bind_fronts(nb::module_& m) {
    nb::class_<BlockLuCalls>(m, "BlockLu")
        .def("solve", &BlockLuCalls::solve, "x"_a, "transposed"_a, "threads"_a)
        .def("slogdet", &BlockLuCalls::slogdet)
        .def("inverse", &BlockLuCalls::inverse, "slots"_a, "threads"_a)
        .def("tangent", &BlockLuCalls::tangent, "e"_a, "slots"_a, "threads"_a)
        .def_prop_ro("nbytes", &BlockLuCalls::nbytes);
    nb::class_<CholeskyCalls>(m, "Cholesky")
        .def("solve", &CholeskyCalls::solve, "x"_a, "part"_a, "conjugated"_a, "threads"_a)
        .def("log_det", &CholeskyCalls::log_det)
        .def("inverse", &CholeskyCalls::inverse, "slots"_a, "threads"_a)
        .def("tangent", &CholeskyCalls::tangent, "e"_a, "slots"_a, "threads"_a)
        .def("write", &CholeskyCalls::write, "entries"_a)
        .def_prop_ro("nbytes", &CholeskyCalls::nbytes);
    nb::class_<LdlCalls>(m, "Ldl")
        .def("solve", &LdlCalls::solve, "x"_a, "conjugated"_a, "threads"_a)
        .def("slogdet", &LdlCalls::slogdet)
        .def("signs", &LdlCalls::signs)
        .def_prop_ro("delayed", &LdlCalls::delayed)
        .def_prop_ro("nbytes", &LdlCalls::nbytes);
    nb::class_<FrontsCalls>(m, "Fronts")
        .def(nb::init<nb::handle, nb::handle, nb::handle>(), "starts"_a, "rows"_a, "order"_a)
        .def("write", &FrontsCalls::write, "order"_a, "starts"_a, "above"_a, "rows"_a, "row_starts"_a)
        .def("locate", &FrontsCalls::locate, "starts"_a, "rows"_a)
        .def("locate_both", &FrontsCalls::locate_both, "places"_a)
        .def("factor", &FrontsCalls::factor, "values"_a, "threads"_a)
        .def("ldl", &FrontsCalls::ldl, "values"_a, "is_hermitian"_a, "least"_a, "threads"_a)
        .def("block_lu", &FrontsCalls::block_lu, "values"_a, "threads"_a)
        .def_prop_ro("count", &FrontsCalls::count)
        .def_prop_ro("rows", &FrontsCalls::rows)
        .def_prop_ro("entries", &FrontsCalls::entries)
        .def_prop_ro("nbytes", &FrontsCalls::nbytes);
    m.def("fill", &fill, "starts"_a, "rows"_a, "order"_a);
}
