"""The sparse Cholesky object against dense formulas: values, derivatives, updates, JAX, pickles."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
import torch

import ldiv
from ldiv.linalg.inverses.sparse_cholesky import _triangle_of
from ldiv.testing.distance import assert_close

jax.config.update("jax_enable_x64", True)
DATA = os.environ.get("LDIV_TEST_DATA")
M = 5
N = M * M
RNG = np.random.default_rng(0)


def grid(m=M):
    """The Laplace operator on m x m points, and a little more."""
    one = ldiv.diags_array([np.full(m, 2.0), -np.ones(m - 1), -np.ones(m - 1)], offsets=[0, 1, -1])
    return ldiv.kronsum(one, one) + 0.3 * ldiv.eye_array(m * m)


def complex_grid():
    a = grid()
    phase = np.exp(1j * np.where(a.row == a.col, 0, np.sign(a.row - a.col)))
    return a.with_data(a.data * phase)


A = grid()
B, C = RNG.standard_normal((N, 2)), RNG.standard_normal((N, 3))


@pytest.mark.parametrize("a", [A, complex_grid(), grid(17)], ids=["real", "complex", "larger"])
def test_values(a):
    dense, n = a.toarray(), a.shape[0]
    inverse, b = np.linalg.inv(dense), RNG.standard_normal((n, 2)).astype(dense.dtype)
    F = ldiv.cholesky(a)
    assert_close("solve", F.solve(b), inverse @ b)
    assert_close("vector", F(b[:, 0]), inverse @ b[:, 0])
    assert_close("transposed", F.solve(b, "T"), inverse.T @ b)
    assert_close("logdet", F.logdet(), np.linalg.slogdet(dense)[1])
    assert_close("variances", F.inverse_diagonal(), inverse.diagonal())
    assert F.shape == (n, n) and F.dtype == dense.dtype
    assert_close("matrix", F.matrix.toarray(), dense)


@pytest.mark.parametrize("name", ["bcsstk13", "494_bus"])
def test_real_matrices(name):
    if DATA is None or not (Path(DATA) / f"{name}.mtx").exists():
        pytest.skip("LDIV_TEST_DATA names no folder with the real matrices")
    a = scipy.io.mmread(Path(DATA) / f"{name}.mtx", spmatrix=False).tocoo()
    diagonal = a.diagonal() ** -0.5  # units that say nothing about the matrix
    a.data *= diagonal[a.row] * diagonal[a.col]
    a.data = np.where(a.row == a.col, 1.0 + 1e-4, a.data)
    F, dense = ldiv.cholesky(a), a.toarray()
    inverse, b = np.linalg.inv(dense), RNG.standard_normal(a.shape[0])
    x = F.solve(b)
    assert abs(dense @ x - b).max() <= 1e-12 * abs(x).max()
    assert_close("half", (F.half_solve(b) ** 2).sum(), b @ inverse @ b, 1e-10)
    assert_close("logdet", F.logdet(), np.linalg.slogdet(dense)[1], 1e-12)
    assert_close("variances", F.inverse_diagonal(), inverse.diagonal(), 1e-10)


@pytest.mark.parametrize("a", [A, complex_grid(), grid(17)], ids=["real", "complex", "larger"])
def test_half_solves(a):
    dense, n = a.toarray(), a.shape[0]
    inverse, F = np.linalg.inv(dense), ldiv.cholesky(a)
    w = F.half_solve(np.eye(n, dtype=dense.dtype))
    assert_close("W^H W", w.conj().T @ w, inverse)
    assert_close("triangular", np.linalg.slogdet(w)[1], -np.linalg.slogdet(dense)[1] / 2)
    b = RNG.standard_normal((n, 2)).astype(dense.dtype)
    assert_close("block", F.half_solve(b), w @ b)
    assert_close("vector", F.half_solve(b[:, 0]), w @ b[:, 0])
    assert_close("H", F.half_solve(b, "H"), w.conj().T @ b)
    assert_close("T", F.half_solve(b, trans="T"), w.T @ b)


def test_samples():
    for a in (A, complex_grid()):
        inverse, F = np.linalg.inv(a.toarray()), ldiv.cholesky(a)
        x = F.sample(np.random.default_rng(0), 40_000)
        assert x.shape == (40_000, N) and x.dtype == a.dtype
        # the standard error of a covariance is below 2 / sqrt(40,000) times the variances
        assert abs(x.T @ x.conj() / len(x) - inverse).max() < 6 / 200 * abs(inverse).max()
        assert F.sample(np.random.default_rng(0), (2, 3)).shape == (2, 3, N)
        one = F.sample(np.random.default_rng(1))
        np.testing.assert_array_equal(one, F.sample(np.random.default_rng(1)))
    t = ldiv.cholesky(A.with_data(torch.tensor(A.data)))
    assert t.sample(torch.Generator().manual_seed(0), 4).shape == (4, N)
    j = ldiv.cholesky(A.with_data(jnp.asarray(A.data)))
    assert jax.jit(lambda key: j.sample(key, (4,)))(jax.random.key(0)).shape == (4, N)
    two = ldiv.cholesky(A.with_data(np.stack([A.data, 2 * A.data])))
    assert two.sample(np.random.default_rng(0), 4).shape == (4, 2, N)
    for F, key in ((t, 0), (j, 1.5), (two, torch.Generator())):
        with pytest.raises(TypeError, match="key"):
            F.sample(key)
    with pytest.raises(ValueError, match="shape"):
        t.sample(torch.Generator(), -1)


def test_derivatives_of_half_solves():
    """The derivatives to third order agree with a dense Cholesky factorization in the same order."""
    order = _triangle_of(ldiv.cholesky(A)._factorized._structure)[1]
    weight = torch.tensor(B)

    def loss(v, b):
        F = ldiv.cholesky(A.with_data(v))
        return (F.half_solve(b) * b**2).sum() + (F.half_solve(b, "H") ** 3).sum()

    def dense(v, b):
        a = torch.zeros((N, N), dtype=torch.float64).index_put(
            (torch.tensor(A.row), torch.tensor(A.col)), v
        )
        l = torch.linalg.cholesky(((a + a.T) / 2)[order][:, order])
        y = torch.linalg.solve_triangular(l, b[order], upper=False)
        z = torch.linalg.solve_triangular(l.T, b, upper=True)
        return (y * b**2).sum() + (z**3).sum()

    x = [torch.tensor(t, requires_grad=True) for t in (A.data, B)]
    every = []
    for f in (loss, dense):
        value, found = f(*x), []
        for _ in range(3):
            g = torch.autograd.grad(value, x, create_graph=True)
            found += [t.detach() for t in g]
            value = (g[0] ** 2).sum() + (g[1] * weight).sum()
        every.append(found)
    for got, expected in zip(*every, strict=True):
        assert_close("derivative", got, expected, 1e-11)
    v, b = jnp.asarray(A.data), jnp.asarray(B)
    both = jax.jit(lambda v, b: (jax.grad(loss, (0, 1))(v, b), jax.jvp(loss, (v, b), (v, b))[1]))
    backward, forward = both(v, b)
    for got, expected in zip(backward, every[1], strict=False):
        assert_close("JAX", np.asarray(got), expected.numpy(), 1e-11)
    along = (every[1][0].numpy() * A.data).sum() + (every[1][1].numpy() * B).sum()
    assert_close("forward", float(forward), along, 1e-11)


def test_the_complex_derivative_of_half_solves():
    """The norm of L^-1 P b is that of b in A^-1; a sample squared has the derivative of both."""
    a, b = complex_grid(), torch.tensor(B + 1j * B[:, ::-1])
    v = torch.tensor(a.data, requires_grad=True)
    F = ldiv.cholesky(a.with_data(v))
    one = torch.autograd.grad((F.half_solve(b).abs() ** 2).sum(), v, create_graph=True)[0]
    two = torch.autograd.grad((b.conj() * F.solve(b)).real.sum(), v, create_graph=True)[0]
    assert_close("first", one.detach(), two.detach(), 1e-11)
    w = torch.tensor(a.data[::-1].copy())
    second = [torch.autograd.grad((g * w.conj()).real.sum(), v, retain_graph=True)[0] for g in (one, two)]  # fmt: skip
    assert_close("second", *second, 1e-10)


def test_factored_once():
    ldiv.clear_cache()
    F = ldiv.cholesky(A)
    for _ in range(3):
        F.solve(B)
        F.logdet()
        F.inverse_diagonal()
        F.sample(np.random.default_rng(0))
    # for solves, entries of the inverse and of L, and L made ready for substitution
    assert ldiv.cache_info().factorizations == 2


@pytest.mark.parametrize("subtract", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("a", [A, complex_grid()], ids=["real", "complex"])
def test_updates(a, sparse, subtract):
    c = 0.1 * C.astype(a.dtype)
    if np.iscomplexobj(c):
        c = c + 0.1j * C[:, ::-1]
    given = c
    if sparse:
        rows, cols = np.array([0, 3, 9]), np.array([0, 1, 1])
        given = ldiv.coo_array((c[rows, cols], (rows, cols)), shape=c.shape)
        c = given.toarray()
    dense = a.toarray() + (-1 if subtract else 1) * c @ c.conj().T
    inverse = np.linalg.inv(dense)
    F = ldiv.cholesky(a).update(given, subtract=subtract)
    for G in (F, pickle.loads(pickle.dumps(F)), copy.deepcopy(F)):
        assert_close("solve", G.solve(B.astype(dense.dtype)), inverse @ B)
        assert_close("logdet", G.logdet(), np.linalg.slogdet(dense)[1])
        assert_close("variances", G.inverse_diagonal(), inverse.diagonal())
        assert G.shape == (N, N)


def loss(v, b, c):
    F = ldiv.cholesky(A.with_data(v))
    G = F.update(0.1 * c)
    return sum(
        (H.solve(b) ** 2).sum() + H.logdet() + (H.inverse_diagonal() ** 2).sum() for H in (F, G)
    )


def dense_loss(v, b, c):
    a = torch.zeros((N, N), dtype=torch.float64).index_put(
        (torch.tensor(A.row), torch.tensor(A.col)), v, accumulate=True
    )
    a = (a + a.T) / 2
    total = 0
    for s in (a, a + 0.01 * c @ c.T):
        inverse = torch.linalg.inv(s)
        total = total + ((inverse @ b) ** 2).sum() + torch.logdet(s)
        total = total + (inverse.diagonal() ** 2).sum()
    return total


def derivatives(f):
    """The first and the second ones, by PyTorch."""
    x = [torch.tensor(np.array(t), requires_grad=True) for t in (A.data, B, C)]
    first = torch.autograd.grad(f(*x), x, create_graph=True)
    second = torch.autograd.grad(sum((t**2).sum() for t in first), x)
    return [t.detach().numpy() for t in (*first, *second)]


def test_first_and_second_derivatives():
    for got, expected in zip(derivatives(loss), derivatives(dense_loss), strict=True):
        assert_close("derivative", got, expected, 1e-10)


@pytest.mark.exhaustive
def test_derivatives_in_jax():
    x = [jnp.asarray(t) for t in (A.data, B, C)]
    d = [jnp.ones_like(t) for t in x]

    @jax.jit
    def every(x):
        return jax.grad(loss, (0, 1, 2))(*x), jax.jvp(loss, x, d)[1]

    backward, forward = every(x)
    expected = derivatives(dense_loss)[:3]
    for got, wanted in zip(backward, expected, strict=True):
        assert_close("JAX", np.asarray(got), wanted, 1e-10)
    assert_close("forward", float(forward), float(sum(g.sum() for g in expected)), 1e-10)


def test_a_tree_for_jax():
    F = ldiv.cholesky(A.with_data(jnp.asarray(A.data)))
    G = F.update(jnp.asarray(0.1 * C))

    @jax.jit
    def every(F, G):
        twice = jax.tree.map(lambda x: 2 * x, F)
        gradient = jax.grad(lambda F: F.logdet())(F)
        return F.solve(jnp.asarray(B)), twice, gradient, G.logdet()

    x, twice, gradient, size = every(F, G)
    inverse = np.linalg.inv(A.toarray())
    assert_close("solve", np.asarray(x), inverse @ B)
    assert_close("twice", np.asarray(twice.solve(jnp.asarray(B))), inverse @ B / 2)
    (g,) = jax.tree.leaves(gradient)
    assert_close("gradient", np.asarray(g), inverse[F.matrix.row, F.matrix.col])
    assert_close("update", float(size), np.linalg.slogdet(A.toarray() + 0.01 * C @ C.T)[1])
    for again in (copy.deepcopy(F), pickle.loads(pickle.dumps(ldiv.cholesky(A)))):
        assert_close("again", np.asarray(again.inverse_diagonal()), inverse.diagonal())


def test_batches_duplicates_single_precision_and_numpy():
    two = ldiv.cholesky(A.with_data(np.stack([A.data, 2 * A.data])))
    inverse = np.linalg.inv(A.toarray())
    assert two.shape == (2, N, N)
    assert_close("solve", two.solve(B), np.stack([inverse @ B, inverse @ B / 2]))
    assert_close("variances", two.inverse_diagonal()[1], inverse.diagonal() / 2)
    sizes = [np.linalg.slogdet(s * A.toarray() + 0.01 * C @ C.T)[1] for s in (1, 2)]
    assert_close("update", two.update(0.1 * C).logdet(), np.array(sizes))
    double = ldiv.coo_array((np.tile(A.data / 2, 2), (np.tile(A.row, 2), np.tile(A.col, 2))), shape=A.shape)  # fmt: skip
    assert_close("duplicates", ldiv.cholesky(double).inverse_diagonal(), inverse.diagonal())
    single = ldiv.cholesky(A.astype("float32"))
    assert single.inverse_diagonal().dtype == single.solve(B.astype("float32")).dtype == "float32"
    _, pull = ldiv.vjp(lambda v: ldiv.cholesky(A.with_data(v)).logdet(), A.data)
    assert_close("NumPy", pull(1.0)[0], inverse[A.row, A.col])
    assert_close("rank 0", ldiv.cholesky(A).update(np.zeros((N, 0))).solve(B), inverse @ B)


def test_errors():
    F = ldiv.cholesky(A)
    for call in (
        lambda: ldiv.cholesky(A - 10 * ldiv.eye_array(N)),
        lambda: F.update(10 * C, subtract=True),
        lambda: F.update(ldiv.eye_array(N) * 10, subtract=True),
    ):
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            call()
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.cholesky(ldiv.coo_array((np.arange(1.0, 5), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2)))  # fmt: skip
    for a, message in ((ldiv.random_array((3, 4)), "square"), (A, "lower")):
        with pytest.raises(ValueError, match=message):
            ldiv.cholesky(a, lower=False)
    for c in (np.ones(N + 1), np.ones((N, N)), ldiv.eye_array(N + 1)):
        with pytest.raises(ValueError, match="C: expected"):
            F.update(c)
    with pytest.raises(TypeError, match="sparse"):
        F.update(ldiv.Gram(np.eye(N)))
    with pytest.raises(ldiv.EngineError, match="cancels"):
        ldiv.cholesky(1e-20 * A).update(np.ones(N)[:, None] * np.eye(N)[:, :1]).inverse_diagonal()


@pytest.mark.parametrize("least", [1e-4, 1e-13])
def test_the_determinant_of_an_update_has_its_digits_or_raises(least):
    """I + C^H A^-1 C is nearly of rank 1 where one direction of A nearly vanishes."""
    main = np.array([1.0, *[2.0] * (N - 2), 1.0]) + least
    A = ldiv.diags_array([main, -np.ones(N - 1), -np.ones(N - 1)], offsets=[0, 1, -1])
    C = np.random.default_rng(0).standard_normal((N, 2))
    F = ldiv.cholesky(A).update(C)
    if least > 1e-8:
        expected = np.linalg.slogdet(A.toarray() + C @ C.T)[1]
        np.testing.assert_allclose(F.logdet(), expected, rtol=1e-10)
    else:
        with pytest.raises(ldiv.EngineError, match="cancels"):
            F.logdet()
        c = C[:, :1]  # of one column nothing cancels
        expected = np.linalg.slogdet(A.toarray() + c @ c.T)[1]
        np.testing.assert_allclose(ldiv.cholesky(A).update(c).logdet(), expected, rtol=1e-11)
