"""assume_a="diagonal" is one rule on the parameters of the whole matrix, in every form and
framework.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

a = np.array([[2.0 + 1j, 7.0, np.nan], [0.0, 4.0, 0.0], [5.0, 0.0, -1.0j]])
b, c = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1j, -2.0])
ROWS, COLS = np.array([0, 1, 2, 0, 2, 1]), np.array([0, 1, 2, 1, 0, 1])
V = np.array([2.0 + 1j, 1.0, -1.0j, 7.0, np.nan, 3.0])  # the 4 in two halves


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("form", ["dense", "dense view", "sparse"])
def test_vjp(form: str, trans: str) -> None:
    A = {
        "dense": a,
        "dense view": ldiv.Matrix(ldiv.structures.Dense(3, 3).view("C"), a),
        "sparse": ldiv.coo_array((V, (ROWS, COLS)), shape=(3, 3)),
    }[form]
    conjugated = (trans == "H") != (form == "dense view")
    d = np.conj(np.diag(a)) if conjugated else np.diag(a)
    x, pull = ldiv.vjp(lambda A, b: ldiv.solve(A, b, assume_a="diagonal", trans=trans), A, b)
    np.testing.assert_allclose(x, b / d)
    A_bar, b_bar = pull(c)
    lam = c / d.conj()
    np.testing.assert_allclose(b_bar, lam.real)
    expected = -lam * x.conj()
    expected = expected.conj() if conjugated else expected
    if form == "sparse":
        np.testing.assert_allclose(A_bar.values, np.where(ROWS == COLS, expected[ROWS], 0))
    else:
        np.testing.assert_allclose(A_bar if form == "dense" else A_bar.params, np.diag(expected))


def test_determinant_and_a_zero() -> None:
    A = ldiv.coo_array((np.array([2.0, 3.0, 9.0]), ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
    assert ldiv.factorized(A, assume_a="diagonal").logabsdet() == pytest.approx(np.log(6))
    with pytest.raises(ldiv.SingularMatrixError, match="zero on the diagonal"):
        ldiv.solve(A.with_data(np.array([2.0, 0.0, 1.0])), np.ones(2), assume_a="diagonal")
