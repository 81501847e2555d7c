"""Scales at the ends of the range of floating point: the answer is that of the same problem in
other units, or an error says that it overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.core.rules.units import balance
from ldiv.engines.accuracy.scaling import norm

torch = pytest.importorskip("torch")

N = 12
rng = np.random.default_rng(4)
GENERAL = rng.standard_normal((N, N)) + 6 * np.eye(N)
INDEFINITE = GENERAL + GENERAL.T - np.diag(20.0 * (np.arange(N) % 2))
POSITIVE = GENERAL @ GENERAL.T
TALL = rng.standard_normal((7, 3))
B = rng.standard_normal((N, 2))
ROW, COL = (i.ravel() for i in np.indices((N, N)))


def sparse(a: Any) -> Any:
    return ldiv.coo_array((a[ROW, COL], (ROW, COL)), shape=(N, N))


def far(dtype: str) -> int:
    """2^far is where squares and quotients of squares leave the range of a dtype."""
    return 700 if dtype == "float64" else 85


DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])


# -- the powers of two --------------------------------------------------------


@DTYPES
def test_balance_is_a_power_of_two(dtype: str) -> None:
    limits = np.finfo(dtype)
    sizes = np.array([limits.smallest_subnormal, limits.tiny, 1e-7, 0.75, 1, 3, limits.max], dtype)
    t = balance(sizes)
    assert (np.frexp(t)[0] == 0.5).all()
    assert ((sizes * t * t > 0.2499) & (sizes * t * t <= 1)).all()
    assert balance(np.array([0.0], dtype)) == balance(np.array([1.0], dtype))
    assert balance(np.array([np.inf], dtype)) == balance(limits.max)
    np.testing.assert_allclose(norm(np.array([3e-320, 4e-320, 0.0]), 0), 5e-320, rtol=1e-3)
    np.testing.assert_allclose(norm(np.array([3e307 + 4e307j, 0]), 0), 5e307)


# -- iterations ---------------------------------------------------------------

ITERATIONS = [
    ("cg", POSITIVE, "pos", "jacobi"),
    ("minres", INDEFINITE, "her", None),
    ("minres", POSITIVE, "pos", "jacobi"),
    ("gmres", GENERAL, "gen", "jacobi"),
    ("bicgstab", GENERAL, "gen", "jacobi"),
]


@DTYPES
@pytest.mark.parametrize(("method", "a", "assume_a", "M"), ITERATIONS)
@pytest.mark.parametrize("make", [sparse, np.asarray], ids=["sparse", "dense"])
def test_an_iteration_knows_no_scale(
    make: Any, method: str, a: Any, assume_a: str, M: Any, dtype: str
) -> None:
    a, b, big = a.astype(dtype), B.astype(dtype), far(dtype)

    def run(of_A: int, of_b: int) -> Any:
        A, rhs = make(np.ldexp(a, of_A)), np.ldexp(b, of_b)
        plain = ldiv.solve(A, rhs, assume_a=assume_a, method=method)
        options = {"method": method, "x0": np.ldexp(np.ones_like(b), of_b - of_A)}
        return np.stack(
            [plain, ldiv.solve(A, rhs, assume_a=assume_a, M=M, **options) if M else plain]
        )

    x = run(0, 0)
    for scale in (
        (big, 0),
        (-big, 0),
        (big, big),
        (-big, -big),
        (0, big),
        (0, -big),
        (big, big + 30),
    ):
        np.testing.assert_allclose(
            np.ldexp(run(*scale), scale[0] - scale[1]),
            x,
            rtol=0,
            atol=(1e-3 if dtype == "float32" else 1e-8) * np.abs(x).max(),
        )


def test_a_preconditioner_of_any_scale() -> None:
    x = ldiv.solve(POSITIVE, B, assume_a="pos")
    for method in ("cg", "minres", "gmres", "bicgstab"):
        for scale in (1e200, 1e-200):
            near = ldiv.Matrix(ldiv.structures.Dense(N, N), scale * np.diag(1 / np.diag(POSITIVE)))
            np.testing.assert_allclose(
                ldiv.solve(POSITIVE, B, assume_a="pos", method=method, M=near), x, rtol=1e-8
            )


# -- eigenpairs ---------------------------------------------------------------

LADDER = np.diag(np.arange(1.0, N + 1)) + 0.1 * (np.eye(N, k=1) + np.eye(N, k=-1))
METRIC = np.diag(np.linspace(1, 2, N))
START = rng.standard_normal((N, 2))
EIGEN: dict[str, Callable[[Any, Any], Any]] = {
    "eigh": lambda A, M: ldiv.eigh(A),
    "eigh, B": lambda A, M: ldiv.eigh(A, M, (0, 1)),
    "lapack, sigma": lambda A, M: ldiv.eigsh(A, 2, sigma=0.0, method="lapack"),
    "arpack": lambda A, M: ldiv.eigsh(sparse(A), 2, which="LA", method="arpack"),
    "arpack, M": lambda A, M: ldiv.eigsh(sparse(A), 2, sparse(M), which="SA", method="arpack"),
    "arpack, sigma": lambda A, M: ldiv.eigsh(
        sparse(A), 2, sparse(M), sigma=(1.7 * A[0, 0] / M[0, 0]).item(), method="arpack"
    ),
    "lobpcg": lambda A, M: ldiv.lobpcg(
        sparse(A), torch.tensor(START, dtype=A.dtype), sparse(M), largest=False
    ),
    "svds": lambda A, M: ldiv.svds(A, 2)[1::-1],
}


@DTYPES
@pytest.mark.parametrize("name", EIGEN)
def test_eigenpairs_know_no_scale(name: str, dtype: str) -> None:
    """Eigenvalues, the projector on the vectors, and the derivative of a loss of both."""
    v = torch.tensor(rng.standard_normal(N), dtype=getattr(torch, dtype))

    def run(of_A: int, of_M: int) -> list[Any]:
        A = torch.tensor(np.ldexp(LADDER, of_A).astype(dtype), requires_grad=True)
        M = torch.tensor(np.ldexp(METRIC, of_M).astype(dtype))
        w, X = EIGEN[name](A, M)
        turned = X * v[: len(X), None] * 2.0 ** (of_pencil(of_M) / 2)
        weights = torch.arange(1.0, len(w) + 1, dtype=w.dtype)
        loss = (turned.sum(0) ** 2 * weights).sum() + (w * weights).sum() * 2.0 ** -(
            of_A - of_pencil(of_M)
        )
        (g,) = torch.autograd.grad(loss, A)
        return [
            np.ldexp(w.detach().numpy(), -of_A + of_pencil(of_M)),
            loss.item(),
            np.ldexp(g.numpy(), of_A),
        ]

    def of_pencil(of_M: int) -> int:
        return of_M if name in ("eigh, B", "arpack, M", "arpack, sigma", "lobpcg") else 0

    expected, big, tol = run(0, 0), far(dtype), {"float64": 1e-7, "float32": 2e-2}[dtype]
    for scale in ((big, 0), (-big, 0), (-40, 0), (40, 0), (big, big - 20), (-big, -big + 20)):
        for got, value in zip(run(*scale), expected, strict=True):
            assert np.abs(got - value).max() <= tol * np.abs(value).max(), scale


def test_small_eigenvalues_keep_their_digits() -> None:
    """ARPACK by itself stops at residuals of eps^(2/3), whatever the eigenvalues are."""
    d = 1e-14 * np.linspace(1, 2, 500) ** 2
    w = ldiv.eigsh(ldiv.diags_array([d], offsets=[0]), 3, which="LA", method="arpack")[0]
    np.testing.assert_allclose(w, d[-3:], rtol=1e-12)


# -- numbers so small that their reciprocals overflow -------------------------


@pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["NumPy", "torch"])
def test_denormal_matrices_are_factored(to: Any) -> None:
    e = -1030
    for a in (INDEFINITE, np.stack([INDEFINITE, 2 * POSITIVE])):
        small = np.ldexp(a, e)
        P, L, U = map(np.asarray, ldiv.lu(to(small)))
        np.testing.assert_allclose(P @ L @ np.ldexp(U, -e), np.ldexp(small, -e), atol=1e-10)
        L, D, _ = map(np.asarray, ldiv.ldl(to(small)))
        np.testing.assert_allclose(L @ np.ldexp(D, -e) @ L.mT, np.ldexp(small, -e), atol=1e-10)
        _, l = map(np.asarray, ldiv.slogdet(to(small)))
        np.testing.assert_allclose(l, np.linalg.slogdet(a)[1] + N * e * np.log(2), rtol=1e-12)
    for dtype, e in (("float64", -1030), ("float32", -135)):
        small = np.ldexp(POSITIVE, e).astype(dtype)
        L = np.asarray(ldiv.cholesky(to(small))).astype(np.float64)
        np.testing.assert_allclose(
            np.ldexp(L @ L.T, -e), np.ldexp(small.astype(np.float64), -e), rtol=1e-3, atol=1e-3
        )
    x = ldiv.solve(sparse(to(np.ldexp(GENERAL, -1030))), to(np.ldexp(B, -1030)))
    np.testing.assert_allclose(x, np.linalg.solve(GENERAL, B), rtol=1e-10)


def test_least_squares_know_no_scale() -> None:
    b = rng.standard_normal(7)
    x = ldiv.lstsq(TALL, b).x
    for scale in (1e200, 1e-200, 1e300, 1e-300):
        np.testing.assert_allclose(ldiv.lstsq(scale * TALL, b).x * scale, x, rtol=1e-12)


# -- what overflows raises ----------------------------------------------------

TRIANGLE = np.tril(GENERAL)
OVERFLOWING: dict[str, Callable[[Any], Any]] = {
    "solve": lambda to: ldiv.solve(to(1e-200 * GENERAL), to(1e200 * B)),
    "solve, cg": lambda to: ldiv.solve(
        to(1e-200 * POSITIVE), to(1e200 * B), assume_a="pos", method="cg"
    ),
    "diagonal": lambda to: ldiv.solve(
        ldiv.Matrix(ldiv.structures.Diagonal(2), to(np.array([1.0, 1e-310]))), to(np.ones(2))
    ),
    "triangle": lambda to: ldiv.solve_triangular(
        to(np.array([[1.0, 1.0], [0.0, 1e-310]])), to(np.ones(2))
    ),
    "solve_banded": lambda to: ldiv.solve_banded(
        (0, 0), to(np.full((1, 3), 1e-200)), to(np.full(3, 1e200))
    ),
    "lstsq": lambda to: ldiv.lstsq(to(1e-200 * TALL), to(np.full(7, 1e200))),
    "qr": lambda to: ldiv.qr(to(np.full((4, 1), 1.7e308))),
    "eigh": lambda to: ldiv.eigh(to(np.full((3, 3), 1.7e308))),
    "quad_form": lambda to: ldiv.quad_form(to(POSITIVE), to(1e200 * B), assume_a="pos"),
    "quad_form, general": lambda to: ldiv.quad_form(to(GENERAL), to(1e200 * B)),
    "trace_solve": lambda to: ldiv.trace_solve(to(np.eye(3)), to(1.7e308 * np.eye(3))),
    "trace_solve, sparse": lambda to: ldiv.trace_solve(
        to(np.eye(N)), sparse(to(1.7e308 * np.eye(N)))
    ),
    "det": lambda to: ldiv.det(to(1e200 * GENERAL)),
    "gaussian_logpdf": lambda to: ldiv.gaussian_logpdf(to(1e200 * B[:, 0]), to(TRIANGLE)),
    "gaussian_kl": lambda to: ldiv.gaussian_kl(to(1e200 * TRIANGLE), to(TRIANGLE)),
    "gaussian_kl, denormal": lambda to: ldiv.gaussian_kl(to(np.eye(2)), to(1e-309 * np.eye(2))),
}


@pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["NumPy", "torch"])
@pytest.mark.parametrize("name", OVERFLOWING)
def test_overflow_raises(name: str, to: Any) -> None:
    with pytest.raises(ldiv.LinAlgOverflowError, match="overflows"):
        OVERFLOWING[name](to)


def test_overflow_raises_in_a_trace() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(Exception, match="overflows"):
        jax.jit(lambda A, x: ldiv.quad_form(A, x, assume_a="pos"))(
            jax.numpy.eye(3, dtype="float32"), jax.numpy.full(3, 1e30, "float32")
        ).block_until_ready()


BACKWARD: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
    "solve": (ldiv.solve, (1e-200 * GENERAL, B), 1.0),
    "solve, sparse": (lambda A, b: ldiv.solve(sparse(A), b), (1e-200 * GENERAL, B), 1.0),
    "a cotangent": (ldiv.solve, (GENERAL, 1e200 * B), 1e200),
    "a cotangent, float32": (
        ldiv.solve,
        (GENERAL.astype("float32"), 1e20 * B.astype("float32")),
        1e20,
    ),
    "cholesky": (ldiv.cholesky, (1e-300 * POSITIVE,), 1e300),
    "eigh": (lambda A: ldiv.eigh(A)[1], (1e-300 * LADDER,), 1e100),
    "quad_form": (lambda A, x: ldiv.quad_form(A, x, assume_a="pos"), (1e-200 * POSITIVE, B), 1.0),
    "logdet": (
        lambda A: ldiv.logdet(A, assume_a="pos"),
        (1e-310 * np.diag(np.arange(1.0, 5)),),
        1.0,
    ),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_a_derivative_that_overflows_raises(name: str) -> None:
    f, args, size = BACKWARD[name]
    args = tuple(torch.tensor(x, requires_grad=True) for x in args)
    y = f(*args)
    assert torch.isfinite(y).all()
    with pytest.raises(np.linalg.LinAlgError):
        torch.autograd.grad(y, args, torch.full_like(y, size))


def test_the_derivatives_of_numpy_too() -> None:
    x, pull = ldiv.vjp(ldiv.solve, 1e-200 * GENERAL, B)
    with pytest.raises(ldiv.LinAlgOverflowError):
        pull(np.ones_like(x))
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.jvp(ldiv.solve, (1e-200 * GENERAL, B), (GENERAL, None))


def test_products_overflow_as_in_numpy() -> None:
    a = np.full((2, 2), 1e200)
    with np.errstate(over="ignore"):
        assert np.isinf(ldiv.gemm(1.0, a, a)).all()
        assert np.isinf(ldiv.matmul(a, a)).all()


def test_what_is_not_finite_is_said_to_be_that() -> None:
    with pytest.raises(ValueError, match="expected finite numbers") as caught:
        ldiv.gaussian_kl(np.full((2, 2), np.nan), np.eye(2))
    assert not isinstance(caught.value, OverflowError)


# -- what is no number to count with ------------------------------------------


@pytest.mark.parametrize("name", ["rtol", "atol", "maxiter"])
@pytest.mark.parametrize("value", [np.inf, np.nan, -1.0])
def test_tolerances_are_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        ldiv.solve(POSITIVE, B, assume_a="pos", method="cg", **{name: value})


@pytest.mark.parametrize("tol", [np.inf, np.nan])
def test_tolerances_of_roots_and_eigenpairs_are_finite(tol: float) -> None:
    with pytest.raises(ValueError, match="tol"):
        ldiv.root(
            lambda x, p: x**2 - p,
            torch.ones(1, dtype=torch.float64),
            (torch.ones(1, dtype=torch.float64),),
            tol=tol,
        )
    with pytest.raises(ValueError, match="tol"):
        ldiv.eigsh(LADDER, 2, tol=tol)


@pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["NumPy", "torch"])
def test_a_tape_refuses_what_is_not_finite(to: Any) -> None:
    for a, b in (
        (np.nan * TRIANGLE, B),
        (TRIANGLE, np.nan * B),
        (TRIANGLE, np.inf * B),
        (np.where(np.eye(N) == 1, np.inf, TRIANGLE), B),
    ):
        with pytest.raises(ValueError, match="expected finite numbers"):
            ldiv.Tape().solve_triangular(to(a), to(b.copy()), lower=True)
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.Tape().solve_triangular(to(1e-200 * TRIANGLE), to(1e200 * B), lower=True)
    unread = np.where(np.triu(np.ones((N, N)), 1) == 1, np.nan, TRIANGLE)
    x, tape = to(B.copy()), ldiv.Tape()
    tape.solve_triangular(to(unread), x, lower=True)
    np.testing.assert_allclose(x, np.linalg.solve(TRIANGLE, B), rtol=1e-10)
    dB = to(np.full_like(B, np.nan))
    tape.solve_triangular(to(TRIANGLE), ldiv.Duplicated(to(B.copy()), dB), lower=True)
    with pytest.raises(ValueError, match="the shadow of B: expected finite"):
        tape.reverse()
