"""Normal distributions by precisions and covariances, against those by their triangles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines.libraries import native
from ldiv.testing.distance import assert_close

jax.config.update("jax_enable_x64", True)
N = 9
RNG = np.random.default_rng(1)
X, MEAN = RNG.standard_normal((4, N)), RNG.standard_normal(N)


def matrix(dtype="float64", shift=0.0):
    a = sp.diags_array(
        [np.full(N, 2.5 + shift), -np.ones(N - 2), -np.ones(N - 2)], offsets=[0, 2, -2]
    )
    a = a.tocoo().astype(dtype)
    if dtype == "complex128":
        a.data = a.data * np.exp(1j * np.sign(a.row - a.col))
    return ldiv.asarray(a)


def triangles(kind, *matrices):
    """Cholesky factors of the covariances."""
    dense = (np.linalg.inv(m.toarray()) if kind == "precision" else m.toarray() for m in matrices)
    return [np.linalg.cholesky(d) for d in dense]


@pytest.mark.parametrize("kind", ["precision", "covariance"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_values(dtype, kind):
    one, two = matrix(dtype), matrix(dtype, 1.0)
    L1, L2 = triangles(kind, one, two)
    x = X.astype(dtype) + (1j * X[::-1] if dtype == "complex128" else 0)
    for wrap in (lambda a: a, lambda a: a.toarray(), ldiv.cholesky, lambda a: a.to_scipy()):
        got = ldiv.gaussian_logpdf(x, mean=MEAN, **{kind: wrap(one)})
        assert_close("density", got, ldiv.gaussian_logpdf(x, L1, mean=MEAN))
        given = {kind + "1": wrap(one), kind + "2": wrap(two)}
        for means in ({}, {"mean1": MEAN}, {"mean2": x}, {"mean1": MEAN, "mean2": x}):
            expected = ldiv.gaussian_kl(L1, L2, **means)
            assert_close("divergence", ldiv.gaussian_kl(**given, **means), expected)


def losses(kind):
    pattern = matrix()

    def loss(v, w, x, m):
        one, two = pattern.with_data(v), pattern.with_data(w)
        density = ldiv.gaussian_logpdf(x, mean=m, **{kind: one}).sum()
        return density + ldiv.gaussian_kl(**{kind + "1": one, kind + "2": two}, mean1=m)

    def dense(v, w, x, m):
        rows, cols = torch.tensor(pattern.row), torch.tensor(pattern.col)
        parts = []
        for p in (v, w):
            a = torch.zeros((N, N), dtype=torch.float64).index_put((rows, cols), p)
            a = (a + a.T) / 2
            parts.append(torch.linalg.cholesky(torch.linalg.inv(a) if kind == "precision" else a))
        density = ldiv.gaussian_logpdf(x, parts[0], mean=m).sum()
        return density + ldiv.gaussian_kl(*parts, mean1=m)

    return loss, dense


@pytest.mark.parametrize("kind", ["precision", "covariance"])
def test_derivatives(kind):
    start = matrix().data, matrix(shift=1.0).data, X, MEAN
    x = [torch.tensor(np.array(t), requires_grad=True) for t in start]
    loss, dense = losses(kind)
    first, second = [], []
    for f in (loss, dense):
        g = torch.autograd.grad(f(*x), x, create_graph=True)
        first.append(g)
        second.append(torch.autograd.grad(sum((t**2).sum() for t in g), x))
    for got, expected in zip(first[0] + second[0], first[1] + second[1], strict=True):
        assert_close("derivative", got.detach(), expected.detach(), 1e-10)
    got = jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*map(jnp.asarray, start))
    for g, expected in zip(got, first[1], strict=True):
        assert_close("JAX", np.asarray(g), expected.detach().numpy(), 1e-10)


def test_constants_and_batches():
    F = ldiv.cholesky(matrix())
    expected = ldiv.gaussian_logpdf(X, precision=F)
    assert_close("moved", ldiv.gaussian_logpdf(torch.tensor(X), precision=F).numpy(), expected)
    both = matrix().with_data(np.stack([matrix().data, 2 * matrix().data]))
    got = ldiv.gaussian_logpdf(X[:2], precision=both)
    assert_close("first", got[0], ldiv.gaussian_logpdf(X[0], precision=matrix()))
    assert_close("second", got[1], ldiv.gaussian_logpdf(X[1], precision=2 * matrix()))


def test_errors():
    a, L = matrix(), np.eye(N)
    for call, message in (
        (lambda: ldiv.gaussian_logpdf(X), "L, precision or covariance"),
        (lambda: ldiv.gaussian_logpdf(X, L, precision=a), "2 matrices"),
        (lambda: ldiv.gaussian_logpdf(X, precision=a, covariance=a), "2 matrices"),
        (lambda: ldiv.gaussian_logpdf(1j * X, precision=a), "real"),
        (lambda: ldiv.gaussian_kl(L), "L1 and L2"),
        (lambda: ldiv.gaussian_kl(precision1=a), "0 matrices"),
        (lambda: ldiv.gaussian_kl(L, precision2=a), "L1"),
        (lambda: ldiv.gaussian_kl(precision1=a, covariance2=a), "two precisions"),
        (lambda: ldiv.gaussian_logpdf(X, precision=ldiv.Matrix(ldiv.structures.Diagonal(N), MEAN)), "sparse or dense"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            call()
    for call in (
        lambda: ldiv.gaussian_logpdf(X[:, 1:], precision=a),
        lambda: ldiv.gaussian_kl(precision1=a, precision2=ldiv.eye_array(3)),
        lambda: ldiv.gaussian_logpdf(X, precision=ldiv.random_array((N, 3))),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    for kind in ("precision", "covariance"):
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            ldiv.gaussian_logpdf(X, **{kind: -1 * a})


@pytest.mark.parametrize("kind", ["precision", "covariance"])
def test_a_density_and_its_gradient_factor_once(kind):
    """Also the first ones of a pattern, whose determinant is asked for before its solve."""
    if native.native is None:
        pytest.skip(native.why_not)
    n = 31
    A = ldiv.diags_array([np.full(n, 3.0), -np.ones(n - 3), -np.ones(n - 3)], offsets=[0, 3, -3])
    values = torch.tensor(A.data, requires_grad=True)
    ldiv.clear_cache()
    ldiv.gaussian_logpdf(
        torch.ones(n, dtype=torch.float64), **{kind: A.with_data(values)}
    ).backward()
    assert ldiv.cache_info().factorizations == 1
