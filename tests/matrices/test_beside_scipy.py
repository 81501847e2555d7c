"""Sparse matrices of other libraries as operands, right-hand sides and arguments of vjp."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from jax.experimental import sparse

import ldiv

D = np.array([[4.0, 1.0, 0.0], [0.0, 3.0, 2.0], [1.0, 0.0, 5.0]])
E = np.array([[0.0, 2.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, -6.0]])
OTHERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "csr_array": (np.asarray, sp.csr_array(E)),
    "coo_matrix": (np.asarray, sp.coo_matrix(E)),
    "SciPy beside torch": (torch.asarray, sp.csc_array(E)),
    "SciPy beside JAX": (jnp.asarray, sp.csc_array(E)),
    "torch": (torch.asarray, torch.asarray(E).to_sparse()),
    "JAX": (jnp.asarray, sparse.BCOO((jnp.asarray(E[E != 0]), np.argwhere(E)), shape=E.shape)),
}


def ours(to: Callable[[Any], Any]) -> Any:
    A = ldiv.asarray(sp.csr_array(D))
    return A.with_data(to(A.data))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("f", [operator.add, operator.sub, operator.mul, operator.matmul])
def test_operands(f: Callable[..., Any], name: str) -> None:
    to, other = OTHERS[name]
    found = f(ours(to), other)
    assert isinstance(found, ldiv.SparseArray) and type(found.data) is type(ours(to).data)
    np.testing.assert_allclose(np.asarray(found.toarray()), f(D, E), rtol=1e-6)


def test_the_other_order_and_other_names() -> None:
    A, S = ours(np.asarray), sp.csr_array(E)
    np.testing.assert_allclose((S + A).toarray(), E + D)
    np.testing.assert_allclose((S - A).toarray(), E - D)
    np.testing.assert_allclose(A.maximum(S).toarray(), np.maximum(D, E))
    np.testing.assert_allclose(A.minimum(S).toarray(), np.minimum(D, E))
    np.testing.assert_allclose(A.multiply(S).toarray(), D * E)
    np.testing.assert_allclose((A / sp.csr_array(D)).toarray(), D != 0)
    with pytest.raises(ValueError, match="shape"):
        A + sp.csr_array(E[:2])


def test_gradients_pass_by_constants() -> None:
    A = ours(torch.asarray)
    v = A.data.clone().requires_grad_()
    (A.with_data(v) * sp.csr_array(E) + sp.csr_array(E)).sum().backward()
    np.testing.assert_allclose(v.grad, E[D != 0])


@pytest.mark.parametrize("B", [sp.csc_array(E), sp.coo_matrix(E), ldiv.asarray(E)])
def test_sparse_right_hand_sides(B: Any) -> None:
    wanted = np.linalg.solve(D, E)
    for A in (D, sp.csc_array(D), ldiv.asarray(D)):
        np.testing.assert_allclose(ldiv.solve(A, B), wanted, atol=1e-12)
        np.testing.assert_allclose(ldiv.spsolve(A, B), wanted, atol=1e-12)
    np.testing.assert_allclose(
        ldiv.solve_triangular(D, B, lower=True), np.linalg.solve(np.tril(D), E), atol=1e-12
    )
    for other in (B, torch.asarray(E).to_sparse()):
        for _ in range(2):  # the second call finds what the first one planned
            found = ldiv.solve(ours(torch.asarray), other)
            assert isinstance(found, torch.Tensor)
            np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_the_gradient_of_a_sparse_right_hand_side() -> None:
    B = ldiv.asarray(sp.csr_array(E))
    w = torch.asarray(B.data).requires_grad_()
    ldiv.solve(ours(torch.asarray), B.with_data(w)).sum().backward()
    np.testing.assert_allclose(w.grad, np.linalg.solve(D.T, np.ones((3, 3)))[E != 0])


def test_vjp_of_matrices_of_scipy() -> None:
    S, b, c = sp.csr_array(D), np.ones(3), np.arange(3.0)
    x, pull = ldiv.vjp(ldiv.solve, S, b)
    A_bar, b_bar = pull(c)
    np.testing.assert_allclose(x, np.linalg.solve(D, b))
    assert isinstance(A_bar, ldiv.SparseArray)
    np.testing.assert_allclose(A_bar.toarray(), -np.outer(b_bar, x) * (D != 0))
    _, pull = ldiv.vjp(ldiv.solve, S, torch.asarray(b))
    np.testing.assert_allclose(pull(torch.asarray(c))[0].toarray(), A_bar.toarray())


def test_formats() -> None:
    for format in ("coo", "csr", "csc"):
        A = ldiv.diags_array([np.ones(3), np.ones(2)], offsets=[0, 1], format=format)
        assert A.format == ldiv.eye_array(3, format=format).format == format
        np.testing.assert_allclose(A.toarray(), np.eye(3) + np.eye(3, k=1))
    with pytest.raises(ValueError, match="format"):
        ldiv.eye_array(3, format="dok")


def test_niter_is_called_by_its_name() -> None:
    with pytest.raises(ValueError, match="niter: expected an integer >= 1"):
        ldiv.lobpcg(np.eye(20), k=1, niter=0)


FORMATS = ("csr", "csc", "coo", "dia", "lil", "dok", "bsr")


@pytest.mark.parametrize("to", [np.asarray, torch.asarray, jnp.asarray])
def test_matrices_of_scipy_on_the_left(to: Callable[[Any], Any]) -> None:
    A = ours(to)
    for S in (sp.csr_array(E).asformat(format) for format in FORMATS):
        for f in (operator.matmul, operator.mul):
            found = f(S, A)
            assert isinstance(found, ldiv.SparseArray) and type(found.data) is type(A.data)
            np.testing.assert_allclose(np.asarray(found.toarray()), f(E, D), rtol=1e-6)
    found = sp.csr_matrix(E) @ A
    np.testing.assert_allclose(np.asarray(found.toarray()), E @ D, rtol=1e-6)
    found = sp.csr_array(D) / A
    np.testing.assert_allclose(np.asarray(found.toarray()), D != 0, rtol=1e-6)
    for x in (D, D[0]):
        found = x @ A
        assert type(found) is type(A.data)
        np.testing.assert_allclose(np.asarray(found), x @ D, rtol=1e-6)


def test_other_matrices_on_the_right_of_scipys() -> None:
    diagonal = ldiv.Matrix(ldiv.structures.Diagonal(3), np.array([1.0, 2.0, 3.0]))
    product = sp.csr_array(E) @ diagonal
    np.testing.assert_allclose(product @ np.eye(3), E * [1.0, 2.0, 3.0])
    values = torch.asarray(E[E != 0]).requires_grad_()
    A = ldiv.coo_array((values, E.nonzero()), shape=(3, 3))
    (sp.csr_array(D) @ A).sum().backward()
    np.testing.assert_allclose(values.grad, (D.T @ np.ones((3, 3)))[E != 0])


def test_what_scipy_would_mean_otherwise_is_refused() -> None:
    A = ours(np.asarray)
    with pytest.raises(TypeError, match="Write @"):
        sp.csr_matrix(E) * A
    with pytest.raises(ValueError, match="divided by zero"):
        sp.csr_array(E) / A
    with pytest.raises(TypeError, match=r"A\.toarray\(\)"):
        E / A
    assert isinstance(sp.csr_array(E).dot(A), ldiv.SparseArray)
    for f in (np.asarray, sp.csr_array, np.exp):
        with pytest.raises((TypeError, ValueError)):
            f(A)


def test_jvp_takes_matrices_of_scipy() -> None:
    """The matrices are the point, and the direction, which may have fewer entries."""
    S, b = sp.csc_array(D), np.array([1.0, 2.0, 3.0])
    direction = sp.coo_array(([2.0, -1.0], ([0, 2], [1, 0])), shape=(3, 3))
    x, dx = ldiv.jvp(ldiv.solve, (S, b), (direction, None))
    np.testing.assert_allclose(dx, -np.linalg.solve(D, direction.toarray() @ x))
    same = ldiv.jvp(ldiv.solve, (sp.csr_matrix(S), b), (2 * S, b))[1]
    np.testing.assert_allclose(same, -2 * x + x)
    dx = ldiv.jvp(ldiv.solve, (S, torch.asarray(b)), (direction, None))[1]
    np.testing.assert_allclose(dx, -np.linalg.solve(D, direction.toarray() @ x))
    for wrong in (sp.csr_array(E), sp.csr_array(D[:2]), 1j * S):
        with pytest.raises((ValueError, TypeError), match="a tangent in jvp"):
            ldiv.jvp(ldiv.solve, (S, b), (wrong, None))
