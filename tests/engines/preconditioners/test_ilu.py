"""An incomplete LU factorization: on real matrices, its options, and what it is not for."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import spilu

import ldiv

GENERAL = ["west0479", "watt_2", "adder_dcop_05", "young1c", "hangGlider_2", "bcsstk13"]
FINER = {"west0479": 1e-6}  # with SciPy's 1e-4 a pivot is dropped


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("method", ["gmres", "bicgstab"])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_real_matrices(name, method, trans, real_matrix):
    """Few steps, also with the transpose, where most of these take thousands or fail without it."""
    a = real_matrix(name)
    op = {"N": a, "T": a.T, "H": a.conj().T}[trans]
    A, b = ldiv.asarray(a), op @ np.ones(a.shape[0])
    M = ldiv.preconditioner(A, "ilu", drop_tol=FINER.get(name, 1e-4))
    M = {"N": M, "T": M.T, "H": M.H}[trans]
    x, info = ldiv.solve(A, b, trans=trans, M=M, method=method, rtol=1e-8, info=True)
    assert np.linalg.norm(op @ x - b) <= 1.001e-8 * np.linalg.norm(b)
    assert info.iterations <= 20


@pytest.mark.parametrize("name", ["young1c", "bcsstk01"])
def test_gradients_of_real_matrices(name, real_matrix):
    a = real_matrix(name)
    rng = np.random.default_rng(0)
    A, b, x_bar = ldiv.asarray(a), a @ np.ones(a.shape[0]), rng.standard_normal(a.shape[0])
    options = {"M": "ilu", "method": "gmres", "rtol": 1e-12}
    _, pullback = ldiv.vjp(lambda A: ldiv.solve(A, b, **options), A)
    (found,) = pullback(x_bar.astype(a.dtype))
    _, pullback = ldiv.vjp(lambda A: ldiv.solve(A, b, method="direct"), A)
    (expected,) = pullback(x_bar.astype(a.dtype))
    error = np.linalg.norm(found.data - expected.data)
    assert error <= 1e-6 * np.linalg.norm(expected.data)


def test_exact_without_dropping():
    rng = np.random.default_rng(1)
    a = sp.csc_array(sp.random_array((60, 60), density=0.1, rng=rng) + 3 * sp.eye_array(60))
    d = np.geomspace(1e-150, 1e150, 60)  # rows of every size
    M = ldiv.preconditioner(ldiv.asarray(sp.diags_array(d) @ a), "ilu", drop_tol=0.0)
    x = rng.standard_normal((60, 2))
    assert np.allclose(M @ (d[:, None] * (a @ x)), x, rtol=0, atol=1e-10)
    assert np.allclose(d[:, None] * (M.T @ (a.T @ x)), x, rtol=0, atol=1e-10)


def test_options_reach_scipy():
    """The matrix needs no scaling, so that the product is that of SciPy's factors."""
    t = sp.diags_array([-np.ones(19), 4 * np.ones(20), -np.ones(19)], offsets=[-1, 0, 1])
    a = sp.csc_array(sp.kron(t, sp.eye_array(20)) + sp.kron(sp.eye_array(20), t))
    b = np.random.default_rng(2).standard_normal(400)
    for options in (
        {},
        {"drop_tol": 1e-2, "fill_factor": 2},
        {"drop_rule": "basic", "permc_spec": "NATURAL", "diag_pivot_thresh": 0.0},
    ):
        found = ldiv.preconditioner(ldiv.asarray(a), "ilu", **options) @ b
        assert np.allclose(found, spilu(a, **options).solve(b), rtol=1e-12)


@pytest.mark.parametrize("method", ["auto", "cg", "minres"])
@pytest.mark.parametrize("form", ["name", "matrix"])
def test_not_for_hermitian_iterations(method, form):
    A = ldiv.asarray(sp.csr_array(4 * np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1)))
    M = "ilu" if form == "name" else ldiv.preconditioner(A, "ilu").T
    with pytest.raises(ValueError, match=r"Hermitian.*got ILU.*method='gmres'"):
        ldiv.solve(A, np.ones(5), assume_a="pos", method=method, M=M)
    with pytest.raises(ValueError, match="as lobpcg needs, got ILU"):
        ldiv.lobpcg(A, np.ones((5, 1)), M=M)


@pytest.mark.parametrize(
    ("entries", "error", "match"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], ldiv.SingularMatrixError, "singular"),
        ([[1.0, 1.0], [1.0, 1.0]], ldiv.EngineError, "smaller|drop_tol"),
        ([[0.0, 0.0], [0.0, 0.0]], ldiv.SingularMatrixError, "singular"),
    ],
)
def test_singular_matrices_raise(entries, error, match):
    a = sp.coo_array(np.ones((2, 2)))
    A = ldiv.coo_array((np.array(entries).ravel(), a.coords), shape=(2, 2))
    with pytest.raises(error, match=match):
        ldiv.solve(A, np.ones(2), M="ilu", method="gmres")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"drop": 1}, "options: expected"),
        ({"drop_tol": -1.0}, "drop_tol: expected"),
        ({"drop_tol": np.nan}, "drop_tol: expected"),
        ({"fill_factor": 0.5}, "fill_factor: expected"),
        ({"permc_spec": "METIS"}, "permc_spec: expected"),
        ({"drop_rule": "all"}, "drop_rule: expected"),
    ],
)
def test_misuse_says_what_to_do(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        ldiv.preconditioner(ldiv.asarray(np.eye(3)), "ilu", **options)


def test_a_dense_matrix_has_no_pattern():
    with pytest.raises(ValueError, match="M='ilu': expected a sparse matrix"):
        ldiv.solve(np.eye(3), np.ones(3), M="ilu")
