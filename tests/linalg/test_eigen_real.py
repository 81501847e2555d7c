"""Eigenpairs of real matrices: values and gradients against the whole dense eigenbasis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
EPS = np.finfo(float).eps
# name, k, sigma, and what the accuracy of a solve with the matrix scaled to a unit diagonal is,
# times 100
CASES = [
    ("bcsstk13", 10, 0.0, 1e-8),
    ("494_bus", 6, 0.0, 2e-9),
    ("mhd1280b", 6, None, 1e-11),
    ("mhd1280b", 4, 20.0, 1e-10),
]


def loss(w, x):
    """sum lam_i / lam_max + sum |x_i^H C x_j|^2 / (i + j + 1), C diagonal: no sign and no phase
    counts.
    """
    c = torch.asarray(np.random.default_rng(0).standard_normal(x.shape[0]))
    q = x.mH @ (c[:, None] * x)
    i = torch.arange(w.shape[0])
    return w.sum() / w.detach()[-1] + (q.abs() ** 2 / (i + i[:, None] + 1)).sum()


def cotangents(w, x):
    w, x = torch.tensor(w, requires_grad=True), torch.tensor(x, requires_grad=True)
    return [g.numpy() for g in torch.autograd.grad(loss(w, x), (w, x))]


def from_below(a):
    """All (1 / lam_j, x_j), by the inverse of the matrix scaled to a unit diagonal: the small
    eigenvalues to full accuracy.
    """
    scale = 1 / np.sqrt(a.diagonal().real)
    l = np.linalg.cholesky(a * scale * scale[:, None])
    half = scipy.linalg.solve_triangular(l, np.diag(scale), lower=True)
    mu, v = np.linalg.eigh(half.conj().T @ half)
    return mu[::-1], v[:, ::-1]


def eigenbasis(matrix, k, sigma):
    """(lam, 1 / (lam_i - lam_j) with 0 for i = j, X, all eigenvectors)."""
    if sigma == 0:
        mu, v = from_below(matrix.toarray())
        at = np.arange(k)
        lam = 1 / mu[at]
        with np.errstate(divide="ignore"):
            # 1 / (lam_i - lam_j) without the large lam_j
            inverse_gaps = mu[:, None] * mu[at] / (mu[:, None] - mu[at])
    else:
        w, v = np.linalg.eigh(matrix.toarray())
        at = (
            np.arange(len(w) - k, len(w))
            if sigma is None
            else np.sort(np.argsort(abs(w - sigma))[:k])
        )
        lam = w[at]
        with np.errstate(divide="ignore"):
            inverse_gaps = 1 / (lam - w[:, None])
    inverse_gaps[at, range(k)] = 0
    return lam, inverse_gaps, v[:, at], v


def formula(matrix, k, sigma):
    """(lam, cotangent of the values), A_bar = sym P X^H, p_i = x_i lam_bar_i + sum over j != i
    of x_j x_j^H x_bar_i / (lam_i - lam_j).
    """
    lam, inverse_gaps, x, v = eigenbasis(matrix, k, sigma)
    lam_bar, x_bar = cotangents(lam, x)
    p = x * lam_bar + v @ (inverse_gaps * (v.conj().T @ x_bar))
    row, col = matrix.tocoo().coords
    return lam, ((p[row] * x[col].conj()).sum(axis=1) + (x[row] * p[col].conj()).sum(axis=1)) / 2


@pytest.mark.parametrize(("name", "k", "sigma", "tol"), CASES)
def test_values_and_gradient(real_matrix, name, k, sigma, tol):
    matrix = real_matrix(name)
    coo = matrix.tocoo()
    values = torch.tensor(coo.data, requires_grad=True)
    w, x = ldiv.eigsh(ldiv.coo_array((values, coo.coords), shape=coo.shape), k, sigma=sigma)
    found = w.detach().numpy()
    X = x.detach().numpy()
    assert np.abs(X.conj().T @ X - np.eye(k)).max() <= 1e-10
    lam, expected = formula(matrix, k, sigma)
    np.testing.assert_allclose(found, lam, rtol=tol)
    (got,) = torch.autograd.grad(loss(w, x), values)
    error = np.abs(got.numpy() - expected).max() / np.abs(expected).max()
    assert error <= tol, f"off by {error:.1e}"


@pytest.mark.parametrize(
    ("name", "k", "sigma", "tol"),
    [
        CASES[1],
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for i, case in enumerate(CASES)
            if i != 1
        ),
    ],
)
def test_the_sum_of_eigenvalues_needs_no_solve(real_matrix, name, k, sigma, tol):
    """The gradient of the sum is X X^H on the pattern."""
    coo = real_matrix(name).tocoo()
    values = torch.tensor(coo.data, requires_grad=True)
    A = ldiv.coo_array((values, coo.coords), shape=coo.shape)
    total = ldiv.eigsh(A, k, sigma=sigma, return_eigenvectors=False).sum()
    before = ldiv.cache_info()
    (got,) = torch.autograd.grad(total, values)
    after = ldiv.cache_info()
    assert (after.solves, after.factorizations) == (before.solves, before.factorizations)
    x = eigenbasis(coo, k, sigma)[2]
    row, col = coo.coords
    expected = (x[row] * x[col].conj()).sum(axis=1)
    assert np.abs(got.numpy() - expected).max() <= tol * np.abs(expected).max()
