"""PyLops: its operators as matrices of ldiv, and matrices of ldiv as its operators."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg as spl

import ldiv

pylops = pytest.importorskip("pylops", reason="no pylops: pip install pylops")
RNG = np.random.default_rng(0)


def smoothing(n):
    """I + D^T D for the second derivative D of PyLops."""
    D = pylops.SecondDerivative(n, dtype="float64")
    return pylops.Identity(n, dtype="float64") + D.H @ D


def test_an_operator_of_pylops_is_solved_with():
    """The operator is passed as it is, to conjugate gradients."""
    n = 30
    A, b = smoothing(n), RNG.standard_normal(n)
    x = ldiv.solve(spl.aslinearoperator(A), b, assume_a="pos", method="cg", rtol=1e-12)
    np.testing.assert_allclose(A.todense() @ x, b, rtol=1e-9, atol=1e-9)


def test_its_parameters_are_differentiated():
    """Products by PyLops, with a weight of one's own: x = (W + D^T D)^-1 b."""
    n = 12
    D = pylops.SecondDerivative(n, dtype="float64")
    w, b = RNG.uniform(1, 2, n), RNG.standard_normal(n)

    def product(w, X):
        return w[:, None] * X + (D.H @ (D @ X))

    A = ldiv.coo_array((w, (np.arange(n), np.arange(n)))) + ldiv.asarray((D.H @ D).todense())
    x, pullback = ldiv.vjp(ldiv.solve, A, b)
    lam = pullback(np.ones(n))[1]
    operator = ldiv.LinearOperator(product, w, shape=(n, n))
    np.testing.assert_allclose(
        ldiv.solve(operator, b, assume_a="pos", method="cg", rtol=1e-13), x, rtol=1e-9
    )
    np.testing.assert_allclose(np.asarray(A.todense()) @ lam, np.ones(n), rtol=1e-9)


def test_a_matrix_of_ldiv_is_an_operator_of_pylops():
    """The matrix is used in sums and products of PyLops, and in its solvers."""
    n = 20
    A = ldiv.diags_array([np.full(n, 4.0), np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1, -1])
    Op = pylops.LinearOperator(spl.aslinearoperator(A))
    dense, b = A.toarray(), RNG.standard_normal(n)
    np.testing.assert_allclose((Op.H @ Op) @ b, dense.T @ dense @ b, rtol=1e-12)
    assert pylops.utils.dottest(Op, n, n)
    x = pylops.optimization.basic.cg(Op, b, np.zeros(n), niter=60, tol=1e-12)[0]
    np.testing.assert_allclose(x, np.linalg.solve(dense, b), rtol=1e-4, atol=1e-4)
