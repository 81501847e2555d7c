"""LU, Cholesky, LDL, QR and least squares: SciPy's values, derivatives by complex steps of plain
formulas, and refusals where there are none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch

import ldiv
from ldiv.linalg.factorizations.cholesky import cho_factor, cho_solve, cholesky
from ldiv.linalg.factorizations.ldl import ldl
from ldiv.linalg.factorizations.lu import lu, lu_factor, lu_factor_ex, lu_solve
from ldiv.linalg.factorizations.qr import qr

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

SIZES = [0, 1, 2, 5, 33]
SHAPES = list(itertools.product(SIZES, SIZES))
DTYPES = ["float32", "float64", "complex64", "complex128"]
FRAMEWORKS = {"NumPy": np.asarray, "torch": torch.asarray, "JAX": jax.numpy.asarray}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.mT).mT,
    "strided": lambda a: np.repeat(np.repeat(a, 2, axis=-1), 3, axis=-2)[..., ::3, ::2],
}


def lstsq(a: Any, b: Any) -> Any:
    """The solution alone."""
    return ldiv.lstsq(a, b).x


def drawn(*shape: int, dtype: Any = float, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().mT


def definite(*shape: int, dtype: Any = float) -> Any:
    a = drawn(*shape, dtype=dtype)
    return a @ adjoint(a) + np.eye(shape[-1], dtype=dtype)


def indefinite(*shape: int, dtype: Any = float) -> Any:
    """An indefinite matrix whose zero diagonal makes blocks of two."""
    a = drawn(*shape, dtype=dtype)
    return (a + adjoint(a)) * (1 - np.eye(shape[-1])).astype(dtype)


def close(got: Any, expected: Any, tol: float = 1e-10) -> None:
    got, expected = (
        np.asarray(x.detach().resolve_conj() if isinstance(x, torch.Tensor) else x)
        for x in (got, expected)
    )
    assert got.shape == expected.shape
    scale = max(1.0, np.abs(expected).max()) if expected.size else 1.0
    np.testing.assert_allclose(got, expected, rtol=0, atol=tol * scale)


def tolerance(dtype: Any) -> float:
    return 2e-4 if np.dtype(dtype).itemsize in (4, 8) and np.finfo(dtype).bits == 32 else 1e-10


# -- values -------------------------------------------------------------------


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", ["NumPy", "torch"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rectangular_values_are_scipys(shape: tuple[int, int], framework: str, dtype: str) -> None:
    to, tol = FRAMEWORKS[framework], tolerance(dtype)
    a, b, k = drawn(*shape, dtype=dtype), drawn(shape[0], 2, dtype=dtype), min(shape)
    packed, piv = lu_factor(to(a))
    P, L, U = lu(to(a))
    Q, R = qr(to(a))
    x = lstsq(to(a), to(b))
    close(P @ L @ U, a, tol)
    close(Q @ R, a, tol)
    assert [tuple(y.shape) for y in (P, L, U, Q, R, piv)] == [
        (shape[0],) * 2,
        (shape[0], k),
        (k, shape[1]),
        (shape[0], k),
        (k, shape[1]),
        (k,),
    ]
    if k:
        expected, pivots = scipy.linalg.lu_factor(a)
        close(packed, expected, tol)
        assert np.array_equal(np.asarray(piv), pivots)
        for got, y in zip(
            (P, L, U, Q, R),
            (*scipy.linalg.lu(a), *scipy.linalg.qr(a, mode="economic")),
            strict=True,
        ):
            close(got, y.astype(dtype), tol)
        close(x, scipy.linalg.lstsq(a, b)[0], 50 * tol)
        close(lstsq(to(a), to(b[:, 0])), x[:, 0], tol)


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", ["NumPy", "torch"])
@pytest.mark.parametrize("n", SIZES)
def test_square_values_are_scipys(n: int, framework: str, dtype: str) -> None:
    to, tol = FRAMEWORKS[framework], tolerance(dtype)
    a, h, b = definite(n, n, dtype=dtype), indefinite(n, n, dtype=dtype), drawn(n, 2, dtype=dtype)
    close(cholesky(to(a)), np.linalg.cholesky(a), tol)
    close(cholesky(to(a), lower=False), adjoint(np.linalg.cholesky(a)), tol)
    for rhs, x in ((b, np.linalg.solve(a, b)), (b[:, 0], np.linalg.solve(a, b[:, 0]))):
        for lower in (True, False):
            close(cho_solve(cho_factor(to(a), lower), to(rhs)), x, 50 * tol)
        for trans, op in ((0, a), ("T", a.mT), (2, adjoint(a))):
            close(lu_solve(lu_factor(to(a)), to(rhs), trans), np.linalg.solve(op, rhs), 50 * tol)
    for lower, hermitian in itertools.product((True, False), (True, False)):
        s = h if hermitian else h + h.mT
        L, D, perm = ldl(to(s), lower, hermitian)
        close(L @ D @ (adjoint(L) if hermitian else L.mT), s, tol)
        if n:
            for got, y in zip((L, D), scipy.linalg.ldl(s, lower, hermitian)[:2], strict=True):
                close(got, y, tol)
            inside = L[perm]
            close(inside, np.tril(inside) if lower else np.triu(inside))


@pytest.mark.parametrize(
    "framework", ["NumPy", "torch", pytest.param("JAX", marks=pytest.mark.exhaustive)]
)
def test_batches_are_stacks(framework: str) -> None:
    to = FRAMEWORKS[framework]
    a, t, b = drawn(3, 2, 4, 4), drawn(3, 2, 5, 3), drawn(3, 2, 4, 2)
    s, h = definite(3, 2, 4, 4), indefinite(3, 2, 4, 4)
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x: lu_factor(x), (t,)),
        (lambda x: lu(x), (t,)),
        (lambda x: qr(x), (t.mT,)),
        (lambda x: (cholesky(x),), (s,)),
        (lambda x: ldl(x), (h,)),
        (lambda x: (lu_factor_ex(x)[2],), (a,)),
        (lambda x, y: (lu_solve(lu_factor(x), y, "T"),), (a, b)),
        (lambda x, y: (cho_solve(cho_factor(x), y),), (s, b)),
        (lambda x, y: (lstsq(x, y),), (t, drawn(3, 2, 5, 2))),
        (lambda x, y: (lstsq(x, y),), (t.mT, drawn(3, 2, 3, 1))),
    ]
    for f, args in cases:
        together = f(*map(to, args))
        for i in ((0, 1), (2, 0)):
            for got, expected in zip(together, f(*(x[i] for x in args)), strict=True):
                close(np.asarray(got)[i], expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_read_only(layout: str) -> None:
    a, s, h, t = drawn(2, 5, 3), definite(4, 4, dtype=complex), indefinite(4, 4), drawn(3, 5)
    for f, x in (
        (lu_factor, a),
        (qr, a),
        (cholesky, s),
        (ldl, h),
        (lu, t),
        (lambda t: (lstsq(t, np.ones(3)),), t),
    ):
        y = LAYOUTS[layout](x)
        y.flags.writeable = False
        for got, expected in zip(f(y), f(x), strict=True):
            close(got, expected)


def test_right_hand_sides_broadcast_and_mix() -> None:
    a, s, b = drawn(4, 4), definite(2, 1, 4, 4), drawn(3, 4, 2, dtype=complex)
    close(lu_solve(lu_factor(a), b), np.linalg.solve(a, b))
    close(lu_solve(lu_factor(s), b, 1), np.linalg.solve(s.mT, b))
    close(cho_solve(cho_factor(s), b), np.linalg.solve(s, b))
    close(lstsq(a[:, :2], b), np.linalg.pinv(a[:, :2]) @ b)
    close(
        lstsq(torch.asarray(a[:2].astype(complex)), torch.asarray(b[0, :2].real)),
        np.linalg.pinv(a[:2]) @ b[0, :2].real,
    )
    assert cholesky(torch.eye(3, dtype=torch.float32)).dtype == torch.float32


# -- derivatives: the imaginary part of plain formulas, in which nothing is conjugated ---


def plain_lu(a: Any) -> Any:
    """LAPACK's, which does not warn of a zero pivot."""
    return scipy.linalg.get_lapack_funcs("getrf", (a,))(a)[0]


def plain_cholesky(a: Any) -> Any:
    c = np.array(a + a.T, complex) / 2
    for j in range(len(c)):
        c[j, j] = np.sqrt(c[j, j] - (c[j, :j] ** 2).sum())
        c[j + 1 :, j] = (c[j + 1 :, j] - c[j + 1 :, :j] @ c[j, :j]) / c[j, j]
    return np.tril(c)


def plain_qr(a: Any) -> Any:
    """Factor A by A^T A = R^T R, with the signs of LAPACK."""
    m, n = a.shape
    lead = a[:, : min(m, n)]
    signs = np.sign(np.diag(scipy.linalg.qr(lead.real, mode="economic")[1]))
    r = signs[:, None] * plain_cholesky(lead.T @ lead).T
    q = np.linalg.solve(r.T, lead.T).T
    return np.concatenate([q.ravel(), (q.T @ a).ravel()])


def plain_ldl(a: Any) -> Any:
    """Factor with the order and the blocks of the real part."""
    _, d, order = scipy.linalg.ldl(a.real)
    c, n = ((a + a.T) / 2).astype(complex)[order][:, order], len(a)
    L, D, j = np.eye(n, dtype=complex), np.zeros((n, n), complex), 0
    while j < n:
        block = slice(j, j + 1 + (j + 1 < n and d[j + 1, j] != 0))
        rest, j = slice(block.stop, n), block.stop
        D[block, block] = c[block, block]
        L[rest, block] = np.linalg.solve(c[block, block].T, c[rest, block].T).T
        c[rest, rest] = c[rest, rest] - L[rest, block] @ c[block, rest]
    return np.concatenate([L[np.argsort(order)].ravel(), D.ravel()])


def plain_lstsq(a: Any) -> Any:
    m, n = a.shape
    b = drawn(m, 2, seed=9)
    return np.linalg.solve(a.T @ a, a.T @ b) if m >= n else a.T @ np.linalg.solve(a @ a.T, b)


def _flat(outputs: Any) -> Any:
    """Flatten the outputs, in torch or JAX."""
    xp = torch if isinstance(outputs[0], torch.Tensor) else jax.numpy
    return xp.concatenate([x.reshape(-1) for x in outputs])


def singular_last() -> Any:
    """The last pivot is exactly zero: small integers, and a row twice as large as another."""
    a = np.array([[8.0, 4, 2], [4, 4, 2], [2, 0, 0]])
    assert plain_lu(a)[2, 2] == 0
    return a


SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "lu": (lambda a: _flat(lu_factor(a)[:1]), lambda a: plain_lu(a).ravel(), drawn(5, 5)),
    "lu, tall": (lambda a: _flat(lu_factor(a)[:1]), lambda a: plain_lu(a).ravel(), drawn(7, 3)),
    "lu, wide": (lambda a: _flat(lu_factor(a)[:1]), lambda a: plain_lu(a).ravel(), drawn(3, 7)),
    "lu, one column": (
        lambda a: _flat(lu_factor(a)[:1]),
        lambda a: plain_lu(a).ravel(),
        drawn(5, 1),
    ),
    "lu, one row": (lambda a: _flat(lu_factor(a)[:1]), lambda a: plain_lu(a).ravel(), drawn(1, 5)),
    "lu, 33": (lambda a: _flat(lu_factor(a)[:1]), lambda a: plain_lu(a).ravel(), drawn(33, 33)),
    "P L U": (
        lambda a: _flat(lu(a)[1:]),
        lambda a: np.concatenate([x.ravel() for x in scipy.linalg.lu(a)[1:]]),
        drawn(4, 6),
    ),
    "cholesky": (
        lambda a: cholesky(a).reshape(-1),
        lambda a: plain_cholesky(a).ravel(),
        definite(5, 5),
    ),
    "cholesky, upper": (
        lambda a: cholesky(a, lower=False).reshape(-1),
        lambda a: plain_cholesky(a).T.ravel(),
        definite(4, 4),
    ),
    "qr": (lambda a: _flat(qr(a)), plain_qr, drawn(5, 5)),
    "qr, tall": (lambda a: _flat(qr(a)), plain_qr, drawn(7, 3)),
    "qr, wide": (lambda a: _flat(qr(a)), plain_qr, drawn(3, 7)),
    "ldl, pivots": (
        lambda a: _flat(ldl(a)[:2]),
        plain_ldl,
        np.diag([3.0, -4, 5, -6]) + 0.1 * (drawn(4, 4) + drawn(4, 4).T),
    ),
    "ldl, blocks": (lambda a: _flat(ldl(a)[:2]), plain_ldl, indefinite(6, 6)),
    "ldl, odd": (lambda a: _flat(ldl(a)[:2]), plain_ldl, indefinite(5, 5)),
    "lu_solve": (
        lambda a: lu_solve(lu_factor(a), a[:, :2], 1).reshape(-1),
        lambda a: np.linalg.solve(a.T, a[:, :2]).ravel(),
        drawn(5, 5),
    ),
    "cho_solve": (
        lambda a: cho_solve(cho_factor(a), a[:, :2] * a[:1, :2]).reshape(-1),
        lambda a: np.linalg.solve((a + a.T) / 2, a[:, :2] * a[:1, :2]).ravel(),
        definite(5, 5),
    ),
    "lstsq": (
        lambda a: lstsq(a, _like(a)).reshape(-1),
        lambda a: plain_lstsq(a).ravel(),
        drawn(7, 3),
    ),
    "lstsq, square": (
        lambda a: lstsq(a, _like(a)).reshape(-1),
        lambda a: plain_lstsq(a).ravel(),
        drawn(4, 4),
    ),
    "lstsq, wide": (
        lambda a: lstsq(a, _like(a)).reshape(-1),
        lambda a: plain_lstsq(a).ravel(),
        drawn(3, 7),
    ),
}


def _like(a: Any) -> Any:
    b = drawn(a.shape[0], 2, seed=9)
    return torch.asarray(b) if isinstance(a, torch.Tensor) else jax.numpy.asarray(b)


def stepped(f: Callable[[Any], Any], a: Any, d: Any) -> Any:
    return f(a + 1e-30j * d).imag / 1e-30


def test_last_pivot_exactly_zero_has_a_derivative() -> None:
    a = singular_last()
    x, d, w = torch.asarray(a), torch.asarray(drawn(3, 3)), torch.asarray(drawn(3, 3, seed=1))
    f = lambda x: lu_factor(x)[0]
    moved = torch.func.jvp(f, (x,), (d,))[1]
    close(moved, stepped(plain_lu, a, drawn(3, 3)), 1e-12)
    (pulled,) = torch.func.vjp(f, x)[1](w)
    assert abs(float((pulled * d).sum() - (w * moved).sum())) < 1e-12
    for order in (torch.func.jacrev(torch.func.jacfwd(f)), torch.func.jacfwd(torch.func.jacrev(f))):
        assert torch.isfinite(order(x)).all()
    assert int(lu_factor_ex(a)[2]) == 3
    g = jax.jit(jax.grad(lambda x: (lu_factor(x)[0] * w.numpy()).sum()))
    close(g(jax.numpy.asarray(a)), pulled, 1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_in_torch(name: str) -> None:
    """First by complex step; second, in all four compositions, by differences of it."""
    f, plain, a = SMOOTH[name]
    d, e = drawn(*a.shape, seed=1), drawn(*a.shape, seed=2)
    if "33" not in name:
        assert np.abs(plain(a).real - f(torch.asarray(a)).numpy()).max() < 1e-12 * max(
            1, np.abs(plain(a)).max()
        )
    expected = stepped(plain, a, d)
    x, dx, ex = map(torch.asarray, (a, d, e))
    w = torch.asarray(drawn(len(expected), seed=3))
    close(torch.func.jvp(f, (x,), (dx,))[1], expected, 1e-11)
    (pulled,) = torch.func.vjp(f, x)[1](w)
    close((pulled * dx).sum(), w.numpy() @ expected, 1e-11)
    y = x.clone().requires_grad_()
    close(torch.autograd.grad((f(y) * w).sum(), y)[0], pulled, 1e-12)
    if "33" in name:
        return
    loss = lambda x: (w * f(x) + f(x) ** 2 / 2).sum()
    first = lambda a: float((w.numpy() + plain(a).real) @ stepped(plain, a, d))
    h = 1e-5
    second = (first(a + h * e) - first(a - h * e)) / (2 * h)
    tangent = lambda x: torch.func.jvp(loss, (x,), (dx,))[1]
    slope = lambda x: (torch.func.grad(loss)(x) * dx).sum()
    for inner in (tangent, slope):
        for value in (
            torch.func.jvp(inner, (x,), (ex,))[1],
            (torch.func.grad(inner)(x) * ex).sum(),
        ):
            close(value / second, np.ones(()), 1e-5)


@pytest.mark.parametrize(
    "names",
    [
        ("lu", "cholesky"),
        pytest.param(("qr, tall", "ldl, blocks"), marks=pytest.mark.exhaustive),
        pytest.param(("lstsq, wide", "lu_solve"), marks=pytest.mark.exhaustive),
    ],
)
def test_jit_and_vmap_in_jax(names: tuple[str, str]) -> None:
    """The gradient, compiled and over a leading axis, is that of torch, one by one."""
    fs, at = [SMOOTH[name][0] for name in names], [SMOOTH[name][2] for name in names]
    stacks = [np.stack([a, 1.25 * a]) for a in at]
    loss = lambda *xs: sum((f(x) ** 3).sum() for f, x in zip(fs, xs, strict=True))
    got = jax.jit(jax.vmap(jax.grad(loss, argnums=(0, 1))))(*map(jax.numpy.asarray, stacks))
    vmapped = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(*map(torch.asarray, stacks))
    for i in range(2):
        one = torch.func.grad(loss, argnums=(0, 1))(*(torch.asarray(x[i]) for x in stacks))
        for g, v, expected in zip(got, vmapped, one, strict=True):
            close(g[i], expected)
            close(v[i], expected)


def test_cotangents_keep_their_structure() -> None:
    a = torch.asarray(definite(4, 4, dtype=complex), dtype=torch.complex128).requires_grad_()
    (g,) = torch.autograd.grad(
        (cholesky(a) * torch.asarray(drawn(4, 4, dtype=complex))).sum().real, a
    )
    close(g, adjoint(g), 1e-13)
    c = torch.asarray(np.linalg.cholesky(definite(4, 4))).requires_grad_()
    (g,) = torch.autograd.grad(cho_solve((c, True), torch.ones(4, dtype=torch.float64)).sum(), c)
    assert torch.equal(g, g.tril())
    packed, piv = lu_factor(torch.asarray(drawn(4, 4)).requires_grad_())
    assert packed.requires_grad
    assert not piv.requires_grad


FIRST: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda a: lu_factor(a)[0], drawn(5, 4)),
    (cholesky, definite(4, 4)),
    (lambda a: qr(a)[0], drawn(5, 4)),
    (lambda a: ldl(a)[0], indefinite(4, 4)),
]


@pytest.mark.parametrize(("f", "a"), FIRST)
def test_float32_stays(f: Callable[[Any], Any], a: Any) -> None:
    x, y = torch.asarray(a, dtype=torch.float32).requires_grad_(), torch.asarray(a).requires_grad_()
    (g,) = torch.autograd.grad((f(x) ** 3).sum(), x)
    assert g.dtype == torch.float32
    close(g, torch.autograd.grad((f(y) ** 3).sum(), y)[0].float(), 1e-4)


# -- refusals -----------------------------------------------------------------

NO_DERIVATIVE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "lu, an earlier pivot": (
        lambda a: lu_factor(a)[0],
        np.array([[2.0, 4, 1], [1, 2, 3], [1, 2, 5]]),
    ),
    "lu, tall": (lambda a: lu_factor(a)[0], np.array([[2.0, 4], [1, 2], [1, 2]])),
    "qr": (lambda a: qr(a)[1], np.array([[2.0, 4], [1, 2], [1, 2]])),
    "qr, wide": (lambda a: qr(a)[1], np.array([[2.0, 4, 1], [1, 2, 0]])),
    "ldl": (lambda a: ldl(a)[1], np.zeros((3, 3))),
}


@pytest.mark.parametrize("name", NO_DERIVATIVE)
def test_no_derivative_is_said(name: str) -> None:
    f, a = NO_DERIVATIVE[name]
    assert np.isfinite(f(a)).all()
    x = torch.asarray(a)
    for derivative in (
        lambda: torch.func.jvp(f, (x,), (x,)),
        lambda: torch.func.grad(lambda x: f(x).sum())(x),
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match="no derivative"):
            derivative()
    z = jax.numpy.asarray(a)
    with pytest.raises(ldiv.NotDifferentiableError, match="no derivative"):
        jax.grad(lambda x: f(x).sum())(z)
    if name not in ("lu, tall", "qr", "ldl"):
        return
    with pytest.raises(Exception, match="no derivative"):
        jax.block_until_ready(jax.jit(jax.grad(lambda x: f(x).sum()))(z))


def test_rank_deficient_systems_are_refused() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        m, n = rng.integers(2, 30, 2)
        k = int(rng.integers(1, min(m, n)))
        with pytest.raises(ldiv.SingularMatrixError):
            lstsq(rng.standard_normal((m, k)) @ rng.standard_normal((k, n)), np.ones(m))
    scaled = drawn(6, 3) * np.array([1e-12, 1.0, 1e12])
    close(
        lstsq(scaled, scaled @ np.array([1e12, 1.0, 1e-12])) / np.array([1e12, 1.0, 1e-12]),
        np.ones(3),
    )


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        cholesky(np.diag([1.0, -1.0]))
    with pytest.raises(ldiv.NotSymmetricError):
        cholesky(np.array([[4.0, 0.0], [1.0, 4.0]]))
    with pytest.raises(ldiv.NotSymmetricError):
        ldl(np.array([[4.0, 0.0], [1.0, 4.0]]))
    with pytest.raises(ldiv.SingularMatrixError):
        lu_solve(lu_factor(np.ones((2, 2))), np.ones(2))
    for f in (lu_factor, lu, qr, cholesky, ldl, lambda a: lstsq(a, np.ones(2))):
        with pytest.raises(ValueError, match="finite"):
            f(np.full((2, 2), np.nan))
        with pytest.raises(ValueError, match="dd the missing axis"):
            f(np.ones(2))
        with pytest.raises(TypeError, match="float32"):
            f(np.ones((2, 2), object))
    for x in (np.array([[1.0, 2, np.nan], [0, 1, 2]]), np.array([[1.0, 2, np.inf], [0, 1, 2]])):
        with pytest.raises(ValueError, match="finite"):
            qr(x)
        with pytest.raises(Exception, match="finite"):
            jax.block_until_ready(jax.jit(qr)(x))
        with ldiv.errstate(singular="nan"):
            both = qr(np.stack([x, np.ones((2, 3)) * [1, 2, 3]]))
            assert np.isnan(both[1][0]).any() and np.isfinite(both[1][1]).all()
    for g in (cholesky, ldl):
        with pytest.raises(ValueError, match="square"):
            g(np.ones((2, 3)))
    with pytest.raises(ValueError, match="economic"):
        qr(np.eye(2), mode="raw")
    with pytest.raises(ValueError, match="lu_factor returned"):
        lu_solve((np.eye(2), np.zeros(3, int)), np.ones(2))
    with pytest.raises(ValueError, match="rows"):
        lstsq(np.ones((3, 2)), np.ones(2))
    with pytest.raises(ValueError, match="trans"):
        lu_solve(lu_factor(np.eye(2)), np.ones(2), "X")


# -- what is refused, and what is not -----------------------------------------


def test_pivots_are_looked_at():
    m = np.random.default_rng(0).standard_normal((3, 3))
    lu, piv = scipy.linalg.lu_factor(m)
    b = np.arange(3.0)
    for wrong in (piv + 1, np.array([1, 0, 2]), piv - 3):
        with pytest.raises(ValueError, match="counted from 0"):
            ldiv.lu_solve((lu, wrong), b)
    with pytest.raises(ValueError, match="subtract 1"):
        ldiv.lu_solve(torch.linalg.lu_factor(torch.tensor(m)), torch.tensor(b))
    with pytest.raises(TypeError, match="array of integers"):
        ldiv.lu_solve((lu, piv + 0.5), b)
    x = ldiv.lu_solve((lu, piv), b)
    for same in (list(piv), piv.astype(float), piv.astype(np.int8)):
        np.testing.assert_array_equal(ldiv.lu_solve((lu, same), b), x)
    np.testing.assert_allclose(ldiv.lu_solve((torch.tensor(lu), piv), torch.tensor(b)), x)
    for solve in (ldiv.lu_solve, ldiv.cho_solve, ldiv.cho_solve_banded):
        with pytest.raises(TypeError, match="the pair"):
            solve(m, b)


@pytest.mark.parametrize("asarray", [np.asarray, torch.tensor])
def test_a_large_matrix_hides_no_asymmetry(asarray):
    batch = asarray(np.stack([1e20 * np.eye(2), np.array([[2.0, 1.0], [0.0, 2.0]])]))
    calls = (ldiv.cholesky, ldiv.ldl, ldiv.eigh, lambda a: ldiv.solve(a, a, assume_a="pos"))
    for f in calls[: 4 if asarray is np.asarray else 1]:
        with pytest.raises(ldiv.NotSymmetricError):
            f(batch)


def test_large_numbers_do_not_overflow():
    np.testing.assert_allclose(ldiv.cholesky(np.diag([1.5e308, 1.0])), np.diag([1.5e308**0.5, 1.0]))
