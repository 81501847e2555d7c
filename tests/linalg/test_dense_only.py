"""Functions of dense arrays say in one sentence what works with a sparse matrix instead, the same for
SciPy's and for ours, and never to make it what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

K = sp.diags_array([-np.ones(3), np.full(4, 4.0), -np.ones(3)], offsets=[-1, 0, 1]).tocsc()
INSTEAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "svd": (ldiv.svd, "ldiv.svds"),
    "svdvals": (ldiv.svdvals, "ldiv.svds"),
    "matrix_rank": (ldiv.matrix_rank, "ldiv.svds"),
    "pinv": (ldiv.pinv, "ldiv.lstsq"),
    "qr": (ldiv.qr, "ldiv.lstsq"),
    "lu": (ldiv.lu, "ldiv.factorized"),
    "lu_factor": (ldiv.lu_factor, "ldiv.factorized"),
    "ldl": (ldiv.ldl, "ldiv.factorized"),
    "inv": (ldiv.inv, "factorized"),
    "eigh": (ldiv.eigh, "ldiv.eigsh"),
}


@pytest.mark.parametrize("name", INSTEAD)
@pytest.mark.parametrize("matrix", [K, ldiv.asarray(K)], ids=["scipy", "ours"])
def test_what_works_instead(name: str, matrix: Any) -> None:
    f, instead = INSTEAD[name]
    with pytest.raises(TypeError, match="expected a dense array, got") as caught:
        f(matrix)
    assert instead in str(caught.value)
    assert "asarray" not in str(caught.value)


@pytest.mark.parametrize("factored", [ldiv.factorized, sp.linalg.splu], ids=["ours", "scipy"])
def test_what_is_factored_solves_by_itself(factored: Any) -> None:
    held = factored(K)
    with pytest.raises(TypeError, match=r"x\.solve\(b\)"):
        ldiv.solve(held, np.ones(4))


@pytest.mark.parametrize("cond", [None, 1e-8])
def test_a_rank_is_called_a_rank(cond: float | None) -> None:
    with pytest.raises(ldiv.SingularMatrixError, match="full rank") as caught:
        ldiv.lstsq(np.ones((6, 3)), np.ones(6), cond=cond)
    assert not {"rigid", "float64", "nan"} & set(str(caught.value).split())
