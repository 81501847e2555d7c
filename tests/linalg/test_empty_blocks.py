"""No columns, no rows, no matrix in the batch: values, cotangents and second derivatives are
empty, or zeros, of the right shape and dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")

N = 4
rng = np.random.default_rng(5)
GENERAL = rng.standard_normal((N, N)) + 5 * np.eye(N)
POSITIVE = GENERAL @ GENERAL.T
BAND = np.array([[0.0, 1, 1, 1], [4, 4, 4, 4], [1, 1, 1, 0]])
ROW, COL = (i.ravel() for i in np.indices((N, N)))
VALUES = POSITIVE[ROW, COL]


def sparse(values: Any, n: int = N) -> Any:
    at = (ROW, COL) if n else (ROW[:0], COL[:0])
    return ldiv.coo_array((values, at), shape=(n, n))


def solve_sparse(**options: Any) -> Callable[..., Any]:
    return lambda values, b: ldiv.solve(sparse(values, b.shape[-2]), b, **options)


def empty(*shape: int) -> Any:
    return np.zeros(shape)


Case = tuple[Callable[..., Any], tuple[Any, ...]]
SPARSE: dict[str, Case] = {
    **{
        f"{m}, {a}": (solve_sparse(method=m, assume_a=a), (VALUES, empty(N, 0)))
        for m in ("auto", "superlu")
        for a in ("gen", "sym", "pos")
    },
    **{
        f"{m}, k": (solve_sparse(method=m, assume_a="pos"), (VALUES, empty(N, 0)))
        for m in ("cg", "minres", "gmres", "bicgstab")
    },
    "triangle": (solve_sparse(assume_a="lower triangular"), (VALUES, empty(N, 0))),
    "batch of matrices": (solve_sparse(), (np.stack([VALUES, 2 * VALUES]), empty(N, 0))),
    "batch of blocks": (solve_sparse(), (VALUES, empty(3, N, 0))),
    "no matrix": (solve_sparse(), (empty(0, N * N), empty(N, 2))),
    "no block": (solve_sparse(), (VALUES, empty(0, N, 2))),
    "no row": (solve_sparse(), (empty(0), empty(0, 2))),
    "no row, cg": (solve_sparse(method="cg", assume_a="pos"), (empty(0), empty(0, 2))),
    "product": (lambda values, x: sparse(values) @ x, (VALUES, empty(N, 0))),
    "factorized": (
        lambda values, b: ldiv.factorized(sparse(values)).solve(b),
        (VALUES, empty(N, 0)),
    ),
    "block": (
        lambda v, b: ldiv.solve(ldiv.block_array([[sparse(v), None], [None, sparse(v)]]), b),
        (VALUES, empty(2 * N, 0)),
    ),
    "low rank": (
        lambda v, u, b: ldiv.solve(sparse(v) + ldiv.LowRank(u, u), b),
        (VALUES, GENERAL[:, :1].copy(), empty(N, 0)),
    ),
    "eigsh of no matrix": (lambda v: ldiv.eigsh(sparse(v), 2, method="arpack"), (empty(0, N * N),)),
    "lobpcg of no matrix": (
        lambda v: ldiv.eigsh(sparse(v), 2, which="SA", method="lobpcg"),
        (empty(0, N * N),),
    ),
}


def dense() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name, a, band, b in (
        ("k", POSITIVE, BAND, empty(N, 0)),
        ("n", empty(0, 0), empty(3, 0), empty(0, 2)),
        ("batch", empty(0, N, N), empty(0, 3, N), empty(0, N, 2)),
    ):
        systems: dict[str, Callable[..., Any]] = {
            "solve": ldiv.solve,
            "solve_triangular": ldiv.solve_triangular,
            "lu_solve": lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a), b),
            "cho_solve": lambda a, b: ldiv.cho_solve(ldiv.cho_factor(a), b),
            "lstsq": lambda A, b: ldiv.lstsq(A, b).x,
            "quad_form": lambda a, b: ldiv.quad_form(a, b, assume_a="pos"),
            "matmul": ldiv.matmul,
            "Gram": lambda a, b: ldiv.solve(ldiv.Gram(a), b),
        }
        cases |= {f"{f}, {name}": (systems[f], (a, b)) for f in systems}
        cases[f"solve_banded, {name}"] = lambda ab, b: ldiv.solve_banded((1, 1), ab, b), (band, b)
        cases[f"solveh_banded, {name}"] = (
            lambda ab, b: ldiv.solveh_banded(ab, b, lower=True),
            (band[..., 1:, :].copy(), b),
        )
        if name != "k":
            for f in (ldiv.cholesky, ldiv.det, ldiv.qr, ldiv.lu, ldiv.ldl, ldiv.slogdet, ldiv.eigh):
                cases[f"{f.__name__}, {name}"] = f, (a,)
            cases[f"gaussian_kl, {name}"] = ldiv.gaussian_kl, (a, a)
            cases[f"trace_solve, {name}"] = ldiv.trace_solve, (a, a)
    cases["svds, batch"] = lambda a: ldiv.svds(a, 2), (empty(0, 5, 3),)
    cases["eigsh, batch"] = lambda a: ldiv.eigsh(a, 2), (empty(0, N, N),)
    cases["eigenspace, batch"] = lambda a: ldiv.eigenspace(a, 2), (empty(0, N, N),)
    return cases


EVERY = SPARSE | dense()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", EVERY)
def test_torch(name: str, dtype: str) -> None:
    f, args = EVERY[name]
    xs = [torch.tensor(x.astype(dtype), requires_grad=True) for x in args]
    y = f(*xs)
    out = [v for v in (y if isinstance(y, tuple) else (y,)) if v.requires_grad]
    first = torch.autograd.grad(
        out, xs, [torch.ones_like(v) for v in out], allow_unused=True, create_graph=True
    )
    for g, x in zip(first, xs, strict=True):
        assert g is None or (g.shape == x.shape and g.dtype == x.dtype and torch.isfinite(g).all())
    assert not (name in SPARSE and any(g is not None and g.any() for g in first))
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        torch.autograd.grad(again, xs, [torch.ones_like(g) for g in again], allow_unused=True)


@pytest.mark.parametrize(
    "name", [n for n in SPARSE if n not in ("low rank", "block") and "of no matrix" not in n]
)
def test_numpy(name: str) -> None:
    f, args = SPARSE[name]
    y, pull = ldiv.vjp(f, *args)
    for g, x in zip(pull(np.ones_like(y)), args, strict=True):
        assert g.shape == x.shape
        assert not g.any()
    assert ldiv.jvp(f, args, args)[1].shape == y.shape


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    f, args = SPARSE["auto, gen"]
    xs = [jax.numpy.asarray(x, "float32") for x in args]
    for run in (lambda *xs: f(*xs).sum(), jax.jit(lambda *xs: f(*xs).sum())):
        for g, x in zip(jax.grad(run, argnums=(0, 1))(*xs), xs, strict=True):
            assert g.shape == x.shape
            assert not g.any()
