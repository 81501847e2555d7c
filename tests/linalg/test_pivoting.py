"""lu without exchanges, qr with them, and the other columns of qr: SciPy's and PyTorch's values, and
derivatives by differences of the factors of a matrix that does not exchange.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import torch

import ldiv

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(6)
FRAMEWORKS = [np.asarray, torch.asarray, jnp.asarray]
SHAPES = [(4, 4), (6, 3), (3, 5), (1, 1), (0, 0), (2, 0), (70, 70)]


def dominant(m: int, n: int) -> Any:
    return RNG.standard_normal((m, n)) + max(m, n) * np.eye(m, n)


@pytest.mark.covering(1)
@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_without_pivots(to: Any, shape: tuple[int, int]) -> None:
    a = dominant(*shape)
    P, L, U = map(np.asarray, ldiv.lu(to(a), pivot=False))
    np.testing.assert_array_equal(P, np.eye(len(a)))
    np.testing.assert_allclose(L @ U, a, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.tril(L), L)
    np.testing.assert_array_equal(np.triu(U), U)
    if to is torch.asarray and a.size:
        wanted = torch.linalg.lu(torch.asarray(a).to(torch.float64), pivot=True)
        if bool((wanted[0] == torch.eye(len(a), dtype=wanted[0].dtype)).all()):
            np.testing.assert_allclose(U, wanted[2], rtol=1e-10, atol=1e-10)
    _, L, U = ldiv.lu(to(1j * a + a), p_indices=True, pivot=False)
    np.testing.assert_allclose(np.asarray(L) @ np.asarray(U), 1j * a + a, rtol=1e-12, atol=1e-12)


def test_lu_without_pivots_of_what_would_be_exchanged() -> None:
    a = np.array([[1.0, 2.0, 0.5], [3.0, 4.0, 1.0], [2.0, 9.0, 7.0]])
    L = np.eye(3)
    U = a.copy()
    for j in range(2):
        for i in range(j + 1, 3):
            L[i, j] = U[i, j] / U[j, j]
            U[i] -= L[i, j] * U[j]
    found = ldiv.lu(a, permute_l=True, pivot=False)
    np.testing.assert_allclose(found[0], L)
    np.testing.assert_allclose(found[1], np.triu(U), atol=1e-15)
    t = torch.asarray(a).requires_grad_()
    f = lambda t: torch.cat(ldiv.lu(t, permute_l=True, pivot=False))
    assert torch.autograd.gradcheck(f, (t,)) and torch.autograd.gradgradcheck(f, (t,))
    zero_last = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert ldiv.lu(zero_last, pivot=False)[2][1, 1] == 0


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_lu_without_pivots_is_refused_where_there_is_none(to: Any) -> None:
    for bad in ([[0.0, 1.0], [1.0, 0.0]], [[1e-20, 1.0], [1.0, 1.0]]):
        with pytest.raises(ldiv.EngineError, match="Leave pivot"):
            ldiv.lu(to(np.array(bad)), pivot=False)
    with pytest.raises(TypeError, match="pivot"):
        ldiv.lu(to(np.eye(2)), pivot="no")


@pytest.mark.covering(1)
@pytest.mark.parametrize("to", FRAMEWORKS)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 5), (2, 0)])
def test_qr_with_pivots(to: Any, shape: tuple[int, int]) -> None:
    a = RNG.standard_normal(shape) * 10.0 ** np.arange(shape[1])
    Q, R, P = map(np.asarray, ldiv.qr(to(a), pivoting=True))
    np.testing.assert_allclose(Q @ R, a[:, P], rtol=1e-12, atol=1e-12)
    assert (np.diff(abs(np.diagonal(R))) <= 1e-12 * abs(R).max(initial=0)).all()
    if a.size:
        wanted = scipy.linalg.qr(a, mode="economic", pivoting=True)
        np.testing.assert_array_equal(P, wanted[2])
        np.testing.assert_allclose(abs(R), abs(wanted[1]), rtol=1e-9, atol=1e-9)
    R, P = map(np.asarray, ldiv.qr(to(a[None] + 0j), mode="r", pivoting=True))
    assert R.shape == (1, min(shape), shape[1]) and P.shape == (1, shape[1])


def test_derivatives_of_qr_with_pivots() -> None:
    a = RNG.standard_normal((5, 3)) * [1.0, 10.0, 4.0]
    P = ldiv.qr(a, pivoting=True)[2]

    def pivoted(x: Any) -> Any:
        Q, R, _ = ldiv.qr(x, pivoting=True)
        return (Q**2 * 3 + Q).sum() + (R**3).sum()

    def plain(x: Any) -> Any:
        Q, R = ldiv.qr(x[:, P])
        return (Q**2 * 3 + Q).sum() + (R**3).sum()

    t, dt = torch.asarray(a), torch.asarray(RNG.standard_normal((5, 3)))
    torch.testing.assert_close(torch.func.grad(pivoted)(t), torch.func.grad(plain)(t))
    for f in (torch.func.grad, lambda f: f):
        found, wanted = (torch.func.jvp(f(g), (t,), (dt,))[1] for g in (pivoted, plain))
        torch.testing.assert_close(found, wanted)
    many = torch.stack([t, t.flip(0)])
    found = torch.func.vmap(torch.func.grad(pivoted))(many)
    torch.testing.assert_close(found[0], torch.func.grad(plain)(t))
    found = jax.jit(jax.grad(pivoted))(jnp.asarray(a))
    np.testing.assert_allclose(found, torch.func.grad(plain)(t), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("to", FRAMEWORKS)
def test_full_qr(to: Any) -> None:
    for shape in ((5, 3), (3, 3), (3, 5)):
        a = RNG.standard_normal((2, *shape))
        Q, R = map(np.asarray, ldiv.qr(to(a), mode="full"))
        m, n = shape
        assert Q.shape == (2, m, m) and R.shape == (2, m, n)
        np.testing.assert_allclose(Q @ R, a, atol=1e-12)
        np.testing.assert_allclose(Q.mT @ Q, np.stack([np.eye(m)] * 2), atol=1e-12)
    Q, R, P = map(np.asarray, ldiv.qr(to(a[0].T), mode="full", pivoting=True))
    np.testing.assert_allclose(Q @ R, a[0].T[:, P], atol=1e-12)


def test_the_other_columns_have_no_derivative() -> None:
    a = torch.asarray(RNG.standard_normal((5, 3)))
    full, thin = (lambda x, mode=mode: ldiv.qr(x, mode=mode) for mode in ("full", "economic"))
    known = lambda f: lambda x: f(x)[1][:3].square().sum() + f(x)[0][:, :3].sin().sum()
    torch.testing.assert_close(torch.func.grad(known(full))(a), torch.func.grad(known(thin))(a))
    leaf = a.clone().requires_grad_()
    known(full)(leaf).backward()
    torch.testing.assert_close(leaf.grad, torch.func.grad(known(thin))(a))
    with pytest.raises(ldiv.NotDifferentiableError, match="one basis of many"):
        torch.func.grad(lambda x: full(x)[0].sum())(a)
    with pytest.raises(ldiv.NotDifferentiableError, match="one basis of many"):
        torch.func.jvp(lambda x: full(x)[0], (a,), (a,))
    square = lambda x: (jnp.sin(ldiv.qr(x, mode="full")[0][:, :3])).sum()
    found = jax.jit(jax.grad(square))(jnp.asarray(a.numpy()))
    wanted = torch.func.grad(lambda x: thin(x)[0].sin().sum())(a)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    with pytest.raises(ldiv.NotDifferentiableError, match="one basis of many"):
        jax.grad(lambda x: ldiv.qr(x, mode="full")[0].sum())(jnp.asarray(a.numpy()))
