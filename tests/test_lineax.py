"""lineax: with our solver put in, every operator, tag, dtype and transformation gives what jax.numpy gives on dense arrays."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'ldiv[lineax]'")
lx = pytest.importorskip("lineax", reason="lineax is not installed: pip install 'ldiv[lineax]'")
import equinox as eqx  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from ldiv.lineax import Solver, SparseOperator, colouring, matrix_of  # noqa: E402

jax.config.update("jax_enable_x64", True)
N = 6
ROWS, COLS = np.nonzero(abs(np.subtract.outer(range(N), range(N))) % (N - 1) < 2)  # a band, and two corners
MIRROR = np.lexsort((ROWS, COLS))
PATTERN = sp.coo_array((np.ones(len(ROWS)), (ROWS, COLS)), shape=(N, N))


@pytest.fixture(autouse=True)
def quick():
    """Compiling is what takes the time here."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def draw(seed, dtype, *shape):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return jnp.asarray(x + 1j * rng.standard_normal(shape) if dtype == "complex128" else x)


def close(got, expected, eps=1e-11):
    got, expected = (jax.tree.leaves(tree) for tree in (got, expected))
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=eps, atol=eps * max(1.0, float(jnp.abs(y).max())))


# -- the grid: every parameter makes a matrix that keeps the promise of its tag -------------------------------------------------------


def hermitian(v):
    return (v + v[MIRROR].conj()) / 2


TAGS = {
    "none": ((), lambda v: v + 5.0 * (ROWS == COLS)),
    "symmetric": (lx.symmetric_tag, lambda v: (v + v[MIRROR]) / 2 + 5.0 * (ROWS == COLS)),
    "positive": (lx.positive_semidefinite_tag, lambda v: hermitian(v) + 9.0 * (ROWS == COLS)),
    "negative": (lx.negative_semidefinite_tag, lambda v: hermitian(v) - 9.0 * (ROWS == COLS)),
    "lower": (lx.lower_triangular_tag, lambda v: v * (ROWS >= COLS) + 5.0 * (ROWS == COLS)),
    "upper": (lx.upper_triangular_tag, lambda v: v * (ROWS <= COLS) + 5.0 * (ROWS == COLS)),
    "diagonal": (lx.diagonal_tag, lambda v: (v + 5.0) * (ROWS == COLS)),
    "tridiagonal": (lx.tridiagonal_tag, lambda v: v * (abs(ROWS - COLS) < 2) + 5.0 * (ROWS == COLS)),
}


def dense(values):
    return jnp.zeros((N, N), values.dtype).at[ROWS, COLS].add(values)


def array(values):
    return ldiv.coo_array((values, (ROWS, COLS)), shape=(N, N))


def space(values):
    return jax.ShapeDtypeStruct((N,), values.dtype)


def composite(values, tag):
    """2 I - (I / 2) (4 I - 2 A) in operators, which is A."""
    eye = lx.IdentityLinearOperator(space(values))
    return lx.TaggedLinearOperator(eye * 2 - (eye / 2) @ (lx.DiagonalLinearOperator(jnp.full(N, 4.0, values.dtype)) + SparseOperator(array(-2 * values))), tag)


def function(values, tag):
    a = dense(values)
    return lx.FunctionLinearOperator(lambda x: a @ x, space(values), tag)


def tree(values, tag):
    """The same matrix on a pair of vectors."""
    a = dense(values)
    blocks = ((a[:2, :2], a[:2, 2:]), (a[2:, :2], a[2:, 2:]))
    return lx.PyTreeLinearOperator(blocks, (space(values).update(shape=(2,)), space(values).update(shape=(N - 2,))), tag)


OPERATORS = {
    "matrix": (lambda values, tag: lx.MatrixLinearOperator(dense(values), tag), Solver()),
    "sparse": (lambda values, tag: SparseOperator(array(values), tag), Solver()),
    "composite": (composite, Solver()),
    "function": (function, Solver(sparsity=PATTERN)),
    "tree": (tree, Solver()),
    "superlu": (lambda values, tag: SparseOperator(array(values), tag), Solver(method="superlu")),
}


def by_lineax(make, solver, tag, v, b):
    promise, keep = TAGS[tag]
    operator = make(keep(v), promise)
    parts = (b[:2], b[2:]) if make is tree else b
    x = lx.linear_solve(operator, parts, solver).value
    return jnp.concatenate(x) if make is tree else x


def by_numpy(tag, v, b):
    return jnp.linalg.solve(dense(TAGS[tag][1](v)), b)


def loss(solve, v, b):
    x = solve(v, b)
    return jnp.sum(jnp.sin(x.real) * jnp.cos(2 * x.imag) + x.real**2)


def transformed(solve, v, b, vs, bs):
    """Value, jvp and vjp of one system and of a batch: of right-hand sides, of operators, of both."""
    yield jax.jvp(solve, (v, b), (vs[1], bs[1]))
    yield jax.value_and_grad(partial(loss, solve), (0, 1))(v, b)
    for axes in ((None, 0), (0, None), (0, 0)):
        args = vs if axes[0] == 0 else v, bs if axes[1] == 0 else b
        yield jax.vmap(solve, axes)(*args)
    yield jax.vmap(jax.grad(partial(loss, solve), (0, 1)))(vs, bs)
    yield jax.jvp(lambda v: jax.vmap(solve, (None, 0))(v, bs), (v,), (vs[1],))[1]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("name", OPERATORS)
def test_grid(name, tag, dtype):
    if name == "superlu" and tag == "diagonal":
        pytest.skip("a diagonal is divided by, not factored")
    vs, bs = draw(1, dtype, 3, len(ROWS)), draw(2, dtype, 3, N)
    solve = partial(by_lineax, *OPERATORS[name], tag)
    both = jax.jit(lambda *args: tuple(list(transformed(s, *args)) for s in (solve, partial(by_numpy, tag))))
    close(*both(vs[0], bs[0], vs, bs))
