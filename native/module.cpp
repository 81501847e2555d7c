// ldiv._native: what Python may ask of it. Shapes and dtypes are looked at here; what is none of ours is a TypeError or ValueError.
#include <nanobind/nanobind.h>

#include <variant>

#include "arrays.hpp"
#include "dense.hpp"
#include "lapack.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

template <class T> using Owned = std::unique_ptr<Dense<T>>;

// A factor of any of the four dtypes.
struct Factor {
    std::variant<Owned<float>, Owned<double>, Owned<std::complex<float>>, Owned<std::complex<double>>> of;
    Dtype dtype;
    Dtype real() const { return dtype == Dtype::f4 || dtype == Dtype::c8 ? Dtype::f4 : Dtype::f8; }
};

static void require(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

static char one_of(const char* name, const char* choices) {
    require(name[0] && !name[1] && std::strchr(choices, name[0]), choices);
    return name[0];
}

// The factor of M (*batch, n, n), or None.
static nb::object factor(nb::handle m, const char* kind, int threads) {
    Array a(m, false);
    require(a.dtype != Dtype::none && a.ndim() >= 2 && a.axis(1) == a.axis(2) && a.items() > 0, "M: expected square matrices of floats");
    require(a.axis(1) < 32768, "M: expected fewer than 32768 rows");
    int n = int(a.axis(1));
    Kind of = one_of(kind, "LC") == 'L' ? Kind::lu : Kind::cholesky;
    auto probe = direction(n);
    return with_type(a.dtype, [&](auto like) -> nb::object {
        using T = decltype(like);
        auto made = std::make_unique<Dense<T>>(of, n, a.batch(2), probe);
        bool accepted;
        {
            nb::gil_scoped_release free;
            accepted = made->factor(a.as<T>(), threads);
        }
        if (!accepted) return nb::none();
        return nb::cast(new Factor{std::move(made), a.dtype}, nb::rv_policy::take_ownership);
    });
}

// Whether op(M) x = b (*batch, n, k) is accepted; x is written.
static bool solve(Factor& self, nb::handle b, nb::handle x, const char* op, int threads) {
    Array given(b, false), found(x, true);
    char how = one_of(op, "NTH");
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        require(given.dtype == self.dtype && given.is_like(found) && given.ndim() >= 2 && given.axis(2) == own->n
                    && given.batch(2) == own->count && given.axis(1) < (1 << 30) / own->n, "b, x: expected like shapes and dtypes, those of M");
        nb::gil_scoped_release free;
        return own->solve(given.as<T>(), found.as<T>(), int(given.axis(1)), how, threads);
    }, self.of);
}

static bool slogdet(Factor& self, nb::handle sign, nb::handle size) {
    Array signs(sign, true), sizes(size, true);
    return std::visit([&](auto& own) {
        using D = std::decay_t<decltype(*own)>;
        require(signs.dtype == self.dtype && sizes.dtype == self.real() && signs.items() == own->count && sizes.items() == own->count,
                "sign, size: expected one number for each matrix");
        nb::gil_scoped_release free;
        return own->slogdet(signs.as<typename D::Number>(), sizes.as<typename D::R>());
    }, self.of);
}

static bool inverse(Factor& self, nb::handle x, int threads) {
    Array found(x, true);
    return std::visit([&](auto& own) {
        using D = std::decay_t<decltype(*own)>;
        require(found.dtype == self.dtype && found.ndim() >= 2 && found.axis(1) == own->n && found.axis(2) == own->n && found.batch(2) == own->count,
                "x: expected the shape and dtype of M");
        nb::gil_scoped_release free;
        return own->inverse(found.as<typename D::Number>(), threads);
    }, self.of);
}

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // a factor that is kept until Python ends is no leak
    load_lapack();
    m.attr("fingerprint") = FINGERPRINT;
    nb::class_<Factor>(m, "Factor")
        .def("solve", &solve, "b"_a, "x"_a, "op"_a, "threads"_a)
        .def("slogdet", &slogdet, "sign"_a, "size"_a)
        .def("inverse", &inverse, "x"_a, "threads"_a)
        .def_prop_ro("nbytes", [](const Factor& self) { return std::visit([](auto& own) { return own->nbytes(); }, self.of); });
    m.def("factor", &factor, "m"_a, "kind"_a, "threads"_a);
}
