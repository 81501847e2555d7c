// The module ldiv._native. Shapes and dtypes are checked here; a TypeError or a ValueError names what was expected.
#include <nanobind/nanobind.h>

#include <optional>

#include "arrays.hpp"
#include "calls.hpp"
#include "checked/dense.hpp"
#include "checked/factor_registry.hpp"
#include "directions.hpp"
#include "factor_calls.hpp"
#include "kernels/team.hpp"
#include "kernels/hermitian.hpp"
#include "kernels/lapack.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

template <class T> using Owned = std::unique_ptr<Dense<T>>;

// A factor of any of the four dtypes.
struct Factor {
    Factor(AnyOf<Dense> of, Dtype dtype, int ndim) : of(std::move(of)), dtype(dtype), ndim(ndim) { registry.add(this); }
    ~Factor() { registry.remove(this); }
    Factor(const Factor&) = delete;

    uint64_t key() {
        if (!key_) key_ = std::visit([](auto& own) { return own->key(); }, of);
        return *key_;
    }

    int own_factors() const { return 1; }
    size_t nbytes() const { return std::visit([](auto& own) { return own->nbytes(); }, of); }
    template <class D> bool is_like_m(const Array& x, const D& own) const { return is_of_each(x, dtype, own.count, {own.n, own.n}); }
    // is b (*batch, n, k) a block of right-hand sides, or b (*batch, n) one of vectors?
    template <class D> int columns(const Array& b, const D& own) const {
        if (b.dtype != dtype || b.ndim() < 1) return -1;
        if (b.ndim() == ndim && b.axis(2) == own.n && b.batch(2) == own.count && b.axis(1) < (1 << 30) / own.n) return int(b.axis(1));
        return b.ndim() == ndim - 1 && b.axis(1) == own.n && b.batch(1) == own.count ? 1 : -1;
    }

    AnyOf<Dense> of;
    Dtype dtype;
    int ndim;
    bool is_wrapped = false;  // a Python object holds it, and is counted instead
    static inline RecentFactors<Factor> registry;

  private:
    std::optional<uint64_t> key_;
};

// The factor of M, or None.
template <class T> nb::object found_or_made(const Array& a, char letter, int threads, bool& is_found_again) {
    const int n = int(a.axis(1));
    const Kind kind = letter == 'C' ? Kind::cholesky : Kind::lu;
    const Index count = a.batch(2);
    bool hermitian = false;  // exactly so it is no other matrix
    for (Index i = 0; letter != 'L' && i < count && !hermitian; i++) hermitian = !is_hermitian(a.as<T>() + i * n * n, n);
    auto is = [&](const Factor& other) {
        if (other.dtype != a.dtype || other.ndim != a.ndim()) return false;
        auto& own = *std::get<Owned<T>>(other.of);
        return own.n == n && own.count == count && own.is_of(kind, hermitian, a.as<T>());
    };
    Factor* found = Factor::registry.find(is, [&] { return Dense<T>::key_of(kind, hermitian, n, count, a.as<T>()); });
    is_found_again = found != nullptr;
    if (found) return nb::find(found);
    auto made = std::make_unique<Dense<T>>(kind, hermitian, n, count, direction(n));
    bool accepted;
    {
        Unlocked free(double(n) * n * n * count);
        accepted = made->factor(a.as<T>(), threads);
    }
    return accepted ? nb::cast(new Factor(std::move(made), a.dtype, a.ndim()), nb::rv_policy::take_ownership) : nb::none();
}

static nb::object found_or_made(const Array& a, const char* kind, int threads, bool& is_found_again) {
    require(are_floats(a.dtype) && a.ndim() >= 2 && a.axis(1) == a.axis(2) && a.items() > 0, "M: expected square matrices of floats");
    require(a.axis(1) < 32768, "M: expected fewer than 32768 rows");
    char letter = one_of(kind, "LCH");
    return with_type(a.dtype, [&](auto like) { return found_or_made<decltype(like)>(a, letter, threads, is_found_again); });
}

// (the factor of M (*batch, n, n), or None; whether it was in memory before)
static nb::tuple factor(nb::handle m, const char* kind, int threads) {
    bool is_found_again = false;
    nb::object found = found_or_made(Array(m, false), kind, threads, is_found_again);
    return nb::make_tuple(found, is_found_again);
}

static bool solve_arrays(Factor& self, const Array& b, const Array& x, const char* op, int threads) {
    char how = one_of(op, "NTH");
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        int k = self.columns(b, *own);
        require(k >= 0 && b.is_like(x), "b, x: expected like shapes and dtypes, those of M");
        Unlocked free(double(b.items()) * own->n);
        return own->solve(b.as<T>(), x.as<T>(), k, how, threads);
    }, self.of);
}

// Write x of op(M) x = b; true if it is accepted.
static bool solve(Factor& self, nb::handle b, nb::handle x, const char* op, int threads) { return solve_arrays(self, Array(b, false), Array(x, true), op, threads); }

// The same of M, and its factor: nothing is factored for a b that is refused.
static nb::tuple factor_solve(nb::handle m, const char* kind, nb::handle b, nb::handle x, const char* op, int threads) {
    Array given(b, false), solution(x, true);
    require(are_floats(given.dtype), "b: expected floats");
    bool finite = with_type(given.dtype, [&](auto like) { return all_finite(given.as<decltype(like)>(), given.items()); });
    if (!finite) return nb::make_tuple(nb::none(), false, false);
    bool is_found_again = false;
    nb::object found = found_or_made(Array(m, false), kind, threads, is_found_again);
    bool accepted = !found.is_none() && solve_arrays(*nb::inst_ptr<Factor>(found), given, solution, op, threads);
    return nb::make_tuple(found, is_found_again, accepted);
}

// Whether the cotangents of b, and of M unless it is None, are accepted; both are written.
static bool pullback(Factor& self, nb::handle x_bar, nb::handle x, nb::handle b_bar, nb::object m_bar, const char* op, const char* form, int threads) {
    Array given(x_bar, false), solution(x, false), lam(b_bar, true);
    char how = one_of(op, "NT"), of = one_of(form, "NTS");
    std::unique_ptr<Array> matrix(m_bar.is_none() ? nullptr : new Array(m_bar, true));
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        int k = self.columns(given, *own);
        require(k >= 0 && given.is_like(solution) && given.is_like(lam), "x_bar, x, b_bar: expected like shapes and dtypes, those of M");
        require(!matrix || (matrix->ndim() == self.ndim && self.is_like_m(*matrix, *own)), "m_bar: expected the shape and dtype of M");
        require(!Scalar<T>::is_complex || (how == 'N' && of != 'T'), "op: expected N for complex numbers");
        Unlocked free(double(given.items() + own->n * own->count) * own->n);
        return own->pullback(given.as<T>(), solution.as<T>(), lam.as<T>(), matrix ? matrix->as<T>() : nullptr, k, how, of, threads);
    }, self.of);
}

static bool inverse(Factor& self, nb::handle x, int threads) {
    Array found(x, true);
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        require(self.is_like_m(found, *own), "x: expected the shape and dtype of M");
        return without_gil([&] { return own->inverse(found.as<T>(), threads); });
    }, self.of);
}

static bool det(Factor& self, nb::handle d) {
    Array found(d, true);
    return std::visit([&](auto& own) {
        require(found.dtype == self.dtype && found.items() == own->count, "d: expected one number for each matrix");
        return without_gil([&] { return own->det(found.as<typename std::decay_t<decltype(*own)>::Number>()); });
    }, self.of);
}

// Whether x = w M^-H for weights w (*batch,) is accepted, or of determinants d, which may be None, w conj(d) M^-H.
static bool log_pullback(Factor& self, nb::handle w, nb::object d, nb::handle x, int threads) {
    Array weights(w, false), found(x, true);
    const auto dets = d.is_none() ? std::nullopt : std::optional<Array>(std::in_place, d, false);
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        const bool fits = found.ndim() == self.ndim && self.is_like_m(found, *own) && weights.dtype == self.dtype && weights.items() == own->count;
        require(fits && (!dets || dets->is_like(weights)), "w, d, x: expected a weight for each matrix, and its shape and dtype");
        return without_gil([&] { return own->log_pullback(weights.as<T>(), dets ? dets->as<T>() : nullptr, found.as<T>(), threads); });
    }, self.of);
}

// Python handles signals in its main thread, with the GIL; in other threads this does nothing.
static bool has_signal() {
    nb::gil_scoped_acquire python;
    return PyErr_CheckSignals() != 0;
}

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // a factor that is kept until Python ends is no leak
    load_lapack();
    load_limits();
    interrupt_requested = has_signal;
    m.attr("fingerprint") = FINGERPRINT;
    nb::class_<Factor>(m, "Factor")
        .def("solve", &solve, "b"_a, "x"_a, "op"_a, "threads"_a)
        .def("pullback", &pullback, "x_bar"_a, "x"_a, "b_bar"_a, "m_bar"_a.none(), "op"_a, "form"_a, "threads"_a)
        .def("slogdet", &slogdet_of<Factor>, "sign"_a, "size"_a)
        .def("det", &det, "d"_a)
        .def("log_pullback", &log_pullback, "w"_a, "d"_a.none(), "x"_a, "threads"_a)
        .def("inverse", &inverse, "x"_a, "threads"_a)
        .def_rw("is_wrapped", &Factor::is_wrapped)
        .def_prop_ro("nbytes", &Factor::nbytes);
    m.def("factor", &factor, "m"_a, "kind"_a, "threads"_a);
    m.def("solve", &factor_solve, "m"_a, "kind"_a, "b"_a, "x"_a, "op"_a, "threads"_a);
    m.def("live_factors", &count_live_factors<Factor>);
    bind_limits(m);
    bind_pattern(m);
    bind_operations(m);
    bind_sparse(m);
    bind_xla_calls(m);
    bind_fronts(m);
    bind_ordering(m);
}
