"""ldiv as a solver of pymatsolver: its operators, transposes and checks, on one factorization."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

pymatsolver = pytest.importorskip("pymatsolver", reason="no pymatsolver: pip install pymatsolver")
from ldiv.pymatsolver import Solver  # noqa: E402

RNG = np.random.default_rng(0)
N = 12


def matrix(dtype=float, format="csr"):
    draw = RNG.standard_normal((N, N)) + (1j if dtype is complex else 0) * RNG.standard_normal(
        (N, N)
    )
    A = np.where(RNG.random((N, N)) < 0.3, draw, 0).astype(dtype) + 4 * np.eye(N)
    return sp.csr_matrix(A).asformat(format)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dense"])
def test_operators(dtype, format):
    """Ainv, its transpose and its conjugate, on vectors, blocks and stacks of blocks."""
    A = matrix(dtype, "csr" if format == "dense" else format)
    dense = A.toarray()
    Ainv, inverse = Solver(dense if format == "dense" else A), np.linalg.inv(dense)
    for b in (RNG.standard_normal(N), RNG.standard_normal((N, 3)), RNG.standard_normal((2, N, 3))):
        np.testing.assert_allclose(Ainv @ b, inverse @ b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Ainv * b, inverse @ b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Ainv.T @ b, inverse.T @ b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Ainv.T.T @ b, inverse @ b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Ainv.conj() @ b, inverse.conj() @ b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(Ainv.T.conj() @ b, inverse.conj().T @ b, rtol=1e-10, atol=1e-12)
    b = RNG.standard_normal(N)
    np.testing.assert_allclose(b @ Ainv, b @ inverse, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(Ainv @ np.arange(N), inverse @ np.arange(N), rtol=1e-10, atol=1e-12)
    assert ldiv.cache_info().factorizations == 1
    np.testing.assert_allclose(
        Solver(A, check_accuracy=True) @ b, inverse @ b, rtol=1e-10, atol=1e-12
    )


def test_assumptions_and_attributes():
    A = matrix()
    S = sp.csr_matrix(A @ A.T)
    S = (S + S.T) / 2
    assert Solver(A)._assumption() == "gen" and Solver(S)._assumption() == "her"
    Ainv = Solver(S, is_positive_definite=True, method="superlu")
    assert Ainv._assumption() == "pos" and Ainv.T is Ainv
    assert type(Ainv)(S, **Ainv.get_attributes()).method == "superlu"
    C = matrix(complex)
    C = C + C.T
    assert Solver(C)._assumption() == "sym"
    b = RNG.standard_normal(N)
    np.testing.assert_allclose(C @ (Solver(C) @ b), b, rtol=1e-10, atol=1e-12)


def test_errors_and_cleaning():
    A = matrix()
    with pytest.raises(ldiv.SingularMatrixError):
        Solver(sp.csr_matrix(np.ones((3, 3))))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        Solver(-sp.eye_array(3, format="csr"), is_positive_definite=True)
    with pytest.raises(ValueError, match="square"):
        Solver(A[:3])
    with pytest.warns(pymatsolver.solvers.UnusedArgumentWarning):
        Solver(A, ordering="amd")
    Ainv = Solver(A)
    transposed, b = Ainv.T, RNG.standard_normal(N)
    Ainv.clean()
    with pytest.raises(ValueError, match=r"after clean\(\)"):
        Ainv @ b
    del Ainv
    gc.collect()
    np.testing.assert_allclose(A.T @ (transposed @ b), b, rtol=1e-10, atol=1e-12)


def test_sparse_right_hand_sides():
    A, B = matrix(), sp.eye_array(N, 3).tocsc()
    np.testing.assert_allclose(Solver(A) @ B, np.linalg.solve(A.toarray(), B.toarray()))
