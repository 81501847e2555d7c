"""Updates of Cholesky factors against the factor of the sum, in value and derivatives."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)


def given(n, k, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    a, v = rng.standard_normal((n, n)), rng.standard_normal((n, k))
    if np.dtype(dtype).kind == "c":
        a, v = a + 1j * rng.standard_normal((n, n)), v + 1j * rng.standard_normal((n, k))
    return np.linalg.cholesky(a @ a.conj().T / n + np.eye(n)), v


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 3), (40, 2)])
def test_up_and_down_again(dtype, n, k):
    L, V = given(n, k, dtype)
    tol = 200 * np.finfo(dtype).eps
    for v in (V, V[:, 0]):
        w = v.reshape(n, -1)
        up = ldiv.cholesky_update(L.astype(dtype), v.astype(dtype))
        assert up.dtype == dtype
        assert np.allclose(up, np.linalg.cholesky(L @ L.conj().T + w @ w.conj().T), atol=tol)
        assert np.allclose(ldiv.cholesky_update(up, v.astype(dtype), downdate=True), L, atol=tol)


@pytest.mark.parametrize("condition", [1e4, 1e8, 1e12, 1e15])
def test_backward_errors_of_badly_conditioned_factors(condition):
    rng, n = np.random.default_rng(0), 30
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    L = np.linalg.qr((q * np.geomspace(1, condition**-0.5, n)).T)[1].T
    for v in (rng.standard_normal(n), 1e-3 * rng.standard_normal(n)):
        A = L @ L.T + np.outer(v, v)
        M = ldiv.cholesky_update(L, v)
        assert np.abs(M @ M.T - A).max() <= 1e-14 * np.abs(A).max()
        assert (np.triu(M, 1) == 0).all()


def test_a_downdate_near_the_boundary_against_fifty_digits():
    L, v = np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 1.0]) * (1 - 1e-9)
    with mpmath.workdps(50):
        l, w = mpmath.matrix(L.tolist()), mpmath.matrix(v.tolist())
        expected = mpmath.cholesky(l * l.T - w * w.T)
        expected = np.array(expected.tolist(), dtype=float)
    found = ldiv.cholesky_update(L, v, downdate=True)
    assert np.allclose(found, expected, rtol=1e-6)  # eps / (1 - p^H p)


def real_diagonal(L):
    """A factor of Cholesky, from any numbers."""
    return torch.tril(L, -1) + torch.diag(L.diagonal().real).to(L.dtype)


def of_sum(L, v, sign):
    return torch.linalg.cholesky(L @ L.mH + sign * v @ v.mH)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_of_first_and_second_order(sign, dtype):
    L, v = (torch.tensor(x) for x in given(5, 2, dtype))
    L, v = L + 3 * torch.eye(5), v / 4
    rng = np.random.default_rng(1)
    weight, *along = (torch.tensor(rng.standard_normal(x.shape)) for x in (L, L, v))
    found = []
    for f in (
        lambda L, v: ldiv.cholesky_update(L, v, downdate=sign < 0),
        lambda L, v: of_sum(L, v, sign),
    ):
        args = [x.clone().requires_grad_() for x in (L, v)]
        y = (torch.sin(f(real_diagonal(args[0]), args[1])).real * weight).sum()
        first = torch.autograd.grad(y, args, create_graph=True)
        inner = sum((g * e).real.sum() for g, e in zip(first, along, strict=True))
        found.append([*first, *torch.autograd.grad(inner, args)])
    for x, y in zip(*found, strict=True):
        assert torch.allclose(x, y, rtol=1e-11, atol=1e-12)


def test_numpy_and_jax():
    L, v = given(4, 2)
    weight = np.random.default_rng(1).standard_normal((4, 4))
    args = [torch.tensor(x, requires_grad=True) for x in (L, v)]
    (of_sum(args[0].tril(), args[1], 1) * torch.tensor(weight)).sum().backward()
    _, pull = ldiv.vjp(ldiv.cholesky_update, L, v)

    def f(L, v):
        return (ldiv.cholesky_update(L, v) * weight).sum()

    grad = jax.jit(jax.grad(f, (0, 1)))
    for found in (pull(weight), grad(L, v)):
        for x, y in zip(found, args, strict=True):
            assert np.allclose(x, y.grad, atol=1e-13)
    many = np.stack([v, 2 * v, v / 3])
    mapped = jax.vmap(grad, (None, 0))(jax.numpy.array(L), jax.numpy.array(many))
    for i in range(3):
        assert np.allclose(mapped[1][i], grad(L, many[i])[1], atol=1e-13)
    assert ldiv.cholesky_update(L, many).shape == (3, 4, 4)


def test_what_is_refused():
    eye = np.eye(2)
    for v in ([1.0, 0.0], [2.0, 0.0], [0.8, 0.6], [1 - 1e-16, 0.0]):
        with pytest.raises(ldiv.NotPositiveDefiniteError, match="never added"):
            ldiv.cholesky_update(eye, np.array(v), downdate=True)
    with ldiv.errstate(singular="nan"):
        many = ldiv.cholesky_update(eye, np.array([[[0.5], [0]], [[2.0], [0]]]), downdate=True)
        assert list(np.isnan(many).any((1, 2))) == [False, True]
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.cholesky_update(0 * eye, np.ones(2))
    with pytest.raises(ValueError, match="a symmetric matrix"):
        ldiv.cholesky_update(eye + 1, np.ones(2))
    with pytest.raises(ValueError, match="shape"):
        ldiv.cholesky_update(eye, np.ones(3))
    with pytest.raises(ValueError, match="finite"):
        ldiv.cholesky_update(eye, np.array([np.nan, 1]))
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.cholesky_update(1e-200 * eye, np.full(2, 1e200))
    assert ldiv.cholesky_update(np.zeros((0, 0)), np.zeros(0)).shape == (0, 0)
    assert (ldiv.cholesky_update(eye, np.zeros((2, 0))) == eye).all()
