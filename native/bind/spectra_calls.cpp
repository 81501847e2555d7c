#include "checked/spectra.hpp"

#include "arrays.hpp"
#include "calls.hpp"
#include "directions.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

static void require(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

static void require_matrices(const Array& a) {
    require(a.dtype != Dtype::none && a.dtype < Dtype::i4 && a.ndim() >= 2 && a.items() > 0 && a.axis(1) < 8192 && a.axis(2) < 8192,
            "A: expected matrices of floats");
}

static void require_square(const Array& a) {
    require_matrices(a);
    require(a.axis(1) == a.axis(2), "A: expected square matrices");
}

// Is x a matrix (m, n) for each of these?
static bool is_beside(const Array& x, const Array& a, Index m, Index n) {
    return x.dtype == a.dtype && x.ndim() == a.ndim() && x.axis(2) == m && x.axis(1) == n && x.batch(2) == a.batch(2);
}

// Is x one row of real numbers for each of these matrices?
static bool is_row_of(const Array& x, const Array& a) {
    return x.dtype == real_of(a.dtype) && x.ndim() == a.ndim() - 1 && x.axis(1) == std::min(a.axis(1), a.axis(2)) && x.batch(1) == a.batch(2);
}

// f(T(), n, count) of matrices with n columns, without the GIL where there is much to do.
template <class F> static bool of_matrices(const Array& a, F f) {
    const int n = int(a.axis(1));
    const Index count = a.batch(2);
    return with_type(a.dtype, [&](auto like) {
        Unlocked free(double(a.items()) * n);
        return f(like, n, count);
    });
}

static std::optional<Array> given_or_none(nb::handle x, bool writable = false) {
    return x.is_none() ? std::nullopt : std::optional<Array>(std::in_place, x, writable);
}

// Whether A X = X diag(lam) is accepted; lam, X, its error bounds and h, which is zero, are written; the last two may be None.
static bool eigh_of(nb::handle a, nb::handle lam, nb::handle x, nb::object bound, nb::object h, int threads) {
    Array given(a, false), values(lam, true), vectors(x, true);
    const auto errors = given_or_none(bound, true), diagonal = given_or_none(h, true);
    require_square(given);
    require(is_row_of(values, given) && vectors.is_like(given) && (!errors || is_row_of(*errors, given)) && (!diagonal || diagonal->is_like(given)),
            "lam, x, bound, h: expected the shapes and dtypes of eigenpairs of A");
    const auto probe = direction(int(given.axis(1)));
    return of_matrices(given, [&](auto like, int n, Index count) {
        using T = decltype(like);
        using R = Real<T>;
        return eigh(given.as<T>(), values.as<R>(), vectors.as<T>(), errors ? errors->as<R>() : nullptr, diagonal ? diagonal->as<T>() : nullptr, n, count, *probe, threads);
    });
}

// The same of lam alone.
static bool eigvalsh_of(nb::handle a, nb::handle lam, int threads) {
    Array given(a, false), values(lam, true);
    require_square(given);
    require(is_row_of(values, given), "lam: expected the shape and dtype of eigenvalues of A");
    return of_matrices(given, [&](auto like, int n, Index count) {
        using T = decltype(like);
        return eigvalsh(given.as<T>(), values.as<Real<T>>(), n, count, threads);
    });
}

// Whether A_bar is accepted, of cotangents that may be None.
static bool pullback_of_eigh(nb::handle lam, nb::handle x, nb::handle bound, nb::object lam_bar, nb::object x_bar, nb::handle a_bar, int threads) {
    Array values(lam, false), vectors(x, false), errors(bound, false), found(a_bar, true);
    require_square(vectors);
    const auto of_values = given_or_none(lam_bar), of_vectors = given_or_none(x_bar);
    require(is_row_of(values, vectors) && is_row_of(errors, vectors) && found.is_like(vectors) && (of_values || of_vectors)
            && (!of_values || is_row_of(*of_values, vectors)) && (!of_vectors || of_vectors->is_like(vectors)),
            "lam_bar, x_bar, a_bar: expected the shapes and dtypes of eigenpairs of A");
    return of_matrices(vectors, [&](auto like, int n, Index count) {
        using T = decltype(like);
        using R = Real<T>;
        return eigh_pullback(values.as<R>(), vectors.as<T>(), errors.as<R>(), of_values ? of_values->as<R>() : nullptr,
                             of_vectors ? of_vectors->as<T>() : nullptr, found.as<T>(), n, count, threads);
    });
}

// Whether A = U diag(s) V^H is accepted; U, s, V^H and h, which is zero, are written.
static bool svd_of(nb::handle a, nb::handle u, nb::handle s, nb::handle vh, nb::handle h, int threads) {
    Array given(a, false), left(u, true), values(s, true), right(vh, true), diagonal(h, true);
    require_matrices(given);
    const Index m = given.axis(2), n = given.axis(1), k = std::min(m, n);
    require(is_row_of(values, given) && is_beside(left, given, m, k) && is_beside(right, given, k, n) && is_beside(diagonal, given, k, k),
            "U, s, V^H, h: expected the shapes and dtypes of singular triplets of A");
    const auto probe = direction(int(std::max(m, n)));
    return of_matrices(given, [&](auto like, int n, Index count) {
        using T = decltype(like);
        return svd(given.as<T>(), left.as<T>(), values.as<Real<T>>(), right.as<T>(), diagonal.as<T>(), int(m), n, count, *probe, threads);
    });
}

// The same of s alone.
static bool svdvals_of(nb::handle a, nb::handle s, int threads) {
    Array given(a, false), values(s, true);
    require_matrices(given);
    require(is_row_of(values, given), "s: expected the shape and dtype of singular values of A");
    return of_matrices(given, [&](auto like, int n, Index count) {
        using T = decltype(like);
        return svdvals(given.as<T>(), values.as<Real<T>>(), int(given.axis(2)), n, count, threads);
    });
}

// Whether A_bar is accepted, of cotangents that may be None.
static bool pullback_of_svd(nb::handle u, nb::handle s, nb::handle vh, nb::object u_bar, nb::object s_bar, nb::object vh_bar, nb::handle a_bar, int threads) {
    Array left(u, false), values(s, false), right(vh, false), found(a_bar, true);
    require_matrices(found);
    const Index m = found.axis(2), n = found.axis(1), k = std::min(m, n);
    const auto of_left = given_or_none(u_bar), of_values = given_or_none(s_bar), of_right = given_or_none(vh_bar);
    require(is_row_of(values, found) && is_beside(left, found, m, k) && is_beside(right, found, k, n) && (of_left || of_values || of_right)
            && (!of_values || is_row_of(*of_values, found)) && (!of_left || of_left->is_like(left)) && (!of_right || of_right->is_like(right)),
            "U, s, V^H and their cotangents: expected the shapes and dtypes of singular triplets of A");
    return of_matrices(found, [&](auto like, int n, Index count) {
        using T = decltype(like);
        using R = Real<T>;
        Triplets<T> own{left.as<T>(), right.as<T>(), values.as<R>()};
        Triplets<T> bars{of_left ? of_left->as<T>() : nullptr, of_right ? of_right->as<T>() : nullptr, of_values ? of_values->as<R>() : nullptr};
        return svd_pullback(own, bars, found.as<T>(), int(m), n, count, threads);
    });
}

void bind_spectra(nb::module_& m) {
    m.def("eigh", &eigh_of, "a"_a, "lam"_a, "x"_a, "bound"_a.none(), "h"_a.none(), "threads"_a);
    m.def("svd", &svd_of, "a"_a, "u"_a, "s"_a, "vh"_a, "h"_a, "threads"_a);
    m.def("svdvals", &svdvals_of, "a"_a, "s"_a, "threads"_a);
    m.def("svd_pullback", &pullback_of_svd, "u"_a, "s"_a, "vh"_a, "u_bar"_a.none(), "s_bar"_a.none(), "vh_bar"_a.none(), "a_bar"_a, "threads"_a);
    m.def("eigvalsh", &eigvalsh_of, "a"_a, "lam"_a, "threads"_a);
    m.def("eigh_pullback", &pullback_of_eigh, "lam"_a, "x"_a, "bound"_a, "lam_bar"_a.none(), "x_bar"_a.none(), "a_bar"_a, "threads"_a);
}
