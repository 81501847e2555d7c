"""Least squares of sparse matrices, damped and weighted: values against 50 digits and QR, every mode."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
m, n = 40, 12


def _matrix(kappa: float, graded: bool, seed: int = 3) -> Any:
    """Two columns that differ by 1 / kappa; rows of size 1e-8 to 1e8."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((m, n), density=0.15, rng=rng).toarray()
    A[np.arange(n), np.arange(n)] += 1
    A[:, -1] = A[:, 0]
    A[rng.integers(m, size=2), -1] += 1 / kappa
    return A * (10.0 ** rng.uniform(-8, 8, m))[:, None] if graded else A


def _by_qr(A: Any, b: Any) -> Any:
    """Solve by QR with the largest rows first, and columns exchanged: stable by rows, too."""
    order = np.argsort(-abs(A).max(1), kind="stable")
    A, b = A[order], b[order]
    q, r, order = scipy.linalg.qr(A, mode="economic", pivoting=True)
    x = np.empty(n)
    x[order] = scipy.linalg.solve_triangular(r, q.T @ b)
    return x


def _exact(A: Any, b: Any) -> Any:
    with mpmath.workdps(60):
        M, c = mpmath.matrix(A.tolist()), mpmath.matrix(b.tolist())
        return np.array([float(v) for v in mpmath.lu_solve(M.T * M, M.T * c)])


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("kappa", [1e1, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("consistent", [False, True])
def test_as_accurate_as_qr(kappa: float, graded: bool, consistent: bool) -> None:
    A, rng = _matrix(kappa, graded), np.random.default_rng(0)
    b = A @ rng.standard_normal(n) if consistent else rng.standard_normal(m) * abs(A).max(1)
    x = _exact(A, b)
    found = ldiv.lstsq(sp.csr_array(A), b).x
    error, of_qr = (np.linalg.norm(y - x) for y in (found, _by_qr(A, b)))
    assert error <= 10 * max(of_qr, 1e-16 * np.linalg.norm(x))


@pytest.mark.parametrize("shape", [(9, 5), (5, 5), (5, 9)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("damp", [0.0, 0.3])
def test_shapes_and_dtypes(shape: Any, dtype: str, damp: float) -> None:
    rng = np.random.default_rng(2)
    A = rng.standard_normal(shape) * (rng.random(shape) < 0.6) + np.eye(*shape)
    b = rng.standard_normal((shape[0], 3))
    if dtype.startswith("c"):
        A, b = A + 1j * A**2, b + 1j
    A, b = A.astype(dtype), b.astype(dtype)
    whole = np.vstack([A, damp * np.eye(shape[1])]) if damp else A
    side = np.vstack([b, np.zeros((shape[1], 3))]) if damp else b
    x = np.linalg.lstsq(whole, side, rcond=None)[0]
    rtol = 1e-3 if dtype in ("float32", "complex64") else 1e-11
    for a in (A, sp.csr_array(A), ldiv.asarray(sp.coo_array(A))):
        found = ldiv.lstsq(a, b, damp=damp)
        assert found.x.dtype == dtype
        assert np.allclose(found.x, x, rtol=rtol, atol=rtol)
        if shape[0] > shape[1]:
            r = b - A @ x
            assert np.allclose(found.residues, (abs(r) ** 2).sum(0), rtol=1e-3)
    assert np.allclose(ldiv.lstsq(sp.csr_array(A), b[:, 0], damp=damp).x, x[:, 0], rtol, rtol)


def test_weights() -> None:
    rng, A = np.random.default_rng(1), _matrix(10, False)
    w, b = rng.random(m) + 0.1, rng.standard_normal(m)
    x = np.linalg.lstsq(np.sqrt(w)[:, None] * A, np.sqrt(w) * b, rcond=None)[0]
    for a in (A, sp.csr_array(A)):
        assert np.allclose(ldiv.lstsq(a, b, weights=w).x, x)
        with pytest.raises(ValueError, match="weights: expected numbers that are not negative"):
            ldiv.lstsq(a, b, weights=-w)
        with pytest.raises(ldiv.SingularMatrixError, match="full rank"):
            ldiv.lstsq(a, b, weights=0 * w)
        with pytest.raises(ValueError, match="weights: expected real"):
            ldiv.lstsq(a, b, weights=w[1:])


def _problem() -> tuple[Any, Any, Any, Any]:
    rng, A = np.random.default_rng(1), sp.csr_array(_matrix(10, False))
    return A, A.data, rng.standard_normal(m), rng.random(m) + 0.5


@pytest.mark.covering(0)
@pytest.mark.parametrize("damp", [0.5, 0.0])
@pytest.mark.parametrize("wide", [False, True])
def test_derivatives_in_torch(damp: float, wide: bool) -> None:
    S, v, b, w = _problem()
    S = S.T.tocsr() if wide else S
    A = ldiv.asarray(S)
    v, b, w = (
        torch.tensor(x, requires_grad=True) for x in (S.data, b[: S.shape[0]], w[: S.shape[0]])
    )

    def f(v: Any, b: Any, w: Any) -> Any:
        return ldiv.lstsq(A.with_data(v), b, damp=damp, weights=w).x

    assert torch.autograd.gradcheck(f, (v, b, w), check_forward_ad=True, atol=1e-6)
    assert torch.autograd.gradgradcheck(f, (v[:], b, w), fast_mode=True, atol=1e-5)
    dense = A.with_data(v).toarray()
    g = torch.autograd.grad((ldiv.lstsq(dense, b, damp=damp, weights=w).x ** 2).sum(), (v, b, w))
    h = torch.autograd.grad((f(v, b, w) ** 2).sum(), (v, b, w))
    for x, y in zip(g, h, strict=True):
        assert torch.allclose(x, y, rtol=1e-9, atol=1e-12)


def test_derivatives_are_refined() -> None:
    """Also where entries that cancel in the factors no longer do."""
    S, v, b, w = _problem()
    A, rng = ldiv.asarray(S), np.random.default_rng(0)
    for _ in range(20):
        x = [torch.tensor(y + 1e-6 * rng.standard_normal(y.shape)) for y in (v, b, w)]
        for y in x:
            y.requires_grad_()
        M, along = A.with_data(x[0]), torch.tensor(rng.standard_normal(n))
        sparse, dense = (
            torch.autograd.grad(ldiv.lstsq(a, x[1], weights=x[2]).x @ along, x)
            for a in (M, M.toarray())
        )
        for g, h in zip(sparse, dense, strict=True):
            assert abs(g - h).max() < 1e-12 * abs(h).max()


def test_in_jax_and_batches() -> None:
    S, v, b, w = _problem()
    A = ldiv.asarray(S)

    @jax.jit
    def f(v: Any, b: Any, w: Any) -> Any:
        return ldiv.lstsq(A.with_data(v), b, weights=w).x

    x = f(*map(jax.numpy.asarray, (v, b, w)))
    assert np.allclose(x, np.linalg.lstsq(np.sqrt(w)[:, None] * S.toarray(), np.sqrt(w) * b)[0])
    many = jax.vmap(f, (0, None, None))(jax.numpy.stack([v, 2 * v]), b, w)
    assert np.allclose(many, [x, x / 2])
    batch = ldiv.lstsq(A.with_data(np.stack([v, 2 * v])), b[:, None], weights=w).x
    assert np.allclose(batch[..., 0], [x, x / 2])


def test_rank_is_asked_for() -> None:
    A = _matrix(10, False)
    A[:, -1] = A[:, 0]
    with pytest.raises(
        ldiv.SingularMatrixError, match=r"lstsq.+full rank|full rank.+lstsq"
    ) as refused:
        ldiv.lstsq(sp.csr_array(A), np.ones(m))
    assert "its rank is 11 of 12" in str(refused.value)
    assert "damp" in str(refused.value) and "rigid" not in str(refused.value)
    x = ldiv.lstsq(sp.csr_array(A), np.ones(m), damp=1e-3).x
    assert np.allclose(x[-1], x[0])
    with pytest.raises(ValueError, match="cond: expected none with a sparse matrix"):
        ldiv.lstsq(sp.csr_array(A), np.ones(m), cond=1e-3)


def _deficient(seed: int) -> dict[str, Any]:
    """One rank less than full: a Laplacian, and a column that two others make."""
    rng = np.random.default_rng(seed)
    k = int(rng.choice([3, 5, 8, 20]))
    W = np.triu(rng.uniform(size=(k, k)), 1)
    W = W + W.T
    D = rng.uniform(size=(2 * k, k))
    D[:, 0] = 2 * D[:, 1] + D[:, 2]
    whole = np.round(rng.uniform(-2, 2, (k, k)))
    whole[:, 0] = whole[:, 1] + whole[:, 2]
    graded = D * 10.0 ** rng.uniform(-6, 6, (2 * k, 1))
    found = {"Laplacian": np.diag(W.sum(0)) - W, "tall": D, "square": D[:k], "wide": D.T}
    return found | {"whole numbers": whole, "graded": graded}


@pytest.mark.parametrize("seed", range(8))
def test_a_right_hand_side_in_the_range_hides_no_lack_of_rank(seed: int) -> None:
    """There b - A x is 0 for many x: none of them, and no derivative of it, is the one."""
    for A in _deficient(seed).values():
        b = A @ np.random.default_rng(seed).standard_normal(A.shape[1])
        with pytest.raises(ldiv.SingularMatrixError, match="full rank"):
            ldiv.lstsq(sp.csr_array(A), b)
        ldiv.lstsq(sp.csr_array(A), b, damp=0.1)


def test_a_right_hand_side_in_the_range_under_jit() -> None:
    A = _deficient(1)["Laplacian"]
    b = A @ np.arange(1.0, len(A) + 1)
    pattern = ldiv.asarray(sp.csr_array(A))
    found = jax.jit(lambda v: ldiv.lstsq(pattern.with_data(v), b)[0])
    with pytest.raises(Exception, match=r"full rank|singular"):
        jax.block_until_ready(found(jax.numpy.asarray(pattern.data)))


def test_without_entries() -> None:
    assert ldiv.lstsq(sp.csr_array((3, 0)), np.ones(3)).x.shape == (0,)
    assert np.array_equal(ldiv.lstsq(sp.csr_array((0, 2)), np.ones(0)).x, np.zeros(2))
    assert np.array_equal(ldiv.lstsq(sp.csr_array((4, 2)), np.ones(4), damp=1.0).x, np.zeros(2))
    with pytest.raises(ldiv.SingularMatrixError, match="full rank"):
        ldiv.lstsq(sp.csr_array((4, 2)), np.ones(4))


@pytest.mark.parametrize("power", [-300, 300])
def test_units(power: int) -> None:
    S, v, b, _ = _problem()
    A, x = ldiv.asarray(S), ldiv.lstsq(S, b).x
    assert np.array_equal(ldiv.lstsq(A.with_data(v * 2.0**power), b).x, x * 2.0**-power)


@pytest.mark.parametrize("shape", [(7, 3), (3, 5)])
@pytest.mark.parametrize("dtype", ["d", "F"])
def test_damping_of_any_size(dtype: str, shape: tuple[int, int]) -> None:
    """Beside rows that are larger or smaller, also where mu / s is as large as A."""
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal(shape).astype(dtype), rng.standard_normal(shape[0]).astype(dtype)
    for damp in 10.0 ** np.arange(-12 if dtype == "d" else -4.5, 19, 1.5):
        with mpmath.workdps(60):
            M, c = mpmath.matrix(A.tolist()), mpmath.matrix(b.tolist())
            N = M.H * M + mpmath.mpf(damp) ** 2 * mpmath.eye(shape[1])
            x = np.array(mpmath.lu_solve(N, M.H * c).tolist(), complex)[:, 0]
        for B in (A, sp.csr_array(A)):
            for found in (
                ldiv.lstsq(B, b, damp=damp).x,
                ldiv.factorized(B, method="lstsq", damp=damp)(b),
            ):
                error = abs(found - x).max() / abs(x).max()
                assert error < (1e-13 if dtype == "d" else 3e-5), (damp, type(B))
