"""solve_triangular: x = op(T)^-1 b, T one triangle of A; the other one, and a unit diagonal, are
not read and have no cotangent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

import ldiv

N = 7
OPTIONS = [
    (lower, unit, trans) for lower in (False, True) for unit in (False, True) for trans in "NTH"
]
options = pytest.mark.parametrize(("lower", "unit", "trans"), OPTIONS)
dtypes = pytest.mark.parametrize("dtype", [float, complex])
kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])
frameworks = pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["NumPy", "torch"])

RNG = np.random.default_rng(0)
AT = np.divmod(RNG.permutation(N * N), N)  # all positions, unsorted
TWICE = tuple(np.concatenate([i, i]) for i in AT)


def draw(*shape: int, dtype: Any = float) -> Any:
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if dtype is complex else x


def full_matrix(*batch: int, dtype: Any = float) -> Any:
    """Both triangles are full: what is read shows."""
    return draw(*batch, N, N, dtype=dtype) + 4 * np.eye(N)


def matrix(a: Any, kind: str) -> Any:
    return a if kind == "dense" else ldiv.coo_array((a[..., *AT], AT), shape=(N, N))


def reference(a: Any, b: Any, lower: bool, unit: bool, trans: str) -> Any:
    return scipy.linalg.solve_triangular(
        a, b, lower=lower, unit_diagonal=unit, trans={"H": "C"}.get(trans, trans)
    )


def triangle(a: Any, lower: bool, unit: bool) -> Any:
    """A triangle in torch, differentiable."""
    inside = torch.tril(a, -unit) if lower else torch.triu(a, +unit)
    return inside + torch.eye(N, dtype=a.dtype) if unit else inside


def op(a: Any, trans: str) -> Any:
    return {"N": a, "T": a.mT, "H": a.mH}[trans]


def close(got: Any, expected: Any, tol: float = 1e-10) -> None:
    got, expected = (
        x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else x
        for x in (got, expected)
    )
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


# -- values -------------------------------------------------------------------


@pytest.mark.covering(2)
@options
@dtypes
@kinds
@frameworks
@pytest.mark.parametrize("k", [None, 0, 1, 3])
def test_values(
    k: int | None, to: Any, kind: str, dtype: Any, lower: bool, unit: bool, trans: str
) -> None:
    a, b = full_matrix(dtype=dtype), draw(*((N,) if k is None else (N, k)), dtype=dtype)
    x = ldiv.solve_triangular(
        matrix(to(a), kind), to(b), lower=lower, unit_diagonal=unit, trans=trans
    )
    close(x, reference(a, b, lower, unit, trans))


@pytest.mark.covering(2)
@options
@kinds
@frameworks
@pytest.mark.parametrize(("batch", "of_b"), [((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (3,))])
def test_batches(
    batch: tuple[int, ...],
    of_b: tuple[int, ...],
    to: Any,
    kind: str,
    lower: bool,
    unit: bool,
    trans: str,
) -> None:
    a, b = full_matrix(*batch), draw(*of_b, N, 2)
    x = ldiv.solve_triangular(
        matrix(to(a), kind), to(b), lower=lower, unit_diagonal=unit, trans=trans
    )
    shape = np.broadcast_shapes(batch, of_b)
    expected = [
        reference(s, r, lower, unit, trans)
        for s, r in zip(
            *(
                np.broadcast_to(y, (*shape, *y.shape[-2:])).reshape(-1, *y.shape[-2:])
                for y in (a, b)
            ),
            strict=True,
        )
    ]
    close(x, np.reshape(expected, (*shape, N, 2)))


@options
@kinds
def test_views_of_a_matrix(kind: str, lower: bool, unit: bool, trans: str) -> None:
    """The lower triangle of A.T is the upper one of A."""
    a, b = full_matrix(dtype=complex), draw(N, dtype=complex)
    A = matrix(a, kind)
    close(
        ldiv.solve_triangular(A.T, b, lower=lower, unit_diagonal=unit, trans=trans),
        reference(a.T, b, lower, unit, trans),
    )
    if kind == "sparse":
        close(
            ldiv.solve_triangular(A.H, b, lower=lower, unit_diagonal=unit, trans=trans),
            reference(a.conj().T, b, lower, unit, trans),
        )


@options
def test_duplicates_add_up(lower: bool, unit: bool, trans: str) -> None:
    a, rest, b = full_matrix(), draw(N, N), draw(N)
    A = ldiv.coo_array((np.concatenate([(a - rest)[AT], rest[AT]]), TWICE), shape=(N, N))
    close(
        ldiv.solve_triangular(A, b, lower=lower, unit_diagonal=unit, trans=trans),
        reference(a, b, lower, unit, trans),
    )


@pytest.mark.parametrize("promise", ["lower triangular", "upper triangular"])
@kinds
def test_a_promise_is_the_same(kind: str, promise: str) -> None:
    a, b = full_matrix(), draw(N)
    close(
        ldiv.solve(matrix(a, kind), b, assume_a=promise, trans="T"),
        reference(a, b, promise.startswith("lower"), False, "T"),
    )


@pytest.mark.covering(2)
@options
@kinds
@frameworks
@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e300])
def test_the_rest_is_not_read(
    junk: float, to: Any, kind: str, lower: bool, unit: bool, trans: str
) -> None:
    a, b = full_matrix(), draw(N)
    spoiled = (
        np.where(np.tri(N, k=-unit, dtype=bool) == lower, a, junk)
        if lower
        else np.where(np.tri(N, k=unit - 1, dtype=bool), junk, a)
    )
    x = ldiv.solve_triangular(
        matrix(to(spoiled), kind), to(b), lower=lower, unit_diagonal=unit, trans=trans
    )
    close(x, reference(a, b, lower, unit, trans))


@pytest.mark.parametrize("lower", [False, True])
def test_a_unit_diagonal_may_be_absent_or_zero(lower: bool) -> None:
    a, b = full_matrix(), draw(N)
    bare = a - np.diag(np.diag(a))
    s = sp.coo_array(bare)
    absent = ldiv.coo_array((s.data, (s.row, s.col)), shape=(N, N))
    for A in (absent, bare, matrix(bare, "sparse")):
        close(
            ldiv.solve_triangular(A, b, lower=lower, unit_diagonal=True),
            reference(a, b, lower, True, "N"),
        )


def test_a_large_sparse_triangle() -> None:
    """A bidiagonal matrix of ones, whose solution is a running sum: exact, and nothing fills in."""
    n = 100_000
    L = ldiv.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, -1])
    x = ldiv.solve_triangular(L, np.ones(n), lower=True)
    np.testing.assert_array_equal(x, np.arange(1.0, n + 1))


@pytest.mark.parametrize("n", [0, 1, 2])
@kinds
def test_small(kind: str, n: int) -> None:
    a, b = np.diag(np.arange(2.0, 2 + n)), np.ones(n)
    close(ldiv.solve_triangular(a if kind == "dense" else ldiv.asarray(a), b), b / np.diag(a))


# -- derivatives --------------------------------------------------------------


def problem(kind: str, dtype: Any, lower: bool, unit: bool, trans: str) -> tuple[Any, Any, Any]:
    """(ldiv's function of (a, b), the dense reference, the arguments)."""

    def mine(a: Any, b: Any) -> Any:
        return ldiv.solve_triangular(
            matrix(a, kind), b, lower=lower, unit_diagonal=unit, trans=trans
        )

    def dense(a: Any, b: Any) -> Any:
        return torch.linalg.solve(op(triangle(a, lower, unit), trans), b)

    return (
        mine,
        dense,
        tuple(map(torch.tensor, (full_matrix(dtype=dtype), draw(N, 2, dtype=dtype)))),
    )


@pytest.mark.covering(2)
@options
@dtypes
@kinds
def test_cotangent(kind: str, dtype: Any, lower: bool, unit: bool, trans: str) -> None:
    mine, dense, args = problem(kind, dtype, lower, unit, trans)
    x_bar = torch.tensor(draw(N, 2, dtype=dtype))
    for got, expected in zip(
        *(torch.func.vjp(f, *args)[1](x_bar) for f in (mine, dense)), strict=True
    ):
        close(got, expected)


@pytest.mark.covering(2)
@options
@dtypes
@kinds
def test_cotangent_is_triangular(
    kind: str, dtype: Any, lower: bool, unit: bool, trans: str
) -> None:
    """Exactly zero outside, and on a unit diagonal; nowhere else."""
    mine, _, args = problem(kind, dtype, lower, unit, trans)
    a_bar = torch.func.grad(lambda *args: mine(*args).abs().sum())(*args)
    inside = torch.tril(torch.ones(N, N), -unit) if lower else torch.triu(torch.ones(N, N), +unit)
    np.testing.assert_array_equal(a_bar.resolve_conj().numpy() != 0, inside.numpy() != 0)


@pytest.mark.covering(2)
@options
@dtypes
@kinds
def test_tangent(kind: str, dtype: Any, lower: bool, unit: bool, trans: str) -> None:
    mine, dense, args = problem(kind, dtype, lower, unit, trans)
    tangents = tuple(torch.tensor(draw(*x.shape, dtype=dtype)) for x in args)
    for got, expected in zip(
        *(torch.func.jvp(f, args, tangents) for f in (mine, dense)), strict=True
    ):
        close(got, expected)


@pytest.mark.covering(2)
@options
@kinds
@pytest.mark.parametrize("outer", [torch.func.jacfwd, torch.func.jacrev])
def test_hessian(outer: Any, kind: str, lower: bool, unit: bool, trans: str) -> None:
    mine, dense, (a, b) = problem(kind, float, lower, unit, trans)
    got, expected = (
        outer(torch.func.grad(lambda a, f=f: (f(a, b[:, :1]) ** 3).sum()))(a) for f in (mine, dense)
    )
    close(got, expected, 1e-8)


@options
@kinds
def test_the_rest_is_not_differentiated(kind: str, lower: bool, unit: bool, trans: str) -> None:
    """NaN in entries that are not read neither enters nor leaves a derivative."""
    mine, _, (a, b) = problem(kind, float, lower, unit, trans)
    read = triangle(torch.ones(N, N, dtype=torch.float64), lower, unit) - (
        torch.eye(N, dtype=torch.float64) if unit else 0
    )
    spoiled = torch.where(read != 0, a, torch.nan).requires_grad_()
    mine(spoiled, b).sum().backward()
    clean = torch.func.grad(lambda a: mine(a, b).sum())(a)
    close(spoiled.grad, clean)


@kinds
def test_derivatives_under_vmap(kind: str) -> None:
    mine, dense, _ = problem(kind, float, True, False, "N")
    args = torch.tensor(full_matrix(3)), torch.tensor(draw(N, 3))
    got, expected = (
        torch.func.vmap(torch.func.grad(lambda a, b, f=f: f(a, b[:, None]).sum()), in_dims=(0, 1))(
            *args
        )
        for f in (mine, dense)
    )
    close(got, expected)


def test_nothing_is_factored_for_a_dense_triangle() -> None:
    a = torch.tensor(full_matrix(), requires_grad=True)
    ldiv.clear_cache()
    ldiv.solve_triangular(a, torch.ones(N, dtype=a.dtype)).sum().backward()
    assert ldiv.cache_info().factorizations == 0


def test_the_adjoint_of_a_sparse_triangle_factors_no_more() -> None:
    a = torch.tensor(full_matrix(), requires_grad=True)
    ldiv.clear_cache()
    ldiv.solve_triangular(matrix(a, "sparse"), torch.ones(N, dtype=a.dtype)).sum().backward()
    assert ldiv.cache_info().factorizations == 1


def test_what_is_not_read_does_not_count() -> None:
    """Matrices with another upper triangle, even of NaN, are the same lower triangular matrix: one
    factorization for all.
    """
    a, b = torch.tensor(full_matrix(), requires_grad=True), torch.ones(N, dtype=torch.float64)
    inside = torch.ones(N, N, dtype=torch.bool).tril()
    kept = [
        ldiv.solve_triangular(matrix(torch.where(inside, a, rest), "sparse"), b, lower=True)
        for rest in (0.0, 1.0, np.nan)
    ]
    assert all(torch.equal(x, kept[0]) for x in kept)
    assert ldiv.cache_info().factorizations == 1
