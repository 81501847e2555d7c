"""One factor of a sparse positive definite matrix for its determinant and its solves.

Value and gradient of log|A| + b^T A^-1 b factor once, in every order.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.accuracy.sparse_checked import SparseFronts
from ldiv.engines.direct import cholesky
from ldiv.engines.factors import analyses
from ldiv.engines.factors.held_bytes import held
from ldiv.engines.libraries import native
from ldiv.engines.selected.compiled import CompiledCholesky
from ldiv.errors import SingularMatrixError

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
M = 6
LINE = sp.diags_array([-np.ones(M - 1), 2.1 * np.ones(M), -np.ones(M - 1)], offsets=[-1, 0, 1])
GRID = sp.csc_array(sp.kronsum(LINE, LINE))
ONES = np.ones(M * M)


def matrix(v):
    return ldiv.csc_array((v, GRID.indices, GRID.indptr), shape=GRID.shape)


def terms(v, b):
    """log|A| and two forms, each in the factors of its own call."""
    return (
        lambda: ldiv.logdet(matrix(v), assume_a="pos"),
        lambda: (b * ldiv.solve(matrix(v), b, assume_a="pos")).sum(),
        lambda: (b * ldiv.solve(matrix(v), 2 * b, assume_a="pos")).sum(),
    )


def total(v, b, order):
    each = terms(v, b)
    return sum(each[i]() for i in order)


def factorizations(f):
    before = ldiv.cache_info().factorizations
    result = f()
    return ldiv.cache_info().factorizations - before, result


def exact(data):
    """The gradient in the entries: A^-1 - 3 x x^T."""
    a = sp.csc_array((data, GRID.indices, GRID.indptr), GRID.shape).toarray()
    inverse = np.linalg.inv(a)
    x = inverse @ ONES
    i, j = GRID.indices, np.repeat(np.arange(M * M), np.diff(GRID.indptr))
    return inverse[i, j] - 3 * x[i] * x[j]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_in_torch(order):
    for step in range(3):
        data = (1 + step) * GRID.data
        v = torch.tensor(data, requires_grad=True)

        def value_and_gradient(v=v):
            return torch.autograd.grad(total(v, torch.from_numpy(ONES), order), v)[0]

        made, gradient = factorizations(value_and_gradient)
        assert made == 1
        np.testing.assert_allclose(gradient, exact(data), rtol=1e-11, atol=1e-13)


def test_second_order_in_torch():
    v, b = torch.tensor(GRID.data, requires_grad=True), torch.from_numpy(ONES)

    def product():
        (g,) = torch.autograd.grad(total(v, b, (0, 1, 2)), v, create_graph=True)
        return torch.autograd.grad((g * v.detach()).sum(), v)[0]

    made, along = factorizations(product)
    assert made == 1
    # of degree 0, up to a constant, and -1: H v = -(log|A|)' - 2 (forms)'
    logarithm = torch.autograd.grad(total(v, b, (0,)), v)[0]
    forms = torch.autograd.grad(total(v, b, (1, 2)), v)[0]
    np.testing.assert_allclose(along, -logarithm - 2 * forms, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "jit"])
def test_in_jax(compile):
    def f(v):
        return total(v, jnp.asarray(ONES), (1, 0, 2))

    f = jax.value_and_grad(f)
    f = jax.jit(f) if compile else f
    for step in range(3):
        data = (1 + step) * GRID.data
        made, (_, gradient) = factorizations(lambda v=data: jax.block_until_ready(f(v)))
        assert made == 1
        np.testing.assert_allclose(gradient, exact(data), rtol=1e-11, atol=1e-13)


def test_in_numpy_a_pullback_holds_it():
    _, pull = ldiv.vjp(lambda v: ldiv.logdet(matrix(v), assume_a="pos"), GRID.data)
    made, x = factorizations(lambda: ldiv.solve(matrix(GRID.data), ONES, assume_a="pos"))
    assert made == 0
    np.testing.assert_allclose(x, np.linalg.solve(GRID.toarray(), ONES), rtol=1e-12)
    pull(np.ones(()))


def test_a_batch():
    v = torch.tensor(np.stack([GRID.data, 2 * GRID.data]), requires_grad=True)
    b = torch.from_numpy(ONES)

    def both():
        y = ldiv.logdet(matrix(v), assume_a="pos") + ldiv.solve(matrix(v), b, assume_a="pos").sum(
            -1
        )
        return torch.autograd.grad(y.sum(), v)

    assert factorizations(both)[0] == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_are_as_accurate_as_those_of_others(dtype):
    data = GRID.data.astype(dtype)
    _, _pull = ldiv.vjp(lambda v: ldiv.logdet(matrix(v), assume_a="pos"), data)
    for shape in [(M * M,), (M * M, 1), (M * M, 70)]:
        b = np.cos(np.arange(float(np.prod(shape)))).reshape(shape).astype(dtype)
        x, info = ldiv.solve(matrix(data), b, assume_a="pos", info=True)
        assert info.engine == "cholesky" and x.dtype == dtype
        np.testing.assert_allclose(GRID @ x, b, atol=50 * np.finfo(dtype).eps)
    z = ldiv.solve(matrix(data), 1j * ONES, assume_a="pos")
    np.testing.assert_allclose(GRID @ z, 1j * ONES, atol=50 * np.finfo(dtype).eps)


def test_a_named_engine_is_not_replaced():
    _, _pull = ldiv.vjp(lambda v: ldiv.logdet(matrix(v), assume_a="pos"), GRID.data)
    A = matrix(GRID.data)
    _, info = ldiv.solve(A, ONES, assume_a="pos", method="superlu", info=True)
    assert info.engine == "superlu"
    assert ldiv.solve(A, ONES, info=True)[1].engine != "cholesky"  # nor one without a promise


def test_what_it_cannot_solve_others_do(monkeypatch):
    """Solutions that are wrong are seen by their residual; the determinant stays."""
    v = torch.tensor(GRID.data, requires_grad=True)
    solved = CompiledCholesky.solve
    monkeypatch.setattr(SparseFronts, "accepted", lambda *args, **kwargs: (None, False))
    monkeypatch.setattr(CompiledCholesky, "solve", lambda *args: solved(*args) + 1e-3)
    value = ldiv.logdet(matrix(v), assume_a="pos")
    b = torch.from_numpy(ONES)
    x, info = ldiv.solve(matrix(v), b, assume_a="pos", info=True)
    assert info.engine != "cholesky" and "cholesky" in info.gave_up
    np.testing.assert_allclose(x.detach(), np.linalg.solve(GRID.toarray(), ONES), rtol=1e-12)
    monkeypatch.undo()
    (gradient,) = torch.autograd.grad(value, v)
    i, j = GRID.indices, np.repeat(np.arange(M * M), np.diff(GRID.indptr))
    np.testing.assert_allclose(gradient, np.linalg.inv(GRID.toarray())[i, j], rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("order", [1, -1])
def test_in_other_units_and_any_order_of_entries(dtype, order):
    """Requests beside a solution use the same factor, in the units in which it was made."""
    rng = np.random.default_rng(3)
    s = 2.0 ** rng.integers(-12, 12, M * M)
    a = (s[:, None] * GRID.toarray() * s).astype(dtype)
    i, j = (k[::order].copy() for k in np.nonzero(a))
    if dtype is np.complex128:
        a[i, j] *= np.exp(1j * np.sign(i - j))
    v = torch.tensor(a[i, j], requires_grad=True)
    b = torch.tensor(s * rng.standard_normal(M * M).astype(dtype))

    def loss(solve, logdet):
        return torch.vdot(b, solve).real + logdet

    def ours():
        A = ldiv.coo_array((v, (i, j)), shape=a.shape)
        x, size = ldiv.solve(A, b, assume_a="pos"), ldiv.logdet(A, assume_a="pos")
        (g,) = torch.autograd.grad(loss(x, size), v, create_graph=True)
        return torch.autograd.grad((g * g.detach().conj()).sum().real, v)[0], g

    made, (second, first) = factorizations(ours)
    assert made == 1
    d = torch.zeros(a.shape, dtype=v.dtype).index_put((torch.tensor(i), torch.tensor(j)), v)
    d = (d + d.mH) / 2
    (g,) = torch.autograd.grad(
        loss(torch.linalg.solve(d, b), torch.linalg.slogdet(d)[1]), v, create_graph=True
    )
    (h,) = torch.autograd.grad((g * g.detach().conj()).sum().real, v)
    units = torch.tensor(s[i] * s[j])
    for found, expected in ((first * units, g.detach() * units), (second / units, h / units)):
        torch.testing.assert_close(
            found, expected, rtol=1e-8, atol=1e-8 * float(expected.abs().max())
        )


def test_singular_matrices_are_found():
    """A graph without a boundary: its constants are in the null space."""
    degrees = sp.csc_array(-GRID + sp.diags_array(GRID.diagonal())).sum(axis=0)
    data = GRID.data.copy()
    data[GRID.indices == np.repeat(np.arange(M * M), np.diff(GRID.indptr))] = degrees
    ldiv.logdet(matrix(GRID.data), assume_a="pos")
    for ask in (
        lambda: ldiv.solve(matrix(data), ONES, assume_a="pos"),
        lambda: ldiv.logdet(matrix(data), assume_a="pos"),
        lambda: ldiv.cholesky(matrix(data)),
    ):
        with pytest.raises((SingularMatrixError, ldiv.NotPositiveDefiniteError)):
            ask()


def test_two_large_patterns_are_analysed_once_each(monkeypatch):
    """The bytes of analyses are counted, not guessed from their entries."""
    structure = ldiv.asarray(GRID).structure
    nbytes = sum(held(cholesky.analyze(structure)).values())
    assert 30 * GRID.nnz < nbytes < 500 * GRID.nnz
    monkeypatch.setattr(analyses, "BYTES", 10 * nbytes)
    wide = GRID @ GRID + sp.csc_array(sp.eye_array(M * M))
    for _ in range(3):
        ldiv.logdet(ldiv.asarray(GRID), assume_a="pos")
        ldiv.logdet(ldiv.asarray(sp.csc_array(wide)), assume_a="pos")
    assert ldiv.cache_info().analyses == 2
    ldiv.clear_cache()
    monkeypatch.setattr(analyses, "BYTES", nbytes // 2)
    monkeypatch.setattr(analyses, "BYTES_OF_TWO", nbytes // 2)
    for a in (GRID, wide):
        ldiv.logdet(ldiv.asarray(sp.csc_array(a)), assume_a="pos")
    with pytest.warns(UserWarning, match="is repeated"):
        ldiv.logdet(ldiv.asarray(GRID), assume_a="pos")
    assert ldiv.cache_info().analyses == 3
