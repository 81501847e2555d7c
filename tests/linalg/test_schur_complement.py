"""Schur complements against dense formulas, in value and derivatives, and by one factorization."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N, KEEP = 30, [3, 20, 7, -1]
RNG = np.random.default_rng(0)
BANDS = RNG.standard_normal(N) + 6, RNG.standard_normal(N - 1), RNG.standard_normal(N - 1)
CHAIN = ldiv.diags_array([x.copy() for x in BANDS], offsets=[0, 1, -1])
WEIGHT = RNG.standard_normal((4, 4))


def expected(a, keep=KEEP):
    k = np.array(keep, int) % a.shape[-1]
    r = np.setdiff1d(np.arange(a.shape[-1]), k)
    kk, kr, rk, rr = (a[..., i[:, None], j] for i in (k, r) for j in (k, r))
    solve = torch.linalg.solve if isinstance(a, torch.Tensor) else np.linalg.solve
    return kk - kr @ solve(rr, rk)


def written(v):
    a = torch.zeros((N, N), dtype=v.dtype)
    return a.index_put(tuple(torch.tensor(np.asarray(i, int)) for i in CHAIN.coords), v)


def test_values_of_sparse_and_dense_matrices():
    dense = CHAIN.toarray()
    for a in (CHAIN, dense, sp.csr_array(dense), CHAIN.tocsr(), torch.tensor(dense)):
        assert np.allclose(ldiv.schur_complement(a, KEEP), expected(dense), atol=1e-14)
    assert np.allclose(ldiv.schur_complement(CHAIN.T, KEEP), expected(dense.T), atol=1e-14)
    chosen = np.isin(np.arange(N), np.array(KEEP) % N)
    found = ldiv.schur_complement(CHAIN, chosen)
    assert np.allclose(found, expected(dense, np.flatnonzero(chosen)), atol=1e-14)
    batch = np.stack([dense, 2 * dense + np.eye(N)]) + 0j
    assert np.allclose(ldiv.schur_complement(batch, KEEP), expected(batch), atol=1e-14)
    # the inverse of S is a block of the inverse
    k = np.array(KEEP) % N
    assert np.allclose(np.linalg.inv(expected(dense)), np.linalg.inv(dense)[k[:, None], k])


def test_derivatives_on_the_pattern():
    v = torch.tensor(CHAIN.data)

    def ours(v):
        return (
            torch.sin(ldiv.schur_complement(CHAIN.with_data(v), KEEP)) * torch.tensor(WEIGHT)
        ).sum()

    def dense(v):
        return (torch.sin(expected(written(v))) * torch.tensor(WEIGHT)).sum()

    assert torch.allclose(torch.func.grad(ours)(v), torch.func.grad(dense)(v), atol=1e-13)
    second = torch.func.hessian(dense)(v)
    twice = torch.func.jacfwd(torch.func.jacfwd(ours))  # PyTorch's own is wrong there
    for found in (torch.func.hessian(ours)(v), twice(v)):
        assert torch.allclose(found, second, atol=1e-13)

    def in_jax(v):
        return (jax.numpy.sin(ldiv.schur_complement(CHAIN.with_data(v), KEEP)) * WEIGHT).sum()

    gradient = torch.func.grad(dense)(v).numpy()
    assert np.allclose(jax.jit(jax.grad(in_jax))(jax.numpy.array(CHAIN.data)), gradient, atol=1e-13)
    S, pull = ldiv.vjp(lambda v: ldiv.schur_complement(CHAIN.with_data(v), KEEP), CHAIN.data)
    assert np.allclose(pull(np.cos(S) * WEIGHT)[0], gradient, atol=1e-13)


def test_one_factorization_serves_value_and_gradient():
    v = torch.tensor(CHAIN.data + 0.125, requires_grad=True)
    before = ldiv.cache_info().factorizations
    S = ldiv.schur_complement(CHAIN.with_data(v), KEEP)
    (g,) = torch.autograd.grad(S.sum(), v, create_graph=True)
    torch.autograd.grad(g.square().sum(), v)
    assert ldiv.cache_info().factorizations == before + 1


def test_what_is_refused_and_the_ends():
    dense = CHAIN.toarray()
    for keep in ([0, 0], [N], [-1, N - 1], [0.5], "a", 0, [True] * 3, [[0]]):
        with pytest.raises(ValueError, match="keep"):
            ldiv.schur_complement(CHAIN, keep)
    with pytest.raises(ValueError, match="square"):
        ldiv.schur_complement(dense[:4], [0])
    with pytest.raises(TypeError, match="entries are stored"):
        ldiv.schur_complement(ldiv.LinearOperator(lambda p, x: p @ x, dense, shape=(N, N)), [0])
    singular = dense.copy()
    singular[5] = 0
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.schur_complement(singular, KEEP)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.schur_complement(-ldiv.eye_array(4), [0], assume_a="pos")
    for a in (CHAIN, dense):
        assert ldiv.schur_complement(a, []).shape == (0, 0)
        assert (ldiv.schur_complement(a, np.arange(N)) == dense).all()
