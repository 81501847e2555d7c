"""Every dtype, memory layout, size and batch is solved to the accuracy of NumPy; ldiv.vjp and
ldiv.jvp on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ldiv

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (0, 1, 2, 5, 33)
frameworks = pytest.mark.parametrize("to", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def draw(*shape: int, dtype: Any = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape) + (
        1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0
    )
    return x.astype(dtype)


def dominant(*batch: int, n: int, dtype: Any = "float64", seed: int = 1) -> Any:
    """Well conditioned, not symmetric."""
    return (draw(*batch, n, n, dtype=dtype, seed=seed) + 3 * np.sqrt(n) * np.eye(n)).astype(dtype)


def positive(*batch: int, n: int, dtype: Any = "float64") -> Any:
    a = dominant(*batch, n=n, dtype=dtype)
    a = a @ np.conj(np.swapaxes(a, -1, -2)) / max(n, 1)
    return ((a + np.conj(np.swapaxes(a, -1, -2))) / 2).astype(dtype)  # Hermitian to the last bit


def positions(n: int) -> Any:
    """All of them, in no order."""
    return np.divmod(np.random.default_rng(n).permutation(n * n), max(n, 1))


def sparse(a: Any, to: Any = np.asarray) -> Any:
    n = a.shape[-1]
    rows, cols = positions(n)
    return ldiv.coo_array(
        (to(np.ascontiguousarray(a[..., rows, cols])), (rows, cols)), shape=(n, n)
    )


# (make the matrix, how ldiv is called, what NumPy solves)
FORMS: dict[
    str, tuple[Callable[..., Any], Callable[[Any, Any, Any], Any], Callable[[Any], Any]]
] = {
    "dense": (dominant, lambda a, b, to: ldiv.solve(to(a), b), lambda a: a),
    "dense T": (
        dominant,
        lambda a, b, to: ldiv.solve(to(a), b, trans="T"),
        lambda a: np.swapaxes(a, -1, -2),
    ),
    "dense H": (
        dominant,
        lambda a, b, to: ldiv.solve(to(a), b, trans="H"),
        lambda a: np.conj(np.swapaxes(a, -1, -2)),
    ),
    "dense her": (positive, lambda a, b, to: ldiv.solve(to(a), b, assume_a="her"), lambda a: a),
    "dense pos": (positive, lambda a, b, to: ldiv.solve(to(a), b, assume_a="pos"), lambda a: a),
    "dense pos T": (
        positive,
        lambda a, b, to: ldiv.solve(to(a), b, assume_a="pos", trans="T"),
        lambda a: np.swapaxes(a, -1, -2),
    ),
    "dense factorized": (dominant, lambda a, b, to: ldiv.factorized(to(a)).solve(b), lambda a: a),
    "dense diagonal": (
        dominant,
        lambda a, b, to: ldiv.solve(to(a), b, assume_a="diagonal"),
        lambda a: a * np.eye(a.shape[-1]),
    ),
    "dense lower": (
        dominant,
        lambda a, b, to: ldiv.solve(to(a), b, assume_a="lower triangular"),
        np.tril,
    ),
    "dense upper H": (
        dominant,
        lambda a, b, to: ldiv.solve_triangular(to(a), b, trans="H"),
        lambda a: np.conj(np.swapaxes(np.triu(a), -1, -2)),
    ),
    "sparse": (dominant, lambda a, b, to: ldiv.solve(sparse(a, to), b), lambda a: a),
    "sparse T": (
        dominant,
        lambda a, b, to: ldiv.solve(sparse(a, to), b, trans="T"),
        lambda a: np.swapaxes(a, -1, -2),
    ),
    "sparse H": (
        dominant,
        lambda a, b, to: ldiv.solve(sparse(a, to).H, b),
        lambda a: np.conj(np.swapaxes(a, -1, -2)),
    ),
    "sparse conj": (dominant, lambda a, b, to: ldiv.solve(sparse(a, to).conj(), b), np.conj),
    "sparse her": (
        positive,
        lambda a, b, to: ldiv.solve(sparse(a, to), b, assume_a="her"),
        lambda a: a,
    ),
    "sparse pos": (
        positive,
        lambda a, b, to: ldiv.solve(sparse(a, to), b, assume_a="pos"),
        lambda a: a,
    ),
    "sparse factorized": (
        dominant,
        lambda a, b, to: ldiv.factorized(sparse(a, to))(b),
        lambda a: a,
    ),
    "sparse diagonal": (
        dominant,
        lambda a, b, to: ldiv.solve(sparse(a, to), b, assume_a="diagonal"),
        lambda a: a * np.eye(a.shape[-1]),
    ),
    "sparse lower": (
        dominant,
        lambda a, b, to: ldiv.solve_triangular(sparse(a, to), b, lower=True),
        np.tril,
    ),
    "product": (dominant, lambda a, b, to: sparse(a, to) @ b, np.linalg.inv),
}
forms = pytest.mark.parametrize("form", FORMS)


def check(form: str, a: Any, b: Any, to: Any = np.asarray) -> Any:
    """Solve, compare with NumPy in double precision, and return what ldiv returned."""
    _, call, meaning = FORMS[form]
    x = call(a, to(b), to)
    got = np.asarray(x)
    wide = np.result_type(a, b, np.float64)
    meant = meaning(a).astype(wide)
    expected = (
        np.linalg.solve(meant, b.astype(wide)[:, None])[..., 0]
        if b.ndim == 1
        else np.linalg.solve(meant, b.astype(wide))
    )
    assert got.shape == expected.shape
    if expected.size:
        eps = (
            max(np.finfo(x.dtype).eps for x in (a, b))
            if form == "product"
            else np.finfo(got.dtype).eps
        )
        assert np.abs(got - expected).max() <= 300 * eps * np.abs(expected).max()
    return x


# -- dtypes -------------------------------------------------------------------


@pytest.mark.covering(2)
@forms
@dtypes
@frameworks
@pytest.mark.parametrize("n", SIZES)
def test_sizes_and_dtypes(n: int, to: Any, dtype: str, form: str) -> None:
    x = check(form, FORMS[form][0](n=n, dtype=dtype), draw(n, dtype=dtype), to)
    assert str(x.dtype).endswith(dtype)
    assert type(x) is type(to(draw(1)))


@pytest.mark.covering(2)
@pytest.mark.parametrize("form", [f for f in FORMS if f != "product"])
@frameworks
@pytest.mark.parametrize("of_b", DTYPES)
@pytest.mark.parametrize("of_a", DTYPES)
def test_mixed_dtypes_promote(of_a: str, of_b: str, to: Any, form: str) -> None:
    """float32 and complex64 are the narrow ones; of two precisions the wider, complex where one
    of them is.
    """
    x = check(form, FORMS[form][0](n=5, dtype=of_a), draw(5, 2, dtype=of_b), to)
    assert str(x.dtype).endswith(str(np.result_type(of_a, of_b)))


@pytest.mark.covering(2)
@frameworks
@pytest.mark.parametrize("of_x", DTYPES)
@pytest.mark.parametrize("of_a", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_mixed_products(kind: str, of_a: str, of_x: str, to: Any) -> None:
    a, x = draw(5, 5, dtype=of_a), draw(5, dtype=of_x)
    A = sparse(a, to) if kind == "sparse" else ldiv.Matrix(ldiv.structures.Dense(5, 5), to(a))
    y = A @ to(x)
    assert str(y.dtype).endswith(str(np.result_type(of_a, of_x)))
    np.testing.assert_allclose(np.asarray(y), a @ x, rtol=1e-5, atol=1e-5)


@pytest.mark.covering(2)
@pytest.mark.parametrize("of_b", DTYPES)
@pytest.mark.parametrize("of_a", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_cotangents_have_the_dtype_of_what_they_belong_to(kind: str, of_a: str, of_b: str) -> None:
    a, b = (
        torch.tensor(x, requires_grad=True)
        for x in (dominant(n=5, dtype=of_a), draw(5, dtype=of_b))
    )
    A = a if kind == "dense" else ldiv.asarray(a)
    ldiv.solve(A, b).abs().sum().backward()
    wide = [
        x.detach().to(torch.complex128 if x.is_complex() else torch.float64).requires_grad_()
        for x in (a, b)
    ]
    torch.linalg.solve(*(x.to(torch.complex128) for x in wide)).abs().sum().backward()
    for x, reference in zip((a, b), wide, strict=True):
        assert x.grad is not None
        assert x.grad.dtype == x.dtype
        torch.testing.assert_close(x.grad, reference.grad.to(x.dtype), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]


# -- memory layouts -----------------------------------------------------------


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def strided(x: Any) -> Any:
    wide = np.full(tuple(2 * s for s in x.shape), np.nan, x.dtype)
    wide[(np.s_[::2],) * x.ndim] = x
    return wide[(np.s_[::2],) * x.ndim]


def backwards(x: Any) -> Any:
    back = (np.s_[::-1],) * x.ndim
    return x[back].copy()[back]


def transposed(x: Any) -> Any:
    return np.ascontiguousarray(x.T).T


def offset(x: Any) -> Any:
    """A copy that is not aligned to its item size."""
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    return raw


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "read-only": read_only,
    "strided": strided,
    "negative strides": backwards,
    "transposed": transposed,
    "Fortran": np.asfortranarray,
    "unaligned": offset,
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape),
}


def laid_out(kind: str, a: Any, layout: str) -> Any:
    return a if kind == "dense" else sparse(a).with_data(LAYOUTS[layout](sparse(a).data))


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", ["dense", "sparse", "pos", "lower"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
def test_layouts(layout: str, dtype: str, kind: str) -> None:
    lay = LAYOUTS[layout]
    a, b = positive(n=5, dtype=dtype), draw(5, 3, dtype=dtype)
    given = sparse(a).with_data(lay(sparse(a).data)) if kind == "sparse" else lay(a)
    assume = {"pos": "pos", "lower": "lower triangular"}.get(kind, "gen")
    x = ldiv.solve(given, lay(b), assume_a=assume)
    np.testing.assert_allclose(
        x, np.linalg.solve(np.tril(a) if kind == "lower" else a, b), rtol=1e-4
    )


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_are_not_changed(layout: str, kind: str) -> None:
    a, b = dominant(n=5), LAYOUTS[layout](draw(5, 3))
    before_a, before_b = a.copy(), b.copy()
    given = laid_out(kind, a, "read-only")
    _, pullback = ldiv.vjp(ldiv.solve, given, b)
    pullback(np.ones((5, 3)))
    np.testing.assert_array_equal(a, before_a)
    np.testing.assert_array_equal(b, before_b)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_result_is_the_users_own(kind: str) -> None:
    """Writing into a result changes nobody else's."""
    a, b = dominant(n=5), draw(5)
    x = ldiv.solve(a if kind == "dense" else sparse(a), b)
    x[:] = 0.0
    check(kind, a, b)


TORCH_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.mT.contiguous().mT if x.ndim > 1 else x,
    "strided": lambda x: torch.stack([x, x + 1], dim=-1)[..., 0],
    "expanded": lambda x: x[..., :1].expand(x.shape),
    "lazily conjugated": lambda x: x.conj().resolve_conj().conj(),
    "lazily negative": lambda x: (
        torch.complex(-x.real, -x.real).conj().imag if x.is_complex() else x
    ),
    "an imaginary part": lambda x: torch.complex(x.real, x.real).imag if x.is_complex() else x,
}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
def test_layouts_of_torch(layout: str, kind: str) -> None:
    lay = TORCH_LAYOUTS[layout]
    a, b = (
        torch.tensor(dominant(n=5, dtype="complex128")),
        lay(torch.tensor(draw(5, 3, dtype="complex128"))),
    )
    values = a if layout == "expanded" else lay(a).to(a.dtype)
    x = ldiv.solve(values if kind == "dense" else ldiv.asarray(values), b)
    torch.testing.assert_close(x.resolve_conj(), torch.linalg.solve(values, b.to(a.dtype)))


# -- right-hand sides and batches ---------------------------------------------


@pytest.mark.covering(2)
@forms
@frameworks
@pytest.mark.parametrize("k", [0, 1, 2, 7])
def test_right_hand_sides(k: int, to: Any, form: str) -> None:
    check(form, FORMS[form][0](n=5), draw(5, k), to)


@pytest.mark.covering(2)
@forms
@frameworks
@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ((), (3,)),
        ((3,), ()),
        ((3,), (3,)),
        ((2, 1), (3,)),
        ((2, 3), (1, 3)),
        ((1,), (3,)),
        ((), (2, 3)),
        ((0,), ()),
        ((), (0,)),
    ],
)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_batches(n: int, of_a: tuple[int, ...], of_b: tuple[int, ...], to: Any, form: str) -> None:
    check(form, FORMS[form][0](*of_a, n=n), draw(*of_b, n, 2), to)


@pytest.mark.parametrize("form", [f for f in FORMS if f != "product"])
@frameworks
def test_vectors_as_numpy_2_has_it(to: Any, form: str) -> None:
    """Only a one-dimensional b is a vector; it meets every matrix of a batch. A (3, 5) b is no
    batch of vectors.
    """
    a = FORMS[form][0](3, n=5)
    assert check(form, a, draw(5), to).shape == (3, 5)
    assert check(form, a, draw(5, 1), to).shape == (3, 5, 1)
    with pytest.raises(
        ValueError, match=r"b: expected shape \(5,\) or \(\.\.\., 5, k\), got \(3, 5\)"
    ):
        FORMS[form][1](a, to(draw(3, 5)), to)


SHARED: dict[str, Callable[[Any, Any], Any]] = {
    "dense": ldiv.solve,
    "dense pos": lambda a, b: ldiv.solve(a @ a.mT, b, assume_a="pos"),
    "dense triangular": ldiv.solve_triangular,
    "diagonal": lambda a, b: ldiv.solve(a, b, assume_a="diagonal"),
    "sparse": lambda a, b: ldiv.solve(ldiv.asarray(a), b),
    "sparse H": lambda a, b: ldiv.solve(ldiv.asarray(a).H, b),
    "sparse triangular": lambda a, b: ldiv.solve_triangular(ldiv.asarray(a), b),
    "product": lambda a, b: ldiv.asarray(a) @ b,
}


@pytest.mark.covering(2)
@pytest.mark.parametrize(("of_a", "of_b"), [((), (3,)), ((3,), ()), ((3, 1), (2,)), ((1,), (3,))])
@pytest.mark.parametrize("name", SHARED)
def test_cotangents_are_summed_where_an_argument_was_broadcast(
    name: str, of_a: tuple[int, ...], of_b: tuple[int, ...]
) -> None:
    a, b = (
        torch.tensor(dominant(*of_a, n=4), requires_grad=True),
        torch.tensor(draw(*of_b, 4, 2), requires_grad=True),
    )
    batch = np.broadcast_shapes(of_a, of_b)
    together = torch.autograd.grad(SHARED[name](a, b).pow(3).sum(), (a, b))
    copies = a.expand(*batch, 4, 4), b.expand(*batch, 4, 2)
    each = sum(SHARED[name](copies[0][i], copies[1][i]).pow(3).sum() for i in np.ndindex(*batch))
    for got, expected in zip(together, torch.autograd.grad(each, (a, b)), strict=True):  # type: ignore[arg-type]
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


# -- ldiv.vjp and ldiv.jvp on NumPy arrays ------------------------------------

Single = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, tuple[Callable[..., Any], Single]] = {
    "solve": (dominant, ldiv.solve),
    "solve T": (dominant, lambda A, b: ldiv.solve(A, b, trans="T")),
    "solve H": (dominant, lambda A, b: ldiv.solve(A, b, trans="H")),
    "pos": (positive, lambda A, b: ldiv.solve(A, b, assume_a="pos")),
    "sym": (
        lambda **k: positive(**k).real.astype(k["dtype"]),
        lambda A, b: ldiv.solve(A, b, assume_a="sym"),
    ),
    "triangular": (dominant, lambda A, b: ldiv.solve_triangular(A, b, lower=True)),
    "unit triangular H": (
        dominant,
        lambda A, b: ldiv.solve_triangular(A, b, unit_diagonal=True, trans="H"),
    ),
    "product": (
        dominant,
        lambda A, b: (
            (A if isinstance(A, ldiv.SparseArray) else ldiv.Matrix(ldiv.structures.Dense(5, 5), A))
            @ b
        ),
    ),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)
CASES = [("dense", ()), ("sparse", ()), ("dense", (3,)), ("sparse", (3,))]
cases = pytest.mark.parametrize(("kind", "batch"), CASES)


def arguments(
    name: str, kind: str, batch: tuple[int, ...], dtype: str, k: int | None = 2
) -> tuple[Any, Any]:
    a, b = (
        FUNCTIONS[name][0](n=5, dtype=dtype),
        draw(*batch, *((5,) if k is None else (5, k)), dtype=dtype),
    )
    return (sparse(a) if kind == "sparse" else a), b


def directions(name: str, A: Any, b: Any) -> tuple[Any, Any]:
    """Tangents that keep what was promised."""
    if not isinstance(A, ldiv.SparseArray):
        return draw(*A.shape, dtype=A.dtype, seed=5), draw(*b.shape, dtype=b.dtype, seed=6)
    return A.with_data(draw(A.nnz, dtype=A.dtype, seed=5)), draw(*b.shape, dtype=b.dtype, seed=6)


def inner(x: Any, y: Any) -> float:
    x, y = (z.data if isinstance(z, ldiv.SparseArray) else z for z in (x, y))
    return float(np.vdot(x, y).real)


@pytest.mark.covering(2)
@functions
@cases
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_dot_product(dtype: str, kind: str, batch: tuple[int, ...], name: str) -> None:
    """<y_bar, dy> = <A_bar, dA> + <b_bar, db>."""
    A, b = arguments(name, kind, batch, dtype)
    f = FUNCTIONS[name][1]
    dA, db = directions(name, A, b)
    y, pullback = ldiv.vjp(f, A, b)
    z, dy = ldiv.jvp(f, (A, b), (dA, db))
    y_bar = draw(*y.shape, dtype=dtype, seed=7)
    A_bar, b_bar = pullback(y_bar)
    np.testing.assert_allclose(y, z, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(inner(y_bar, dy), inner(A_bar, dA) + inner(b_bar, db), rtol=1e-12)
    assert type(A_bar) is type(A)
    assert A_bar.shape == A.shape
    assert b_bar.shape == b.shape


MEANING: dict[str, Callable[[Any], Any]] = {
    "solve": lambda a: a,
    "solve T": lambda a: a.T,
    "solve H": lambda a: a.T,
    "pos": lambda a: (a + a.T) / 2,
    "sym": lambda a: (a + a.T) / 2,
    "triangular": np.tril,
    "unit triangular H": lambda a: (np.triu(a, 1) + np.eye(5)).T,
    "product": np.linalg.inv,
}


@functions
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_tangent_by_complex_step(kind: str, name: str) -> None:
    """Im f(x + i h dx) / h, exact to rounding: the real formulas on complex numbers, without a
    conjugate.
    """
    A, b = arguments(name, kind, (), "float64")
    dA, db = directions(name, A, b)
    _, dy = ldiv.jvp(FUNCTIONS[name][1], (A, b), (dA, db))
    a, da = (x.toarray() if kind == "sparse" else x for x in (A, dA))
    expected = np.linalg.solve(MEANING[name](a + 1e-40j * da), b + 1e-40j * db).imag / 1e-40
    np.testing.assert_allclose(dy, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.covering(1)
@functions
@pytest.mark.parametrize("given", [(True, False), (False, True), (False, False)])
def test_a_tangent_may_be_none(given: tuple[bool, bool], name: str) -> None:
    A, b = arguments(name, "sparse", (), "float64")
    tangents = tuple(t if g else None for t, g in zip(directions(name, A, b), given, strict=True))
    zeros = tuple(0 * t if not g else t for t, g in zip(directions(name, A, b), given, strict=True))
    f = FUNCTIONS[name][1]
    np.testing.assert_allclose(
        ldiv.jvp(f, (A, b), tangents)[1], ldiv.jvp(f, (A, b), zeros)[1], atol=1e-12
    )


@functions
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_vectors_have_derivatives(kind: str, name: str) -> None:
    A, b = arguments(name, kind, (), "float64", None)
    y, pullback = ldiv.vjp(FUNCTIONS[name][1], A, b)
    block, of_block = ldiv.vjp(FUNCTIONS[name][1], A, b[:, None])
    assert y.shape == b.shape
    # the first solve with a factor carries a probe, and rounds differently
    np.testing.assert_allclose(y, block[:, 0], rtol=1e-13)
    np.testing.assert_allclose(pullback(y)[1], of_block(block)[1][:, 0], rtol=1e-13)


def test_the_pullback_factors_no_more() -> None:
    A, b = arguments("solve", "sparse", (), "float64")
    ldiv.clear_cache()
    y, pullback = ldiv.vjp(ldiv.solve, A, b)
    pullback(y)
    pullback(2 * y)
    assert ldiv.cache_info().factorizations == 1


def test_a_captured_argument_has_no_cotangent() -> None:
    A, b = arguments("solve", "dense", (), "float64")
    y, pullback = ldiv.vjp(lambda b: ldiv.solve(A, b), b)
    (b_bar,) = pullback(y)
    np.testing.assert_allclose(b_bar, np.linalg.solve(A.T, y))


def test_one_array_in_two_places() -> None:
    """Y = A^-1 A: each place has its own cotangent."""
    A = dominant(n=5)
    y, pullback = ldiv.vjp(ldiv.solve, A, A)
    first, second = pullback(y)
    np.testing.assert_allclose(first, -np.linalg.solve(A.T, y) @ y.T, atol=1e-12)
    np.testing.assert_allclose(second, np.linalg.solve(A.T, y), atol=1e-12)


def test_views_and_matrices_are_arguments() -> None:
    A, b = arguments("solve", "sparse", (), "complex128")
    y, pullback = ldiv.vjp(ldiv.solve, A.H, b)
    lam = np.linalg.solve(A.toarray(), y)
    A_bar, b_bar = pullback(y)
    np.testing.assert_allclose(b_bar, lam, atol=1e-12)
    np.testing.assert_allclose(A_bar.toarray(), -lam @ y.conj().T, atol=1e-12)
    D = ldiv.Matrix(ldiv.structures.Diagonal(5), draw(5) + 9)
    y, pullback = ldiv.vjp(ldiv.solve, D, b)
    np.testing.assert_allclose(
        pullback(y)[0].params, -(np.abs(y) ** 2).sum(1) / D.params, atol=1e-12
    )


@pytest.mark.covering(2)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "pos", "diagonal", "triangular"])
@frameworks
def test_values_of_logabsdet(to: Any, kind: str, n: int) -> None:
    a = positive(2, n=n)
    promise = {"pos": "pos", "diagonal": "diagonal", "triangular": "lower triangular"}.get(
        kind, "gen"
    )
    meant = {"diagonal": a * np.eye(n), "triangular": np.tril(a)}.get(kind, a)
    for one, expected in ((a[0], meant[0]), (a, meant)):
        got = ldiv.factorized(
            sparse(one, to) if kind == "sparse" else to(one), assume_a=promise
        ).logabsdet()
        np.testing.assert_allclose(np.asarray(got), np.linalg.slogdet(expected)[1], atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_logabsdet(kind: str) -> None:
    """d log|det A| = tr(A^-1 dA)."""
    a = dominant(n=5)
    A = a if kind == "dense" else sparse(a)
    y, pullback = ldiv.vjp(lambda A: ldiv.factorized(A).logabsdet(), A)
    (A_bar,) = pullback(np.array(2.0))
    np.testing.assert_allclose(y, np.linalg.slogdet(a)[1])
    np.testing.assert_allclose(
        A_bar if kind == "dense" else A_bar.toarray(), 2 * np.linalg.inv(a).T, atol=1e-12
    )


A5, B5 = dominant(n=5), draw(5, 2)
REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "two rules": (
        ValueError,
        "applies one rule, got 2",
        lambda: ldiv.vjp(lambda A, b: ldiv.solve(A, ldiv.solve(A, b)), A5, B5),
    ),
    "no rule": (
        ValueError,
        "applies one rule, got 0",
        lambda: ldiv.vjp(lambda A, b: np.linalg.solve(A, b), A5, B5),
    ),
    "two rules in jvp": (
        ValueError,
        "applies one rule, got 2",
        lambda: ldiv.jvp(lambda A: ldiv.solve(A, ldiv.solve(A, B5)), (A5,), (A5,)),
    ),
    "a copy of b": (
        ValueError,
        "got argument 1 unused, converted, or changed before",
        lambda: ldiv.vjp(lambda A, b: ldiv.solve(A, 2 * b), A5, B5),
    ),
    "a copy of A": (
        ValueError,
        "got argument 0 unused, converted, or changed before",
        lambda: ldiv.vjp(lambda A, b: ldiv.solve(A.copy(), b), A5, B5),
    ),
    "the transpose of A": (
        ValueError,
        "got argument 0 unused, converted, or changed before",
        lambda: ldiv.vjp(lambda A, b: ldiv.solve(A.T, b), A5, B5),
    ),
    "a conversion": (
        ValueError,
        "got argument 1 unused, converted, or changed before",
        lambda: ldiv.vjp(ldiv.solve, A5, B5.astype("float32")),
    ),
    "an argument not used": (
        ValueError,
        "got argument 2 unused, converted, or changed before",
        lambda: ldiv.vjp(lambda A, b, c: ldiv.solve(A, b), A5, B5, draw(3)),
    ),
    "a function of the result": (
        ValueError,
        "returns what the rule returns",
        lambda: ldiv.vjp(lambda A, b: ldiv.solve(A, b) ** 2, A5, B5),
    ),
    "two frameworks": (
        TypeError,
        "all of one framework",
        lambda: ldiv.vjp(ldiv.solve, A5, torch.tensor(B5)),
    ),
    "a list": (TypeError, "all of one framework", lambda: ldiv.vjp(ldiv.solve, A5, [1.0] * 5)),
    "a cotangent of another shape": (
        ValueError,
        r"the shape \(5, 2\) of the value, got \(2, 5\)",
        lambda: ldiv.vjp(ldiv.solve, A5, B5)[1](B5.T),
    ),
    "a tangent too few": (
        ValueError,
        "a tangent, or None, for each argument, got 1 for 2",
        lambda: ldiv.jvp(ldiv.solve, (A5, B5), (A5,)),
    ),
    "a tangent of another shape": (
        ValueError,
        r"the shape \(5, 2\) of its argument, got \(2, 5\)",
        lambda: ldiv.jvp(ldiv.solve, (A5, B5), (None, B5.T)),
    ),
    "a tangent of another pattern": (
        ValueError,
        "pattern",
        lambda: ldiv.jvp(ldiv.solve, (sparse(A5), B5), (ldiv.asarray(A5), None)),
    ),
    "a dense tangent of a sparse array": (
        ValueError,
        "pattern",
        lambda: ldiv.jvp(ldiv.solve, (sparse(A5), B5), (A5, None)),
    ),
    "a torch tangent": (
        TypeError,
        "all of one framework",
        lambda: ldiv.jvp(ldiv.solve, (A5, B5), (None, torch.tensor(B5))),
    ),
}


@pytest.mark.usefixtures("without_autograd")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    error, words, call = REFUSED[name]
    with pytest.raises(error, match=words):
        call()
