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
    "JAX": (jnp.asarray, sparse.BCOO.fromdense(jnp.asarray(E))),
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
