"""Matrices that are regular under one scaling of rows and columns and singular under another,
and doubts that a lucky probe misses.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

V = [
    -2492308736 + 34269229056j,
    0.0025160382501780987 + 0.002988032763823867j,
    -1.9995899033786735e-11 - 2.1147032042145852e-11j,
]
V += [
    0.003887319704517722 + 0.0003841024299617857j,
    2.9079471469684037e-11 + 1.1904958355929418e-12j,
    23606990848 + 24966008832j,
]
V += [
    -0.0039029805921018124 - 0.00015978564624674618j,
    2.9099793755205106e-11 - 4.847393103232789e-13j,
]
ROWS, COLS = [0, 1, 2, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 2, 2, 2]


def tridiagonal() -> np.ndarray:
    """A tridiagonal matrix of condition 1.2e4 with rows and columns scaled one after the other,
    1e10 with all of them scaled at once.
    """
    band = np.array([[0, 1.27, 1.15, 1.39], [0.95, 0.44, 7.2e-4, 0.79], [0.61, 1.6e-4, 1.9e-4, 0]])
    a = np.diag(band[1]) + np.diag(band[0, 1:], 1) + np.diag(band[2, :3], -1)
    r, c = 2.0 ** np.array([-32, -49, 19, 18]), 2.0 ** np.array([-20, 17, -24, 33])
    return (a / r[:, None] / c).astype("float32")


def of_form(a: np.ndarray, form: str) -> object:
    if form == "dense":
        return a
    if form == "sparse":
        return ldiv.coo_array((a[np.nonzero(a)], np.nonzero(a)), shape=a.shape)
    ab = np.zeros((3, len(a)), a.dtype)
    for d in range(3):
        ab[d, max(1 - d, 0) : len(a) - max(d - 1, 0)] = np.diag(a, 1 - d)
    return ldiv.Matrix(ldiv.structures.Banded(1, 1, len(a)), ab)


@pytest.mark.parametrize("trans", ["N", "T", "H"])
@pytest.mark.parametrize("form", ["dense", "sparse", "banded"])
def test_a_regular_matrix_is_not_refused_for_its_scaling(form: str, trans: str) -> None:
    a = tridiagonal()
    if form != "banded":
        a = np.zeros((3, 3), "complex64")
        a[ROWS, COLS] = V
    b = np.ones(len(a), a.dtype)
    x = ldiv.solve(of_form(a, form), b, trans=trans)
    op = {"N": a, "T": a.T, "H": a.conj().T}[trans].astype(complex)
    # componentwise: of no scaling
    assert (np.abs(op @ x - b) <= 1e-4 * (np.abs(op) @ np.abs(x) + 1)).all()


def test_a_singular_matrix_is_refused_in_every_scaling() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 6, 20):
        a = rng.integers(-4, 5, (n, n)).astype(float)
        a[:, -1] = a[:, 0] - a[:, 1]
        for scaled in (
            a,
            np.exp2(rng.integers(-40, 41, n))[:, None] * a * np.exp2(rng.integers(-40, 41, n)),
        ):
            for form in ("dense", "sparse"):
                with pytest.raises(ldiv.SingularMatrixError):
                    ldiv.solve(of_form(scaled, form), rng.standard_normal(n))


@pytest.mark.parametrize("method", ["auto", "superlu"])
def test_a_negative_number_on_the_diagonal_is_not_lost_in_rounding(method: str) -> None:
    A = ldiv.coo_array(
        (np.array([-1, 1e9, 1e9, 1e9], "float32"), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2)
    )
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(A, np.ones(2, "float32"), assume_a="pos", method=method)


def test_a_solution_that_grows_is_a_reason_for_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that happens to lie in the range of a singular matrix sees nothing; the right-hand
    side does.
    """
    monkeypatch.setattr(
        "ldiv.engines.accuracy.singularity_check.direction", lambda n, *_: np.array([[1.0], [3.0]])
    )
    A = of_form(np.array([[1.0, 2.0], [3.0, np.nextafter(6.0, 7.0)]]), "sparse")
    np.testing.assert_allclose(ldiv.solve(A, np.array([1.0, 3.0]), method="superlu"), [1.0, 0.0])
    with pytest.raises((ldiv.SingularMatrixError, ldiv.EngineError)):
        ldiv.solve(A * 1.0, np.array([1.0, -1.0]), method="superlu")
