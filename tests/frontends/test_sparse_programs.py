"""Solves and determinants of a sparse matrix by our own LU are calls of compiled code in a program
for the CPU. The factor is arrays, which other calls of the matrix and its derivatives take. Python
answers declined members, or raises.
"""

from __future__ import annotations

import os
import re
import signal
from threading import Thread
from typing import Any

import apart
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from ldiv.engines.direct import ldl  # noqa: E402
from ldiv.engines.libraries import native  # noqa: E402
from ldiv.matrices.assumptions import promised  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
KINDS = (ValueError, jax.errors.JaxRuntimeError)

N = 9
# two blocks, a corner between them, one entry in two parts, in no order
ROWS = np.array([*range(N), *range(1, 5), *range(6, N), *range(4), *range(5, 8), 0, 3, 2])[::-1]
COLS = np.array([*range(N), *range(4), *range(5, 8), *range(1, 5), *range(6, N), 8, 3, 7])[::-1]


def drawn(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def values(dtype: str, *batch: int) -> Any:
    return drawn(dtype, *batch, len(ROWS)) + np.where(ROWS == COLS, 4, 0).astype(dtype)


def array(v: Any) -> Any:
    return ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))


def dense(v: Any) -> Any:
    return jnp.zeros((N, N), v.dtype).at[ROWS, COLS].add(v)


def calls(f: Any, *args: Any) -> list[str]:
    """The calls that make factors and compute with them, in alphabetical order."""
    text = jax.jit(f).lower(*args).compile().as_text()
    assert "callback" not in text
    records = re.findall(r'"ldiv_sparse_5".*?config=\{(.*?)\}', text)
    found = [dict(re.findall(r'(\w+) = "(.*?)"', record)) for record in records]
    return sorted(told["what"] for told in found if told.get("stage") != "answer")


TWICE = ["factor", "solve", "solve"]


def alike(found: Any, expected: Any, digits: float = 1e-11) -> None:
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, digits, digits * np.abs(y).max()),
        found,
        expected,
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_as_jax_does(dtype: str) -> None:
    """Value and gradient, in units of rows and columns that are all alike or not."""
    units = 2.0 ** (5 * np.arange(N) - 20)
    b = drawn(dtype, N)

    def of(f: Any) -> Any:
        return lambda v, b: jnp.sum(jnp.abs(f(v, b)) ** 2)

    for v in (values(dtype), (values(dtype) * units[ROWS] / units[COLS]).astype(dtype)):
        for trans in "NTH" if dtype[0] == "c" else "NT":
            ours = lambda v, b, t=trans: ldiv.solve(array(v), b, trans=t)
            view = {"N": lambda a: a, "T": lambda a: a.T, "H": lambda a: a.conj().T}[trans]
            jnps = lambda v, b, view=view: jnp.linalg.solve(view(dense(v)), b)
            found = jax.jit(jax.value_and_grad(of(ours), (0, 1)))(v, b)
            expected = jax.value_and_grad(of(jnps), (0, 1))(v, b)
            assert found[1][0].dtype == v.dtype
            alike(found, expected, 1e-10 if dtype != "float32" else 1e-3)
    assert calls(jax.grad(of(lambda v, b: ldiv.solve(array(v), b))), v, b) == TWICE
    assert calls(lambda v, b: ldiv.solve(array(v).conj(), b), v, b) == TWICE[:2]
    alike(
        jax.jit(lambda v, b: ldiv.solve(array(v).conj(), b))(v, b),
        jnp.linalg.solve(dense(v).conj(), b),
        1e-10 if dtype != "float32" else 1e-3,
    )


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_a_vmap_is_one_call(axes: Any) -> None:
    """A vmap of any depth is one call; also many right-hand sides of one matrix, in wide blocks."""
    many = [21 if a == 0 else None for a in axes]
    v, b = (
        x("float64", *[m] * (m is not None), *own)
        for x, m, own in zip((values, drawn), many, ((), (N, 2)), strict=True)
    )
    of = lambda solve: jax.vmap(
        jax.value_and_grad(lambda v, b: jnp.sum(jnp.sin(solve(v, b))), (0, 1)), axes
    )
    ours, jnps = (
        of(s)
        for s in (lambda v, b: ldiv.solve(array(v), b), lambda v, b: jnp.linalg.solve(dense(v), b))
    )
    assert calls(ours, v, b) == TWICE
    alike(jax.jit(ours)(v, b), jnps(v, b))
    nested = lambda f, v, b: jax.vmap(lambda s: f(s * v, b))(jnp.arange(1.0, 4))
    alike(jax.jit(nested, static_argnums=0)(ours, v, b), nested(jnps, v, b))


def test_every_mode() -> None:
    """Also where the forward pass keeps the factors of a loop, or makes them twice."""
    v, b, dv = values("float64"), drawn("float64", N), drawn("float64", len(ROWS))

    def modes(solve: Any) -> Any:
        f = lambda v, b: jnp.sum(solve(v, b) ** 3)
        walk = lambda v: jax.lax.scan(lambda x, s: (solve(v * s, x), None), b, jnp.arange(1.0, 5))[
            0
        ].sum()
        return lambda v, b: (
            jax.jvp(f, (v, b), (dv, b)),
            jax.jvp(jax.grad(f), (v, b), (dv, b)),
            jax.grad(lambda v: jax.grad(f)(v, b) @ dv)(v),
            jax.jacfwd(solve)(v, b),
            jax.grad(jax.checkpoint(walk))(v),
            jax.grad(walk)(v),
        )

    ours = lambda v, b: ldiv.solve(array(v), b)
    alike(jax.jit(modes(ours))(v, b), modes(lambda v, b: jnp.linalg.solve(dense(v), b))(v, b), 1e-9)
    twice = lambda v: jax.grad(lambda v: jax.grad(lambda v: ours(v, b).sum())(v) @ dv)(v)
    assert calls(twice, v).count("factor") == 1
    # a promise of real numbers is kept with a complex right-hand side, by the host
    alike(jax.jit(ours)(v, b + 1j * b), (1 + 1j) * ours(v, b))


def test_pivots_that_leave_the_room() -> None:
    """The factor has no place in the arrays then, and is kept beside them: it is made once."""
    n = 40
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((n, n)) < 0.15)
    off = i != j
    rows, cols = np.r_[np.arange(n), i[off]], np.r_[np.arange(n), j[off]]
    v = np.r_[1e-9 * np.ones(n), rng.standard_normal(off.sum())]
    a = np.zeros((n, n))
    a[rows, cols] = v
    b = rng.standard_normal(n)
    f = jax.jit(
        jax.grad(lambda v: ldiv.solve(ldiv.coo_array((v, (rows, cols)), shape=(n, n)), b).sum())
    )
    x, lam = np.linalg.solve(a, b), np.linalg.solve(a.T, np.ones(n))
    before = ldiv.cache_info().factorizations
    for step in range(3):
        alike(f(v * 2**step), -lam[rows] * x[cols] / 4**step, 1e-7)
    assert ldiv.cache_info().factorizations == before + 3
    # of a batch, whose factors are more than are kept at first, the second time
    many, g = v * (1 + jnp.arange(9)[:, None] / 8), jax.jit(jax.vmap(f))
    expected = -lam[rows] * x[cols] / (1 + np.arange(9)[:, None] / 8) ** 2
    counts = []
    for _ in range(3):
        before = ldiv.cache_info().factorizations
        alike(g(many), expected, 1e-7)
        counts.append(ldiv.cache_info().factorizations - before)
    assert counts[2] == 9


def test_what_is_declined() -> None:
    """Members that only a careful engine solves, and those that nobody does."""
    v, b = values("float64", 5), drawn("float64", 5, N)
    hard = v.copy()
    # a block that is nearly singular: a Laplacian and a bit
    inside = (ROWS > 4) & (COLS > 4)
    hard[2, inside] = np.where(ROWS != COLS, -1, np.where((ROWS == 5) | (ROWS == 8), 1, 2))[inside]
    hard[2, ROWS == COLS] += 2.0**-40
    f = jax.jit(jax.vmap(jax.value_and_grad(lambda v, b: ldiv.solve(array(v), b).sum(), (0, 1))))
    each = [
        jax.value_and_grad(lambda v, b: ldiv.solve(array(v), b).sum(), (0, 1))(*m)
        for m in zip(hard, b, strict=True)
    ]
    for i, one in enumerate(each):
        value, grads = f(hard, b)
        alike((value[i], tuple(g[i] for g in grads)), one, 1e-3)
    for bad, message in ((0 * v, "singular"), (np.nan * v, "A: expected finite")):
        hard[3] = bad[3]
        with pytest.raises(KINDS, match=message):
            jax.block_until_ready(f(hard, b))
    with pytest.raises(KINDS, match="b: expected finite"):
        jax.block_until_ready(f(v, b * np.inf))
    step = lambda carry, v: (carry + ldiv.solve(array(v), b[0]).sum(), None)
    with pytest.raises(KINDS, match="singular"):
        jax.block_until_ready(
            jax.jit(lambda s: jax.lax.scan(step, 0.0, s)[0])(v * np.arange(5)[:, None])
        )
    with ldiv.errstate(singular="nan"), pytest.raises(ldiv.EngineError, match="engine that runs"):
        jax.jit(lambda v: ldiv.solve(array(v), b[0]))(v[0])


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_determinants(dtype: str) -> None:
    """Value and gradient, of one matrix and of a batch; of rows exchanged, and in bad units."""
    units = 2.0 ** (5 * np.arange(N) - 20)
    digits = 1e-10 if dtype != "float32" else 1e-3
    v = values(dtype, 7)
    turned = np.roll(np.arange(N), 1)
    for rows, x in (
        (ROWS, v),
        (ROWS, v * units[ROWS].astype(dtype) / units[COLS].astype(dtype)),
        (turned[ROWS], v * 2.0**70 if dtype != "float32" else v),
    ):
        ours = lambda v, i=rows: ldiv.slogdet(ldiv.coo_array((v, (i, COLS)), shape=(N, N)))
        jnps = lambda v, i=rows: jnp.linalg.slogdet(jnp.zeros((N, N), v.dtype).at[i, COLS].add(v))
        for f in (lambda g: lambda v: g(v)[1], lambda g: lambda v: jnp.real((2 + 1j) * g(v)[0])):
            alike(jax.jit(f(ours))(x[0]), f(jnps)(x[0]), digits)
            found = jax.jit(jax.vmap(jax.value_and_grad(f(ours))))(x)
            expected = jax.vmap(jax.value_and_grad(f(jnps)))(x)
            alike(found[0], expected[0], digits)
            for g, h in zip(found[1], expected[1], strict=True):
                alike(g * x[0], h * x[0], digits)
    size = lambda v: ldiv.slogdet(array(v).conj().T)[1]
    assert calls(jax.vmap(jax.grad(size)), v) == ["factor", "inverse"]
    adjoint = lambda v: ldiv.slogdet(array(v).conj().T)
    assert calls(adjoint, v[0]) == ["factor", "slogdet"]
    alike(jax.jit(adjoint)(v[0]), tuple(jnp.linalg.slogdet(dense(v[0]).conj().T)), digits)


def test_one_factor_in_a_program() -> None:
    """Solves and determinants of one matrix share it, in every mode; others have their own."""
    v, b = values("float64") + np.where(ROWS == COLS, 4, 0), drawn("float64", N)

    def asked(of: Any, solve: Any, logdet: Any) -> Any:
        def f(v: Any) -> Any:
            a = of(v)
            return solve(a, b).sum() + logdet(a) + (solve(a, 2 * b) ** 2).sum()

        return f

    ours = asked(array, ldiv.solve, ldiv.logdet)
    jnps = asked(dense, jnp.linalg.solve, lambda a: jnp.linalg.slogdet(a)[1])
    wide = v * np.arange(1.0, 4)[:, None]
    vmapped = lambda f: jax.vmap(jax.value_and_grad(f))
    for mode, x in ((lambda f: f, v), (jax.grad, v), (vmapped, wide)):
        assert calls(mode(ours), x).count("factor") == 1
        alike(jax.jit(mode(ours))(x), mode(jnps)(x))
    assert calls(lambda v: ours(v) + ours(2 * v), v).count("factor") == 2
    # a branch has a block of its own
    branch = lambda v: jax.lax.cond(v[0] > 0, ours, lambda v: ldiv.logdet(array(v)), v)
    alike(jax.jit(branch)(v), branch(v))
    alike(jax.jit(branch)(-v * np.sign(v[0])), branch(-v * np.sign(v[0])))
    before = ldiv.cache_info().factorizations
    jax.block_until_ready(jax.jit(jax.grad(ours))(1.5 * v))
    assert ldiv.cache_info().factorizations == before + 1


def test_determinants_that_are_declined() -> None:
    v = values("float64")
    f = jax.jit(jax.value_and_grad(lambda v: ldiv.logdet(array(v))))
    near = v.copy()
    inside = (ROWS > 4) & (COLS > 4)  # a Laplacian and a bit
    near[inside] = np.where(ROWS != COLS, -1, np.where((ROWS == 5) | (ROWS == 8), 1, 2))[inside]
    near[ROWS == COLS] += 2.0**-40
    eager = jax.value_and_grad(lambda v: ldiv.logdet(array(v)))(near)
    alike(f(near), eager, 1e-3)
    negative = np.where(ROWS == 0, -v, v)
    for bad, message in (
        (0 * v, "singular"),
        (np.nan * v, "A: expected finite"),
        (negative, "positive determinant"),
    ):
        with pytest.raises(KINDS, match=message):
            jax.block_until_ready(f(bad))
        with pytest.raises(KINDS, match=message):
            jax.block_until_ready(jax.jit(jax.vmap(f))(np.stack([v, bad])))


# of a positive definite matrix both triangles, in no order, one pair in two parts
I = np.array([*range(N), *range(1, N), 5, 0, 8, 2])
J = np.array([*range(N), *range(N - 1), 0, 5, 2, 8])
PLACES = np.r_[I, J[N : 2 * N - 1], I[-3:-1]], np.r_[J, I[N : 2 * N - 1], J[-3:-1]]
HALF = 2.0 ** -np.r_[np.zeros(len(I) - 3), 1, 1, 0, np.zeros(N - 1), 1, 1]


def definite(dtype: str, *batch: int) -> Any:
    v = drawn(dtype, *batch, len(PLACES[0]))
    lower = PLACES[0] > PLACES[1]
    full = np.zeros((*batch, N, N), v.dtype)
    full[..., PLACES[0][lower], PLACES[1][lower]] = v[..., lower]
    full = full + np.conj(np.swapaxes(full, -1, -2)) + 6 * np.eye(N)
    return (full[..., PLACES[0], PLACES[1]] * HALF).astype(v.dtype)


def hermitian(v: Any) -> Any:
    a = jnp.zeros((N, N), v.dtype).at[PLACES].add(v)
    return (a + a.conj().T) / 2


def positive(v: Any) -> Any:
    return ldiv.coo_array((v, PLACES), shape=(N, N))


@pytest.mark.parametrize(
    "dtype", ["float64", "complex128", pytest.param("float32", marks=pytest.mark.exhaustive)]
)
def test_positive_definite(dtype: str) -> None:
    """Value and gradient of a solve and a determinant, by one Cholesky factor, in any units."""
    v, b = definite(dtype, 5), drawn(dtype, 5, N)
    units = 2.0 ** (4 * np.arange(N) - 16)
    digits = 1e-10 if dtype != "float32" else 2e-3

    def asked(of: Any, solve: Any, logdet: Any) -> Any:
        return lambda v, b: jnp.sum(jnp.abs(solve(of(v), b)) ** 2) + logdet(of(v))

    ours = asked(
        positive,
        lambda a, b: ldiv.solve(a, b, assume_a="pos"),
        lambda a: ldiv.logdet(a, assume_a="pos"),
    )
    jnps = asked(hermitian, jnp.linalg.solve, lambda a: jnp.linalg.slogdet(a)[1])
    for x in (v, (v * units[PLACES[0]] * units[PLACES[1]]).astype(dtype)):
        c = (b * units).astype(dtype) if x is not v else b
        for f, g in (
            (ours, jnps),
            (lambda v, b: ours(v.conj(), b), lambda v, b: jnps(v.conj(), b)),
        ):
            found = jax.jit(jax.vmap(jax.value_and_grad(f, (0, 1))))(x, c)
            expected = jax.vmap(jax.value_and_grad(g, (0, 1)))(x, c)
            alike(found[0], expected[0], digits)
            for g, h in zip(found[1][0], expected[1][0], strict=True):
                alike(g * x[0], h * x[0], digits)
            alike(found[1][1] * c, expected[1][1] * c, digits)
    program = calls(jax.vmap(jax.grad(ours)), v, b)
    assert program.count("factor") == 1 and set(program) == {"factor", "solve", "inverse"}
    many = lambda v, b: ldiv.solve(positive(v), b, assume_a="pos")
    alike(
        jax.jit(jax.vmap(many, (None, 0)))(v[0], b),
        jax.vmap(lambda b: jnp.linalg.solve(hermitian(v[0]), b))(b),
        digits,
    )
    if dtype == "float64":
        one = lambda f: lambda v: f(v, b[0])
        hessian = lambda f: jax.jvp(jax.grad(one(f)), (v[0],), (v[1],))[1]
        alike(jax.jit(lambda: hessian(ours))(), hessian(jnps))
        loop = lambda f: (
            lambda v: jax.lax.scan(lambda c, s: (c + one(f)(s * v), None), 0.0, jnp.arange(1.0, 4))[
                0
            ]
        )
        alike(jax.jit(jax.grad(loop(ours)))(v[0]), jax.grad(loop(jnps))(v[0]))


def test_definite_ones_that_are_declined() -> None:
    v, b = definite("float64", 3), drawn("float64", N)
    f = jax.jit(jax.vmap(lambda v: ldiv.solve(positive(v), b, assume_a="pos").sum()))
    g = jax.jit(jax.vmap(lambda v: ldiv.logdet(positive(v), assume_a="pos")))
    skew = np.where(PLACES[0] < PLACES[1], 2 * v[1], v[1])
    for bad, message in (
        (-v[1], "positive definite"),
        (np.where(PLACES[0] == 0, 0, v[1]) * (PLACES[1] != 0), "singular|positive definite"),
        (np.nan * v[1], "A: expected finite"),
        (skew, "transpose"),
    ):
        for h in (f, g):
            with pytest.raises(KINDS, match=message):
                jax.block_until_ready(h(np.stack([v[0], bad, v[2]])))
    h = jax.jit(lambda b: ldiv.solve(positive(v[0]), b, assume_a="pos"))
    with pytest.raises(KINDS, match="b: expected finite"):
        jax.block_until_ready(h(b * np.inf))


@pytest.mark.parametrize(
    ("assume_a", "dtype"), [("sym", "float64"), ("her", "complex128"), ("sym", "complex64")]
)
def test_indefinite_ones_by_fronts(assume_a: str, dtype: str) -> None:
    """Value and gradient by L D L^T, also where pivots are delayed and the factor is held beside its
    arrays; a batch of many, in any units; the sign of the determinant.
    """
    a = jnp.asarray(definite(dtype, 9))
    shift = jnp.where(jnp.arange(N) % 2 == 0, 6, 3)[PLACES[0]] * (PLACES[0] == PLACES[1]) * HALF
    v, b = (a - shift).astype(dtype), drawn(dtype, 9, N)
    units = 2.0 ** (2 * np.arange(N) - 8)
    digits = 1e-9 if dtype != "complex64" else 1e-2
    turned = lambda x: x if assume_a == "sym" else x.conj()

    def part(v: Any) -> Any:
        full = jnp.zeros((N, N), v.dtype).at[PLACES].add(v)
        return (full + turned(full.T)) / 2

    if assume_a == "sym" and dtype[0] == "c":  # its lower triangle twice
        full = jnp.zeros((9, N, N), v.dtype).at[:, PLACES[0], PLACES[1]].add(v)
        full = jnp.tril(full) + jnp.swapaxes(jnp.tril(full, -1), -1, -2)
        v = (full[:, PLACES[0], PLACES[1]] * HALF).astype(dtype)
    for method in ("ldl", "auto"):
        ours = lambda v, b, m=method: ldiv.solve(positive(v), b, assume_a=assume_a, method=m)
        jnps = lambda v, b: jnp.linalg.solve(part(v), b)
        of = lambda f: jax.vmap(
            jax.value_and_grad(lambda v, b: jnp.sum(jnp.abs(f(v, b)) ** 2), (0, 1))
        )
        for x, c in ((v, b), ((v * units[PLACES[0]] * units[PLACES[1]]).astype(dtype), b)):
            found = jax.jit(of(ours))(x, c)
            expected = of(jnps)(x.astype("complex128" if dtype[0] == "c" else dtype), c)
            for f, e in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                alike(f, e, digits)
        assert calls(of(ours), v, b) == TWICE
    dets = jax.jit(jax.vmap(lambda v: ldiv.slogdet(positive(v), assume_a=assume_a)))(v)
    for found, expected in zip(dets, jnp.linalg.slogdet(jax.vmap(part)(v)), strict=True):
        alike(found, expected, digits)


def test_delayed_pivots_leave_the_room() -> None:
    """A factor with columns that were delayed is kept beside the arrays: it is made once."""
    n, m = 120, 60
    rng = np.random.default_rng(0)
    of_b = np.where(rng.random((m, n)) < 0.02, rng.standard_normal((m, n)), 0)
    of_b[np.arange(m), np.arange(m)] += 2
    full = np.block([[np.diag(np.arange(n) >= m) * 3.0, of_b.T], [of_b, np.zeros((m, m))]])
    order = rng.permutation(n + m)
    a = sp.coo_array(full[np.ix_(order, order)])
    structure, p = promised(ldiv.asarray(a), "sym")
    made = ldl.factor(ldl.analyze(structure), structure, p, "gen")
    assert made._careful._factor._compiled.delayed > 0
    b = rng.standard_normal(n + m)
    rows, cols = a.coords

    def loss(v: Any) -> Any:
        A = ldiv.coo_array((v, (rows, cols)), shape=a.shape)
        return ldiv.solve(A, b, assume_a="sym", method="ldl").sum()

    f, inverse = jax.jit(jax.grad(loss)), np.linalg.inv(a.toarray())
    g = -np.outer(inverse.sum(0), inverse @ b)
    expected = ((g + g.T) / 2)[rows, cols]
    before = ldiv.cache_info().factorizations
    for step in range(3):
        alike(f(a.data * 2**step), expected / 4**step, 1e-9)
    assert ldiv.cache_info().factorizations == before + 3
    many = a.data * (1 + jnp.arange(9)[:, None] / 8)
    of_many = jax.jit(jax.vmap(f))
    for _ in range(3):
        alike(of_many(many), expected / (1 + np.arange(9)[:, None] / 8) ** 2, 1e-9)
    signs = jax.jit(
        lambda v: ldiv.slogdet(ldiv.coo_array((v, (rows, cols)), shape=a.shape), assume_a="sym")
    )
    alike(signs(a.data), tuple(np.linalg.slogdet(a.toarray())), 1e-9)


def test_threads_at_once() -> None:
    """Programs with one pattern, whose analysis others drop meanwhile."""
    v, b = values("float64", 30), drawn("float64", 30, N)
    f = jax.jit(jax.vmap(jax.grad(lambda v, b: ldiv.solve(array(v), b).sum())))
    expected = np.asarray(f(v, b))
    results: list[Any] = []

    def work(k: int) -> None:
        for _ in range(30):
            results.append(np.asarray(f(v * 2.0**k, b)) * 2.0 ** (2 * k))
            native.native.forget_xla()

    threads = [Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    assert len(results) == 120
    for x in results:
        alike(x, expected)


def test_info_says_what_programs_call(monkeypatch: Any) -> None:
    from ldiv.cli import machine
    from ldiv.frontends.jax.graph import compiled_calls

    said = dict(machine.machine_rows())["calls from JAX's programs"]
    assert ("ldiv_sparse_5" in said) == compiled_calls.is_registered
    monkeypatch.setattr(machine, "installed", lambda name: "0.9.3")
    assert "older than 0.10" in dict(machine.machine_rows())["calls from JAX's programs"]


FIRST = """
import os, signal, warnings
from threading import Event, Thread
import jax, numpy as np, scipy.sparse as sp
import ldiv

warnings.simplefilter("ignore")  # JAX's, about forks
jax.config.update("jax_enable_x64", True)
path, one = sp.diags_array([2.1, -1.0, -1.0], offsets=[0, 1, -1], shape=(12, 12)), sp.eye_array(12)
pairs = sp.kron(path, one) + sp.kron(one, path)
A = ldiv.asarray(sp.csc_array(sp.kron(pairs, one) + sp.kron(sp.eye_array(144), path)))
f = lambda v: ldiv.logdet(A.with_data(v), assume_a="pos")
value, gradient, b = jax.jit(f), jax.jit(jax.grad(f)), np.ones(1728)
expected, bar = value(A.data), gradient(A.data)
others = [A.data * s for s in np.linspace(1, 2, 50)]
"""
INTERRUPTED = """
signal.signal(signal.SIGALRM, signal.default_int_handler)
for program in (value, gradient):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            [program(v).block_until_ready() for v in others]
    except (KeyboardInterrupt, jax.errors.JaxRuntimeError) as error:
        assert "KeyboardInterrupt" in repr(error)
    print(value(A.data) == expected, (gradient(A.data) == bar).all())
"""
FORKED = """
stop = Event()

def work():
    while not stop.is_set():
        [gradient(v).block_until_ready() for v in others]

worker = Thread(target=work)
worker.start()
for _ in range(3):
    if (child := os.fork()) == 0:
        x = ldiv.solve(A, b, assume_a="pos")
        known = abs(ldiv.logdet(A, assume_a="pos") - expected_here) < 1e-8
        os._exit(0 if known and np.allclose(A @ x, b) else 1)
    print(os.waitpid(child, 0)[1])
stop.set()
worker.join()
print((gradient(A.data) == bar).all())
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")
def test_ctrl_c_in_a_cholesky_factorization() -> None:
    """Ctrl-C arrives, and later results are, to the last bit, the earlier ones."""
    seen = apart.run(INTERRUPTED, first=FIRST)
    assert seen.stdout.split() == ["True"] * 4, seen.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_forked_while_a_program_factors() -> None:
    """The forked processes have ldiv for NumPy, and the program goes on."""
    seen = apart.run("expected_here = float(expected)" + FORKED, first=FIRST)
    assert seen.stdout.split() == ["0", "0", "0", "True"], seen.stderr
