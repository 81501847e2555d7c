"""Pencils whose second matrix is singular: unknowns without mass, and what to call instead."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

import ldiv

jax.config.update("jax_enable_x64", True)
N, HEAVY = 40, 25
CHAIN = sp.diags_array([-np.ones(N - 1), np.full(N, 2.0), -np.ones(N - 1)], offsets=[-1, 0, 1])
MASS = np.r_[np.linspace(1, 2, HEAVY), np.zeros(N - HEAVY)]


def condensed() -> tuple[np.ndarray, np.ndarray]:
    """The pairs without the massless unknowns: K_11 - K_12 K_22^-1 K_21, by LAPACK."""
    K, at = CHAIN.toarray(), slice(HEAVY)
    down = -np.linalg.solve(K[HEAVY:, HEAVY:], K[HEAVY:, at])
    w, x = scipy.linalg.eigh(K[at, at] + K[at, HEAVY:] @ down, np.diag(MASS[at]))
    return w, np.concatenate([x, down @ x])


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_unknowns_without_mass(kind: str, sigma: float) -> None:
    A = ldiv.asarray(CHAIN.tocoo())
    values = torch.tensor(A.data, requires_grad=True)
    matrix, M = A.with_data(values), ldiv.diags_array([torch.tensor(MASS)], offsets=[0])
    pair = (matrix, M) if kind == "sparse" else (matrix.toarray(), M.toarray())
    w, X = ldiv.eigsh(pair[0], 3, pair[1], sigma=sigma)
    lam, x = condensed()
    nearest = np.sort(np.argsort(abs(lam - sigma))[:3])
    np.testing.assert_allclose(w.detach(), lam[nearest], rtol=1e-11)
    x = x[:, nearest]
    np.testing.assert_allclose(abs(X.detach()), abs(x), atol=1e-9)
    # dlam = x^T dK x
    (found,) = torch.autograd.grad(w[1], values, retain_graph=True)
    np.testing.assert_allclose(found, x[A.row, 1] * x[A.col, 1], atol=1e-11)
    if sigma == 0:  # dx = -(K - lam M)^+ dK x, in the condensed basis and of the massless unknowns
        (found,) = torch.autograd.grad((X[:, 1] ** 4).sum(), values)
        K, (w, every) = CHAIN.toarray(), condensed()
        y = 4 * x[:, 1] ** 3
        gaps = w - w[1]
        gaps[1] = np.inf
        # the part of K_22^-1 that no eigenvector with mass has
        light = np.zeros((N, N))
        light[HEAVY:, HEAVY:] = np.linalg.inv(K[HEAVY:, HEAVY:])
        z = -(every / gaps @ every.T + light) @ y
        symmetric = np.outer(z, x[:, 1]) + np.outer(x[:, 1], z)
        np.testing.assert_allclose(found, symmetric[A.row, A.col] / 2, atol=1e-9)


@pytest.mark.parametrize(("n", "heavy"), [(60, 40), (100, 15), (100, 7)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_few_masses_and_gradients_in_them(n: int, heavy: int, is_complex: bool) -> None:
    """Fewer finite eigenvalues than Lanczos vectors; the reference is the pencil without the others."""
    rng = np.random.default_rng(heavy)
    R = rng.standard_normal((n, n)) + 1j * is_complex * rng.standard_normal((n, n))
    K, m = jnp.array(R @ R.conj().T + np.eye(n)), np.zeros(n)
    m[rng.permutation(n)[:heavy]] = rng.uniform(1, 2, heavy)
    on, off = np.flatnonzero(m), np.flatnonzero(m == 0)

    def loss(K: Any, m: Any) -> Any:
        return (ldiv.eigsh(K, 3, jnp.diag(m), sigma=0)[0] * jnp.arange(1.0, 4)).sum()

    def reference(K: Any, m: Any) -> Any:
        K = (K + K.conj().T) / 2
        down = jnp.linalg.solve(K[np.ix_(off, off)], K[np.ix_(off, on)])
        by = m[on] ** -0.5
        S = (K[np.ix_(on, on)] - K[np.ix_(on, off)] @ down) * by * by[:, None]
        return (jnp.linalg.eigvalsh(S)[:3] * jnp.arange(1.0, 4)).sum()

    w, (K_bar, m_bar) = jax.value_and_grad(loss, (0, 1))(K, jnp.array(m))
    expected, (of_K, of_m) = jax.value_and_grad(reference, (0, 1))(K, jnp.array(m))
    np.testing.assert_allclose(w, expected, rtol=1e-12)
    np.testing.assert_allclose(K_bar, of_K, atol=1e-10 * float(abs(of_K).max()))
    np.testing.assert_allclose(m_bar[on], of_m[on], rtol=1e-9)


def test_fewer_masses_than_pairs_are_refused() -> None:
    for guard, rank in ((2, 7), (1, 6)):
        with pytest.raises(ValueError, match=f"M: expected a matrix of rank {rank} or more"):
            ldiv.eigsh(CHAIN.tocoo(), 3, np.diag(np.arange(N) < 4) * 1.0, sigma=0, guard=guard)


def test_an_indefinite_mass_is_refused() -> None:
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.eigsh(CHAIN.tocoo(), 3, sp.diags_array(MASS - 0.5).tocoo(), sigma=0.0)


def test_messages_name_what_to_call() -> None:
    A, B = CHAIN.toarray(), np.diag(MASS)
    calls = [
        lambda: ldiv.eig(A, B),
        lambda: ldiv.eigvals(A, B),
        lambda: ldiv.eigs(A, 3, B),
        lambda: ldiv.eigs(A, 3, B, method="arpack"),
    ]
    for call in calls:
        with pytest.raises(ldiv.SingularMatrixError, match=r"ldiv\.eigs\(A, k, M, sigma=") as error:
            call()
        assert "null_space" not in str(error.value)
    free = np.full(300, 2.0)
    free[[0, -1]] = 1
    singular = sp.diags_array([-np.ones(299), free, -np.ones(299)], offsets=[-1, 0, 1])
    for f in (ldiv.eigsh, ldiv.eigs):
        with pytest.raises(
            ldiv.SingularMatrixError, match=r"ldiv\.eigsh\(A, k, M, sigma="
        ) as error:
            f(singular.tocoo(), 2, sigma=0.0)
        assert "null_space" not in str(error.value)
