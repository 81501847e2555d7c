"""Values and gradients on real matrices: within 100 eps times the condition number of references
from elsewhere.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import ldiv

EPS = np.finfo(float).eps
MATRICES = [
    ("bcsstk01", "pos"),
    ("494_bus", "pos"),
    ("bcsstk13", "pos"),
    ("tumorAntiAngiogenesis_2", "sym"),
    ("hangGlider_2", "sym"),
    ("west0479", "gen"),
    ("watt_2", "gen"),
    ("adder_dcop_05", "gen"),
    ("young1c", "gen"),
    ("mhd1280b", "pos"),
    ("mhd1280b", "her"),
]


def _condition(matrix):
    """The 1-norm condition number of the matrix with rows and columns scaled to 1, which is what
    its solution depends on.
    """
    dense = matrix.toarray()
    for _ in range(20):
        dense = dense / np.sqrt(np.abs(dense).max(axis=1, keepdims=True))
        dense = dense / np.sqrt(np.abs(dense).max(axis=0, keepdims=True))
    return np.linalg.cond(dense, 1)


@pytest.mark.parametrize(("name", "assume_a"), MATRICES)
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_solution(real_matrix, name, assume_a, trans):
    matrix = real_matrix(name)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((matrix.shape[0], 2)).astype(matrix.dtype)
    op = {"N": matrix, "T": matrix.T, "H": matrix.conj().T}[trans]
    found = ldiv.solve(ldiv.asarray(matrix), op @ x, assume_a=assume_a, trans=trans)
    residual = np.abs(op @ found - op @ x).max(axis=0)
    assert (residual <= 100 * EPS * (np.abs(op) @ (np.abs(found) + np.abs(x))).max(axis=0)).all()


LARGE = ("bcsstk13", "hangGlider_2", "watt_2", "adder_dcop_05", "mhd1280b")  # as dense matrices


@pytest.mark.parametrize(
    ("name", "assume_a"),
    [
        pytest.param(*case, marks=pytest.mark.exhaustive if case[0] in LARGE else ())
        for case in MATRICES
    ],
)
def test_gradient(real_matrix, name, assume_a):
    """Against another engine and formula: lam and x by dense LU with pivoting of the
    equilibrated matrix, A_bar = -lam x^H.
    """
    matrix = real_matrix(name)
    rng = np.random.default_rng(1)
    b, x_bar = (rng.standard_normal(matrix.shape[0]).astype(matrix.dtype) for _ in range(2))
    x, pullback = ldiv.vjp(
        lambda A, b: ldiv.solve(A, b, assume_a=assume_a), ldiv.asarray(matrix), b
    )
    A_bar, b_bar = pullback(x_bar)
    x_ref, lam = _dense_solve(matrix, b), _dense_solve(matrix.conj().T, x_bar)
    coo = matrix.tocoo()
    expected = -lam[coo.row] * x_ref[coo.col].conj()
    if assume_a != "gen":
        mirrored = -lam[coo.col] * x_ref[coo.row].conj()
        expected = (
            (expected + mirrored.conj()) / 2 if assume_a != "sym" else (expected + mirrored) / 2
        )
    bound = 100 * EPS * _condition(matrix)
    assert np.abs(x - x_ref).max() <= bound * np.abs(x_ref).max()
    assert np.abs(b_bar - lam).max() <= bound * np.abs(lam).max()
    assert np.abs(A_bar.data - expected).max() <= bound * np.abs(expected).max()


def _dense_solve(matrix, b):
    """Row and column scaled, factored with partial pivoting, refined twice in long double
    residuals.
    """
    dense = matrix.toarray()
    r = 1 / np.abs(dense).max(axis=1)
    c = 1 / np.abs(dense * r[:, None]).max(axis=0)
    scaled = dense * r[:, None] * c
    wide = scaled.astype(np.clongdouble if np.iscomplexobj(scaled) else np.longdouble)
    y = np.linalg.solve(scaled, r * b)
    for _ in range(3):
        y = y + np.linalg.solve(scaled, (r * b - wide @ y).astype(scaled.dtype))
    return c * y


def test_badly_scaled_rows_and_columns():
    """A well-posed matrix whose rows and columns were scaled by 1e-8 .. 1e8 is solved to full
    accuracy.
    """
    rng = np.random.default_rng(2)
    n = 200
    good = sp.csc_array(sp.random_array((n, n), density=0.05, rng=rng) + 4 * sp.eye_array(n))
    left, right = (10.0 ** rng.uniform(-8, 8, n) for _ in range(2))
    bad = sp.csc_array(sp.diags_array(left) @ good @ sp.diags_array(right))
    y = rng.standard_normal(n)
    found = ldiv.solve(ldiv.asarray(bad), left * (good @ y)) * right
    assert np.abs(found - y).max() <= 1e-12 * np.linalg.cond(good.toarray())


def test_rectangular_is_refused(real_matrix):
    with pytest.raises(ValueError, match="square"):
        ldiv.solve(ldiv.asarray(real_matrix("ash219").astype(float)), np.ones(219))


def test_product_of_rectangular(real_matrix):
    matrix = real_matrix("ash219").astype(float)
    x = np.arange(85.0)
    np.testing.assert_allclose(ldiv.asarray(matrix) @ x, matrix @ x)


def test_logabsdet(real_matrix):
    matrix = real_matrix("494_bus")
    found = ldiv.factorized(ldiv.asarray(matrix), assume_a="pos").logabsdet()
    np.testing.assert_allclose(found, np.linalg.slogdet(matrix.toarray())[1], rtol=1e-12)


def test_one_ordering_per_pattern(real_matrix):
    A = ldiv.asarray(real_matrix("bcsstk13"))
    b = np.ones(A.shape[0])
    for scale in (1.0, 2.0, 3.0):
        ldiv.solve(A.with_data(scale * A.data), b)
    info = ldiv.cache_info()
    assert (info.analyses, info.factorizations) == (1, 3)
    assert sla.norm(A.to_scipy()) > 0
