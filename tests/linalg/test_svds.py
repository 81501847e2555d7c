"""svds of large matrices: LAPACK's triplets, to rounding, whatever the iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines.eigen.arpack import Lanczos

M, N, K = 300, 260, 4
RNG = np.random.default_rng(3)


def matrix(s: Any, dtype: Any) -> Any:
    """U diag(s) V^H with random U and V."""
    parts = [
        RNG.standard_normal((n, N)) + (1j * RNG.standard_normal((n, N)) if dtype is complex else 0)
        for n in (M, N)
    ]
    u, v = (np.linalg.qr(part)[0] for part in parts)
    return (u * s) @ v.conj().T


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each search by the Gram matrix was good enough."""
    seen: list[bool] = []
    by_gram = Lanczos._by_gram

    def observed(self: Any, *args: Any) -> Any:
        seen.append((found := by_gram(self, *args)) is not None)
        return found

    monkeypatch.setattr(Lanczos, "_by_gram", observed)
    return seen


SPECTRA = {
    "flat": np.linspace(2, 1, N),
    "repeated": np.r_[np.ones(3), np.linspace(0.9, 0.1, N - 3)],
    "falling": 10.0 ** -np.linspace(0, 60, N),
    "steep": 100.0 ** -np.arange(float(N)),
}


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", SPECTRA)
def test_the_largest(name: str, wide: bool, dtype: Any, ways: list[bool]) -> None:
    a = matrix(SPECTRA[name], dtype)
    a, k = a.conj().T if wide else a, 3 if name == "steep" else K
    u, s, vh = ldiv.svds(ldiv.asarray(sp.coo_array(a)), k, method="arpack")
    np.testing.assert_allclose(s, SPECTRA[name][:k][::-1], rtol=0, atol=2e-14)
    np.testing.assert_allclose(a @ vh.conj().T, u * s, atol=3e-14)
    np.testing.assert_allclose(a.conj().T @ u, vh.conj().T * s, atol=3e-14)
    for x in (u, vh.conj().T):
        np.testing.assert_allclose(x.conj().T @ x, np.eye(k), atol=1e-11)
    assert ways == [True] or name == "steep"


def test_residuals_decide(ways: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The doubled matrix takes over where residuals are larger than allowed."""
    monkeypatch.setattr("ldiv.engines.eigen.arpack.GRAM", 0)
    a = matrix(SPECTRA["falling"], float)
    s = ldiv.svds(ldiv.asarray(sp.coo_array(a)), K, return_singular_vectors=False)
    np.testing.assert_allclose(s, SPECTRA["falling"][:K][::-1], atol=1e-14)
    assert ways == [False]


def test_options_and_derivatives(ways: list[bool]) -> None:
    a = matrix(SPECTRA["falling"], float)
    A = ldiv.asarray(sp.coo_array(a))
    values = torch.tensor(A.data, requires_grad=True)
    product = ldiv.LinearOperator(
        lambda p, x: p @ x, torch.tensor(a), shape=a.shape, rmatvec=lambda p, x: p.mT @ x
    )
    for matrix_, options in (
        (A.with_data(values), {"v0": np.ones(N), "ncv": 30}),
        (A.with_data(values.float()), {"tol": 1e-4}),
        (product, {}),
    ):
        s = ldiv.svds(matrix_, K, return_singular_vectors=False, **options)
        np.testing.assert_allclose(s.detach(), SPECTRA["falling"][:K][::-1], rtol=1e-5)
    a = matrix(SPECTRA["flat"], float)
    A = ldiv.asarray(sp.coo_array(a))
    values = torch.tensor(A.data, requires_grad=True)
    u, s, _ = ldiv.svds(A.with_data(values), K)
    found = torch.autograd.grad((s[0] + (u[:, 1] * torch.arange(M)).sum() ** 2), values)[0]
    dense = torch.tensor(a, requires_grad=True)
    u, s, _ = torch.linalg.svd(dense, full_matrices=False)
    loss = s[K - 1] + (u[:, K - 2] * torch.arange(M)).sum() ** 2
    wanted = torch.autograd.grad(loss, dense)[0].numpy()
    np.testing.assert_allclose(found, wanted[A.row, A.col], atol=1e-7 * abs(wanted).max())
    assert ways == [True] * 4


@pytest.mark.parametrize("shape", [(520, 520), (700, 320)])
def test_the_smallest_of_a_large_dense_matrix_are_found_among_all(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).standard_normal(shape)
    found, expected = ldiv.svds(a, 2, which="SM"), np.linalg.svd(a, compute_uv=False)[:-3:-1]
    np.testing.assert_allclose(found[1], expected, rtol=1e-11)
    np.testing.assert_allclose(a @ found[2].T, found[0] * found[1], atol=1e-11)


def test_where_the_smallest_are_not_at_hand_the_message_has_a_line_that_finds_them() -> None:
    S = sp.random_array((800, 300), density=0.01, rng=np.random.default_rng(0)) * 3.0
    S = (S + sp.eye_array(800, 300)).tocsr()
    expected = np.linalg.svd(S.toarray(), compute_uv=False)[:-4:-1]
    for A, line in ((ldiv.asarray(S), r"A\.H @ A"), (ldiv.asarray(S.T.tocsr()), r"A @ A\.H")):
        with pytest.raises(ldiv.EngineError, match=rf"ldiv\.eigsh\({line}, k, sigma=0\)"):
            ldiv.svds(A, 3, which="SM")
        product = eval(line.replace("\\", ""), {"A": A})
        np.testing.assert_allclose(ldiv.eigsh(product, 3, sigma=0)[0] ** 0.5, expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_smallest_of_a_large_square_sparse_matrix_by_its_factor(dtype: str) -> None:
    rng, n = np.random.default_rng(0), 600
    S = sp.random_array((n, n), density=0.004, rng=rng) + sp.diags_array(2 + np.arange(n) / n)
    S = (S.tocsr() * (1 + 0.5j if dtype[0] == "c" else 1)).astype(dtype)
    A = ldiv.asarray(S)
    u, s, vh = np.linalg.svd(S.toarray())
    found = ldiv.svds(A, 3, which="SM")
    np.testing.assert_allclose(found[1], s[:-4:-1], rtol=1e-12)
    np.testing.assert_allclose(S @ found[2].conj().T, found[0] * found[1], atol=1e-10)
    values = torch.tensor(A.data, requires_grad=True)
    ldiv.svds(A.with_data(values), 3, which="SM", return_singular_vectors=False).sum().backward()
    # ds_j = Re u_j^H dA v_j
    rows, cols = A.coords
    expected = sum(u[rows, -j] * vh[-j, cols].conj() for j in (1, 2, 3))
    np.testing.assert_allclose(values.grad, expected, atol=1e-10)
    S = S.tolil()
    S[:, 5] = 0
    with pytest.raises(ldiv.SingularMatrixError, match="svdvals"):
        ldiv.svds(ldiv.asarray(S.tocsr()), 3, which="SM")
    # LAPACK finds all of them: the one that vanishes is not passed over
    for k, options in ((3, {"method": "lapack"}), (400, {})):
        with pytest.raises(ValueError, match="singular values that are not zero"):
            ldiv.svds(ldiv.asarray(S.tocsr()), k, which="SM", **options)
