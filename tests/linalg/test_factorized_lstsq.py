"""Least squares from one factorization: many right-hand sides, the covariance of x, every mode."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
m, n = 12, 5
rng = np.random.default_rng(0)
D = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.5) + np.eye(m, n)
S, b, w = sp.csr_array(D), rng.standard_normal((m, 2)), rng.random(m) + 0.5


def _dense(C: Any) -> Any:
    return C if hasattr(C, "__array__") and not hasattr(C, "toarray") else C.toarray()


@pytest.mark.parametrize("A", [S, D], ids=["sparse", "dense"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_many_right_hand_sides_and_covariance(A: Any, wide: bool, damp: float, dtype: str) -> None:
    A = (A + 1j * A**2 if dtype == "complex128" else A).astype(dtype)
    A = A.conj().T if wide else A
    B = A.toarray() if sp.issparse(A) else A
    rtol = 1e-4 if dtype == "float32" else 1e-11
    F = ldiv.factorized(A, method="lstsq", damp=damp, weights=w[: len(B)])
    W = np.diag(w[: len(B)])
    for c in (b[: len(B)].astype(dtype), b[: len(B), 0].astype(dtype)):
        before = ldiv.cache_info().factorizations
        found = F.solve(c)
        assert ldiv.cache_info().factorizations == before
        expected = ldiv.lstsq(B, c, damp=damp, weights=w[: len(B)]).x
        assert np.allclose(found, expected, rtol, rtol) and F(c).dtype == dtype
    if wide and not damp:
        with pytest.raises(ValueError, match="covariance: expected m >= n"):
            F.covariance()
        return
    C = np.linalg.inv(B.conj().T @ W @ B + damp**2 * np.eye(B.shape[1]))
    kept = (abs(B).T @ abs(B) != 0) | (not sp.issparse(A))
    assert np.allclose(_dense(F.covariance()), np.where(kept, C, 0), 10 * rtol, rtol)
    assert np.allclose(F.variances(), np.diag(C).real, 10 * rtol, rtol)


@pytest.mark.parametrize("kappa", [1e3, 1e6])
def test_covariance_keeps_the_digits_that_normal_equations_lose(kappa: float) -> None:
    A = D.copy()
    A[:, -1] = A[:, 0]
    A[3, -1] += 1 / kappa
    with mpmath.workdps(60):
        M = mpmath.matrix(A.tolist())
        C = np.array(((M.T * M) ** -1).tolist(), float)
    found = ldiv.factorized(sp.csr_array(A), method="lstsq").variances()
    of_dense = ldiv.factorized(A, method="lstsq").variances()
    for variances in (found, of_dense):
        assert np.allclose(variances, np.diag(C), 20 * kappa * np.finfo(float).eps)


def _loss(F: Any, c: Any) -> Any:
    variances = F.variances()
    return (F.solve(c) ** 2).sum() + (variances**2).sum() + (F.solve(2 * c) ** 3).sum()


@pytest.mark.covering(1)
@pytest.mark.parametrize("damp", [0.0, 0.4])
def test_derivatives_in_torch(damp: float) -> None:
    A, v, c, u = ldiv.asarray(S), *map(torch.tensor, (S.data, b, w))

    def f(v: Any, c: Any, u: Any) -> Any:
        return _loss(ldiv.factorized(A.with_data(v), method="lstsq", damp=damp, weights=u), c)

    args = tuple(x.requires_grad_() for x in (v, c, u))
    assert torch.autograd.gradcheck(f, args, check_forward_ad=True, atol=1e-6)
    # a solution may come from another factor of the same matrix the next time, with other roundings
    assert torch.autograd.gradgradcheck(f, args, fast_mode=True, atol=1e-5)
    dense = A.with_data(v).toarray()
    G = ldiv.factorized(dense, method="lstsq", damp=damp, weights=u)
    for x, y in zip(*(torch.autograd.grad(g, args) for g in (f(*args), _loss(G, c))), strict=True):
        assert torch.allclose(x, y, rtol=1e-9, atol=1e-11)


def test_one_factorization_for_solutions_and_gradients() -> None:
    v, c = torch.tensor(S.data, requires_grad=True), torch.tensor(b, requires_grad=True)
    before = ldiv.cache_info().factorizations
    F = ldiv.factorized(ldiv.asarray(S).with_data(v), method="lstsq")
    for i in range(3):
        (F.solve(c + i) ** 2).sum().backward()
    assert ldiv.cache_info().factorizations - before == 1


def test_in_jax() -> None:
    A, v, c = ldiv.asarray(S), jax.numpy.asarray(S.data), jax.numpy.asarray(b)

    @jax.jit
    def f(v: Any, c: Any) -> Any:
        return _loss(ldiv.factorized(A.with_data(v), method="lstsq"), c)

    def g(v: Any, c: Any) -> Any:
        dense = A.with_data(v).toarray()
        return _loss(ldiv.factorized(dense, method="lstsq"), c)

    assert np.allclose(f(v, c), g(v, c))
    for x, y in zip(*(jax.grad(h, (0, 1))(v, c) for h in (f, g)), strict=True):
        assert np.allclose(x, y)
    many = jax.vmap(f, (0, None))(jax.numpy.stack([v, 2 * v]), c)
    assert np.allclose(many, [f(v, c), f(2 * v, c)])
    F = ldiv.factorized(A.with_data(v), method="lstsq")  # crosses jit as an array does
    assert np.allclose(jax.jit(lambda F, c: F.solve(c))(F, c), F.solve(c))


def test_what_it_holds() -> None:
    A = ldiv.asarray(S)
    F, x = ldiv.factorized(A, method="lstsq", weights=w), ldiv.lstsq(S, b, weights=w).x
    A.data[:] = 0  # a snapshot was taken
    assert np.allclose(F.solve(b), x) and F.shape == (m, n) and F.dtype == "float64"
    for G in (pickle.loads(pickle.dumps(F)), copy.deepcopy(F)):
        assert np.array_equal(G.solve(b), F.solve(b))
    c = torch.tensor(b, requires_grad=True)  # beside constants of NumPy
    assert torch.allclose(F.solve(c), torch.tensor(x))
    assert "FactorizedLstsq" in repr(F) and F(b[:, 0]).shape == (n,)


def test_composed() -> None:
    left, right = (sp.csr_array(D[:k, :l]) for k, l in ((4, 3), (5, 2)))
    K, rows = ldiv.kron(left, right), np.arange(1.0, 21)
    P = ldiv.Matrix(ldiv.structures.Diagonal(20), rows) @ K
    low = ldiv.LowRank(D[:5, :2], D[:3, 2:4])
    band = ldiv.Matrix(ldiv.structures.Banded(1, 0, 4), np.array([[3.0, 4, 5, 6], [1, 2, 3, 0]]))
    blocks = ldiv.block_array([[left, None], [left[:2], right[:2]]])
    plus = ldiv.asarray(sp.csr_array(D[:5, :3])) + low
    for A in (
        K,
        P,
        P.T,
        2 * P,
        2 * K + P,
        plus,
        band,
        blocks,
        ldiv.block_array([[band], [band.T]]),
    ):
        B, c = A @ np.eye(A.shape[1]), b.ravel()[: A.shape[0]]
        for damp in (0.0, 0.5):
            tall = np.vstack([B, damp * np.eye(B.shape[1])]) if damp else B
            x = np.linalg.lstsq(tall, np.r_[c, np.zeros(len(tall) - len(c))])[0]
            assert np.allclose(ldiv.lstsq(A, c, damp=damp).x, x)
            assert np.allclose(ldiv.factorized(A, method="lstsq", damp=damp)(c), x)
        x = np.linalg.lstsq(rows[: len(c), None] * B, rows[: len(c)] * c)[0]
        assert np.allclose(ldiv.lstsq(A, c, weights=rows[: len(c)] ** 2).x, x)
    with pytest.raises(TypeError, match="covariance: expected a sparse or dense A"):
        ldiv.factorized(P, method="lstsq").covariance()


@pytest.mark.parametrize("damp", [0.0, pytest.param(0.4, marks=pytest.mark.exhaustive)])
def test_derivatives_of_composed(damp: float) -> None:
    left, right = (ldiv.asarray(sp.csr_array(D[:k, :l])) for k, l in ((4, 3), (5, 2)))
    p, q, d = (torch.tensor(x) for x in (left.data, right.data, rng.random(20) + 0.5))

    def f(p: Any, q: Any, d: Any, c: Any) -> Any:
        K = ldiv.kron(left.with_data(p), right.with_data(q))
        P = ldiv.Matrix(ldiv.structures.Diagonal(20), d) @ K
        return ldiv.lstsq(P, c, damp=damp).x.sum() + (ldiv.lstsq(K, c, damp=damp).x ** 2).sum()

    args = tuple(x.requires_grad_() for x in (p, q, d, torch.tensor(b.ravel()[:20])))
    assert torch.autograd.gradcheck(f, args, fast_mode=True, check_forward_ad=True, atol=1e-6)
    assert torch.autograd.gradgradcheck(f, args, fast_mode=True, atol=1e-5)


def test_refusals() -> None:
    A = D.copy()
    A[:, -1] = A[:, 0] - A[:, 1]
    with pytest.raises(ldiv.SingularMatrixError, match="its rank is 4 of 5"):
        ldiv.factorized(sp.csr_array(A), method="lstsq")
    with pytest.raises(ldiv.SingularMatrixError, match="full rank"):
        ldiv.factorized(A, method="lstsq")
    # columns (1, 0) and (1, t): t is the sine between them, also where 1 / t^2 leaves the range
    with pytest.raises(ldiv.SingularMatrixError, match=r"relative distance [1-9]e-1(69|70|71)"):
        ldiv.lstsq(np.array([[1.0, 1.0], [0.0, 1e-170], [0.0, 0.0]]), np.ones(3))
    for words in ({"damp": 0.1}, {"weights": w}):
        with pytest.raises(ValueError, match="expected method='lstsq' for it"):
            ldiv.factorized(D[:n], **words)
    with pytest.raises(ValueError, match="assume_a: expected none with method='lstsq'"):
        ldiv.factorized(D, method="lstsq", assume_a="pos")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="method='lsqr'"):
        ldiv.factorized(ldiv.toeplitz(np.arange(1.0, 5)), method="lstsq")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("options", [{}, {"damp": 0.1}, {"method": "lsqr"}])
def test_a_row_of_weight_zero_does_not_count(kind, options):
    """NumPy's x of the other rows; derivatives in b, and none in a weight of 0."""
    rng = np.random.default_rng(0)
    A, b, w = rng.standard_normal((7, 3)), rng.standard_normal(7), rng.uniform(0.5, 2, 7)
    w[[1, 4]] = 0
    root, damp = np.sqrt(w[w > 0])[:, None], options.get("damp", 0.0)
    rows = np.vstack([root * A[w > 0], damp * np.eye(3)])
    inverse = np.linalg.pinv(rows)[:, : len(root)] * root.T
    np.testing.assert_allclose(
        ldiv.lstsq(kind(A), b, weights=w, **options).x, inverse @ b[w > 0], rtol=1e-7
    )
    c, u = torch.tensor(b, requires_grad=True), torch.tensor(w, requires_grad=True)
    x = ldiv.lstsq(kind(A), c, weights=u, **options).x
    (of_c,) = torch.autograd.grad(x.sum(), c, retain_graph=True)
    expected = np.zeros(7)
    expected[w > 0] = inverse.sum(0)
    np.testing.assert_allclose(of_c, expected, rtol=1e-7, atol=1e-12)
    with pytest.raises(ldiv.NotDifferentiableError, match="weight of 0"):
        torch.autograd.grad(x.sum(), u)
