"""SuperLU without METIS: it orders by itself, and is as right."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import metis


@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("full", [True, False], ids=["diagonal", "no diagonal"])
def test_without_metis(monkeypatch: pytest.MonkeyPatch, assume_a: str, full: bool) -> None:
    monkeypatch.setattr(metis, "library", lambda: None)
    a: Any = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(37, 37))
    if not full:
        a = (
            sp.csc_array(sp.csr_array(a)[::-1])
            if assume_a == "gen"
            else sp.block_diag([a, [[0, 1], [1, 0]]])
        )
    if assume_a == "pos" and not full:
        pytest.skip("a definite matrix has a full diagonal")
    a = sp.csc_array(a)
    a.eliminate_zeros()
    pattern = Pattern(*a.tocoo().coords, a.shape)
    assert metis.of_sum(pattern) is None and metis.of_columns(pattern) is None
    x = np.arange(1.0, 1 + a.shape[0])
    F = ldiv.factorized(ldiv.asarray(a), assume_a=assume_a, method="superlu")
    for trans, op in (("N", a), ("T", a.T)):
        np.testing.assert_allclose(F.solve(op @ x, trans=trans), x, rtol=1e-12)
    expected = np.linalg.slogdet(a.toarray())[1]
    np.testing.assert_allclose(F.logabsdet(), expected, rtol=1e-12)


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_determinants_without_metis(monkeypatch: pytest.MonkeyPatch, assume_a: str) -> None:
    monkeypatch.setattr(metis, "library", lambda: None)
    below = -1.0 if assume_a == "pos" else -0.5
    a = sp.diags_array([below, 4.0, -1.0], offsets=[-1, 0, 1], shape=(43, 43)).tocsc()
    A = ldiv.asarray(a)
    expected = np.linalg.slogdet(a.toarray())[1]
    np.testing.assert_allclose(ldiv.logdet(A, assume_a=assume_a), expected, rtol=1e-12)
    found = ldiv.inverse_diagonal(A, assume_a=assume_a)
    np.testing.assert_allclose(found, np.diagonal(np.linalg.inv(a.toarray())), rtol=1e-10)


def test_without_metis_an_indefinite_matrix_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metis, "library", lambda: None)
    a = sp.diags_array([-1.0, 1.5, -1.0], offsets=[-1, 0, 1], shape=(41, 41))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.factorized(ldiv.asarray(a), assume_a="pos", method="superlu")
