"""Singular systems whose null space is given: the solution that is orthogonal to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.errors import SingularMatrixError

N = 8
ONE = np.ones(N)


def periodic(scale: float = 1.0) -> Any:
    """The periodic Laplacian, whose null space is the constants."""
    L = 2 * np.eye(N) - np.roll(np.eye(N), 1, 0) - np.roll(np.eye(N), -1, 0)
    return scale * L


def wave(k: int = 1) -> Any:
    """An eigenvector of the periodic Laplacian with the eigenvalue 2 - 2 cos(2 pi k / N)."""
    return np.sin(2 * np.pi * k * np.arange(N) / N)


FORMS = {
    "dense": np.asarray,
    "sparse": ldiv.csr_array,
    "composed": lambda a: ldiv.kron(np.eye(1), a),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-12])
def test_a_periodic_problem(form: str, assume_a: Any, scale: float) -> None:
    A = FORMS[form](periodic(scale))
    expected = wave() / (scale * (2 - 2 * np.cos(2 * np.pi / N)))
    x = ldiv.solve(A, wave(), null_space=ONE, assume_a=assume_a)
    np.testing.assert_allclose(x, expected, rtol=1e-13, atol=1e-13 / scale)


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_batches_and_precisions(sparse: bool) -> None:
    B = np.stack([wave(), wave(2)], 1)
    if sparse:
        A = ldiv.csr_array(periodic())
        A = A.with_data(np.stack([A.data, 2 * A.data]))
    else:
        A = np.stack([periodic(), periodic(2.0)])
    x = ldiv.solve(A, B[None], null_space=ONE)
    assert x.shape == (2, N, 2)
    np.testing.assert_allclose(periodic() @ x[0], B, atol=1e-14)
    np.testing.assert_allclose(x[1], x[0] / 2, atol=1e-14)
    single = ldiv.solve(periodic().astype("f"), wave().astype("f"), null_space=ONE.astype("f"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(
        ldiv.solve(periodic() + 0j, 1j * wave(), null_space=ONE), 1j * x[0][:, 0], atol=1e-14
    )


def test_two_null_vectors() -> None:
    A = np.kron(np.diag([1.0, 3.0]), periodic())
    V, b = np.kron(np.eye(2), ONE[:, None]), np.concatenate([wave(), wave(2)])
    x = ldiv.solve(A, b, null_space=V)
    np.testing.assert_allclose(A @ x, b, atol=1e-14)
    np.testing.assert_allclose(V.T @ x, 0, atol=1e-14)
    with pytest.raises(SingularMatrixError, match="null_space"):
        ldiv.solve(A, b, null_space=V[:, :1])


def test_the_left_null_vector_of_an_unsymmetric_matrix() -> None:
    """A stationary distribution: Q^T pi = 0, and 1^T Q^T = 0."""
    Q = np.random.default_rng(0).random((N, N))
    Q -= np.diag(Q.sum(1))
    u = ONE / N
    pi = u + ldiv.solve(Q, -Q.T @ u, trans="T", null_space=ONE)
    np.testing.assert_allclose(pi @ Q, 0, atol=1e-15)
    assert abs(pi.sum() - 1) < 1e-15 and pi.min() > 0


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_what_is_not_reached_is_told(form: str) -> None:
    A = FORMS[form](periodic())
    with pytest.raises(
        ValueError, match=r"in the range of the singular A, got one with a part of 2\.8e"
    ):
        ldiv.solve(A, wave() + 1, null_space=ONE)
    assert not ldiv.solve(A, 0 * ONE, null_space=ONE).any()


def test_bad_input() -> None:
    for V in (ONE[:3], np.ones((N, 0)), np.ones((2, N))):
        with pytest.raises(ValueError, match="null_space"):
            ldiv.solve(periodic(), wave(), null_space=V)
    with pytest.raises(ValueError, match="null_space"):
        ldiv.solve(periodic(), wave(), null_space=ONE, info=True)
    with pytest.raises(ValueError, match="assume_a"):
        ldiv.solve(periodic(), wave(), null_space=ONE, assume_a="upper triangular")
    with pytest.raises(SingularMatrixError, match="null_space"):
        ldiv.solve(periodic(), wave())


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_in_torch(sparse: bool) -> None:
    torch = pytest.importorskip("torch")
    A = ldiv.csr_array(torch.tensor(periodic())) if sparse else torch.tensor(periodic())
    data = A.data if sparse else A
    V = torch.tensor(ONE)

    def f(t: Any, b: Any) -> Any:  # t A keeps the null space
        scaled = A.with_data(t * data) if sparse else t * data
        return ldiv.solve(scaled, b - b.mean(), null_space=V)

    t, b = torch.tensor(1.5, dtype=torch.float64), torch.tensor(wave() + wave(3))
    assert torch.autograd.gradcheck(f, (t.requires_grad_(), b.requires_grad_()))
    assert torch.autograd.gradgradcheck(f, (t, b))
    t, b = t.detach(), b.detach()
    forward, reverse = torch.func.jacfwd(f)(t, b), torch.func.jacrev(f)(t, b)
    assert torch.allclose(forward, reverse) and torch.allclose(forward, -f(t, b) / t)
    assert torch.vmap(f)(torch.stack([t, 2 * t]), torch.stack([b, b])).shape == (2, N)


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_in_jax(sparse: bool) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    A = ldiv.csr_array(jax.numpy.asarray(periodic())) if sparse else jax.numpy.asarray(periodic())

    def f(b: Any) -> Any:
        return ldiv.solve(A, b - b.mean(), null_space=jax.numpy.asarray(ONE))

    b = jax.numpy.asarray(wave())
    np.testing.assert_allclose(jax.jit(f)(b), f(b), atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(f))(b), jax.jit(jax.jacrev(f))(b), atol=1e-13)
