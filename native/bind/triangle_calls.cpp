#include "calls.hpp"

#include "arrays.hpp"
#include "checked/divergence.hpp"
#include "checked/triangles.hpp"
#include "kernels/crew.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

static void require(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

static bool are_square(const Array& a) {
    return a.dtype != Dtype::none && a.dtype < Dtype::i4 && a.ndim() >= 2 && a.axis(1) == a.axis(2) && a.items() > 0 && a.axis(1) < 32768;
}

// the columns of b (*batch, n, k) or (*batch, n), or -1
static int columns(const Array& a, const Array& b) {
    if (a.dtype != b.dtype || b.ndim() < 1 || !b.items()) return -1;
    if (b.ndim() == a.ndim() && b.axis(2) == a.axis(1) && b.batch(2) == a.batch(2) && b.axis(1) < (1 << 30) / a.axis(1)) return int(b.axis(1));
    return b.ndim() == a.ndim() - 1 && b.axis(1) == a.axis(1) && b.batch(1) == a.batch(2) ? 1 : -1;
}

struct None {};

// Whether op(T) x = b is accepted for triangles T (*batch, n, n); x is written.
static bool solve(nb::handle t, nb::handle b, nb::handle x, bool lower, bool unit, const char* op, int threads) {
    Array a(t, false), given(b, false), found(x, true);
    require(are_square(a), "T: expected square matrices of floats");
    require(op[0] && !op[1] && std::strchr("NTH", op[0]), "op: expected N, T or H");
    int k = columns(a, given), n = int(a.axis(1));
    require(k > 0 && given.is_like(found), "b, x: expected like shapes and dtypes, those of T");
    return with_type(a.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(a.batch(2), n, threads, [&](Index i, None&) {
            Triangle<T> own{a.as<T>() + i * n * n, n, lower, unit};
            return own.is_regular() && own.solve(given.as<T>() + i * n * k, found.as<T>() + i * n * k, k, op[0]);
        });
    });
}

// Whether the cotangents of b, and of T unless it is None, are accepted; both are written.
static bool pullback(nb::handle t, nb::handle x_bar, nb::handle x, nb::handle b_bar, nb::object t_bar, bool lower, bool unit, const char* op, int threads) {
    Array a(t, false), given(x_bar, false), solution(x, false), lam(b_bar, true);
    std::unique_ptr<Array> matrix(t_bar.is_none() ? nullptr : new Array(t_bar, true));
    require(are_square(a) && (!matrix || matrix->is_like(a)), "T, t_bar: expected square matrices of floats");
    require(op[0] && !op[1] && std::strchr("NT", op[0]), "op: expected N or T");
    int k = columns(a, given), n = int(a.axis(1));
    require(k > 0 && given.is_like(solution) && given.is_like(lam), "x_bar, x, b_bar: expected like shapes and dtypes, those of T");
    return with_type(a.dtype, [&](auto like) {
        using T = decltype(like);
        require(!Scalar<T>::is_complex || op[0] == 'N', "op: expected N for complex numbers");
        nb::gil_scoped_release free;
        return each<None>(a.batch(2), n, threads, [&](Index i, None&) {
            Index step = Index(n) * k, size = Index(n) * n;
            Triangle<T> own{a.as<T>() + i * size, n, lower, unit};
            return own.is_regular() && own.pullback(given.as<T>() + i * step, solution.as<T>() + i * step, lam.as<T>() + i * step,
                                                    matrix ? matrix->as<T>() + i * size : nullptr, k, op[0]);
        });
    });
}

// Whether A = L L^H is accepted; L is written.
static bool factor(nb::handle a, nb::handle l, int threads) {
    Array given(a, false), found(l, true);
    require(are_square(given) && given.is_like(found), "A, L: expected square matrices of floats");
    int n = int(given.axis(1));
    return with_type(given.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(given.batch(2), n, threads, [&](Index i, None&) {
            return cholesky(given.as<T>() + i * n * n, found.as<T>() + i * n * n, n);
        });
    });
}

// Whether A[order] = L U is accepted; the factors, the exchanges and the order are written.
static bool lu_factor(nb::handle a, nb::handle packed, nb::handle exchanges, nb::handle order, int threads) {
    Array given(a, false), found(packed, true), swaps(exchanges, true), rows(order, true);
    require(are_square(given) && given.is_like(found), "A, packed: expected square matrices of floats");
    int n = int(given.axis(1));
    Index count = given.batch(2);
    require(swaps.dtype == Dtype::i4 && rows.dtype == Dtype::i8 && swaps.items() == count * n && rows.items() == count * n,
            "exchanges, order: expected an integer for each row, of 32 and of 64 bits");
    return with_type(given.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(count, n, threads, [&](Index i, None&) {
            return lu(given.as<T>() + i * n * n, found.as<T>() + i * n * n, swaps.as<int32_t>() + i * n, rows.as<int64_t>() + i * n, n);
        });
    });
}

// Whether the cotangent of A is accepted; it is written.
static bool factor_pullback(nb::handle l, nb::handle l_bar, nb::handle a_bar, int threads) {
    Array factors(l, false), given(l_bar, false), found(a_bar, true);
    require(are_square(given) && given.is_like(found) && given.is_like(factors), "L, L_bar, A_bar: expected square matrices of floats");
    int n = int(given.axis(1));
    return with_type(given.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(given.batch(2), n, threads, [&](Index i, None&) {
            return cholesky_pullback(factors.as<T>() + i * n * n, given.as<T>() + i * n * n, found.as<T>() + i * n * n, n);
        });
    });
}

// Whether the divergence of the distributions with the factors L1 and L2 is accepted; it is written, and X.
static bool kl(nb::handle l1, nb::handle l2, nb::handle d, nb::handle x, int threads) {
    Array first(l1, false), second(l2, false), value(d, true), quotient(x, true);
    require(are_square(first) && first.is_like(second) && first.is_like(quotient), "L1, L2, X: expected square matrices of floats");
    require(value.dtype == real_of(first.dtype) && value.items() == first.batch(2), "d: expected a real number for each matrix");
    Index n = first.axis(1), size = n * n;
    return with_type(first.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(first.batch(2), n, threads, [&](Index i, None&) {
            return divergence(first.as<T>() + i * size, second.as<T>() + i * size, value.as<Real<T>>() + i, quotient.as<T>() + i * size, int(n));
        });
    });
}

// Whether the cotangents of L1 and L2 are accepted; they are written.
static bool kl_pullback(nb::handle l1, nb::handle l2, nb::handle x, nb::handle d_bar, nb::handle l1_bar, nb::handle l2_bar, int threads) {
    Array first(l1, false), second(l2, false), quotient(x, false), weight(d_bar, false), to_first(l1_bar, true), to_second(l2_bar, true);
    require(are_square(first) && first.is_like(second) && first.is_like(quotient) && first.is_like(to_first) && first.is_like(to_second),
            "L1, L2, X, L1_bar, L2_bar: expected square matrices of floats");
    require(weight.dtype == real_of(first.dtype) && weight.items() == first.batch(2), "d_bar: expected a real number for each matrix");
    Index n = first.axis(1), size = n * n;
    return with_type(first.dtype, [&](auto like) {
        using T = decltype(like);
        nb::gil_scoped_release free;
        return each<None>(first.batch(2), n, threads, [&](Index i, None&) {
            return divergence_pullback(first.as<T>() + i * size, second.as<T>() + i * size, quotient.as<T>() + i * size, weight.as<Real<T>>()[i],
                                       to_first.as<T>() + i * size, to_second.as<T>() + i * size, int(n));
        });
    });
}

void bind_triangles(nb::module_& m) {
    m.def("solve_triangular", &solve, "t"_a, "b"_a, "x"_a, "lower"_a, "unit"_a, "op"_a, "threads"_a);
    m.def("solve_triangular_pullback", &pullback, "t"_a, "x_bar"_a, "x"_a, "b_bar"_a, "t_bar"_a.none(), "lower"_a, "unit"_a, "op"_a, "threads"_a);
    m.def("cholesky", &factor, "a"_a, "l"_a, "threads"_a);
    m.def("lu", &lu_factor, "a"_a, "packed"_a, "exchanges"_a, "order"_a, "threads"_a);
    m.def("cholesky_pullback", &factor_pullback, "l"_a, "l_bar"_a, "a_bar"_a, "threads"_a);
    m.def("divergence", &kl, "l1"_a, "l2"_a, "d"_a, "x"_a, "threads"_a);
    m.def("divergence_pullback", &kl_pullback, "l1"_a, "l2"_a, "x"_a, "d_bar"_a, "l1_bar"_a, "l2_bar"_a, "threads"_a);
}
