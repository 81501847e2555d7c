"""Factorized is a tree: values are leaves, all else is static; it shows what it is."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ldiv

RNG = np.random.default_rng(0)
D = np.diag(4.0 + np.arange(5)) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)
b = RNG.uniform(size=5)
AT = np.nonzero(D)


def sparse(values: Any) -> Any:
    return ldiv.coo_array((values, AT), shape=(5, 5))


def test_what_it_shows() -> None:
    F = ldiv.factorized(sparse(D[AT]), assume_a="pos")
    assert (
        repr(F)
        == "<Factorized (5, 5) float64 on Symmetric, assume_a='pos', method='direct', numpy>"
    )
    T = ldiv.factorized(torch.tensor(np.stack([D, D]), dtype=torch.float32), method="lapack")
    assert (
        repr(T) == "<Factorized (2, 5, 5) float32 on Dense, assume_a='gen', method='lapack', torch>"
    )
    assert (T.shape, T.dtype) == ((2, 5, 5), torch.float32)
    assert repr(jax.tree.map(lambda x: None, F)) == "<Factorized (5, 5) on Symmetric>"
    for again in (copy.copy(F), copy.deepcopy(F), pickle.loads(pickle.dumps(F))):
        assert repr(again) == repr(F)
        np.testing.assert_allclose(again.solve(b), np.linalg.solve(D, b))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda v: sparse(v), id="sparse"),
        pytest.param(lambda v: sparse(v).toarray(), id="dense", marks=pytest.mark.exhaustive),
    ],
)
def test_in_and_out_of_jax(make: Any) -> None:
    v = jnp.asarray(D[AT], dtype=jnp.float32)
    F, c = ldiv.factorized(make(v)), jnp.asarray(b, dtype=jnp.float32)
    expected = jax.grad(lambda v: ldiv.solve(make(v), c).sum())(v)
    (gradient,) = jax.tree.leaves(jax.jit(jax.grad(lambda F: F.solve(c).sum()))(F))
    got = gradient if gradient.ndim == 1 else gradient[AT]
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    out = jax.jit(lambda F: jax.tree.map(lambda x: 2 * x, F))(F)
    np.testing.assert_allclose(out.solve(c), F.solve(c) / 2, rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(lambda F: F.logabsdet())(F), np.linalg.slogdet(D)[1], rtol=1e-5
    )
    both = jax.vmap(lambda F, c: F.solve(c), (None, 0))(F, jnp.stack([c, 2 * c]))
    np.testing.assert_allclose(both[1], 2 * F.solve(c), rtol=1e-5)


def test_a_tree_is_factored_once() -> None:
    F = ldiv.factorized(sparse(D[AT]))
    twice = jax.tree.map(lambda x: 2 * x, F)
    ldiv.clear_cache()
    before = ldiv.cache_info().factorizations
    for _ in range(5):
        twice.solve(b)
        twice.logabsdet()
    assert ldiv.cache_info().factorizations == before + 1


def test_a_tree_that_is_singular_says_so() -> None:
    F = jax.tree.map(lambda x: 0 * x, ldiv.factorized(sparse(D[AT])))
    for use in (lambda: F.solve(b), F.logabsdet):
        with pytest.raises(ldiv.SingularMatrixError):
            use()


@pytest.mark.parametrize("made", ["sparse", "transposed", "toeplitz", "operator", "updated"])
def test_representations_of_trees_of_other_leaves(made: str) -> None:
    """`jax.tree.map(jnp.shape, A)` and its like are looked at in error messages and notebooks."""
    A = ldiv.diags_array([jnp.full(4, 2.0), jnp.ones(3)], offsets=[0, 1], shape=(4, 4))
    M: Any = {
        "sparse": lambda: A,
        "transposed": lambda: A.T,
        "toeplitz": lambda: ldiv.toeplitz(jnp.ones(4)),
        "operator": lambda: ldiv.LinearOperator(lambda p, X: p * X, jnp.ones(()), shape=(4, 4)),
        "updated": lambda: ldiv.cholesky(A + A.T).update(jnp.ones((4, 1))),
    }[made]()
    for leaf in (
        jnp.shape,
        lambda x: None,
        jax.typeof,
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype),
    ):
        other = jax.tree.map(leaf, M)
        assert "4" in repr(other) and "4" in str(other)
    if made == "sparse":
        assert (
            repr(jax.tree.map(jnp.shape, M))
            == "<SparseArray (4, 4) (7,), nnz=7 (43.8%), coo, none>"
        )
