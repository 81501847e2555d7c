"""A singular matrix whose solution for the probe hardly grows: the probe is nearly a combination of
its columns, and so is the right-hand side. Another direction shows what it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.accuracy.singularity_check import another, direction

FORMS = {
    "dense": lambda a: a,
    "batch": lambda a: np.stack([np.eye(2, dtype=a.dtype), a]),
    "sparse": lambda a: ldiv.asarray(sp.csc_array(a)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("form", FORMS)
def test_it_is_refused(form: str, dtype: Any) -> None:
    """LAPACK's pivot refuses it if rounding leaves a zero, else its growth does."""
    rng = np.random.default_rng(0)
    column = (direction(2) + 1e-6 * another(direction(2)))[:, 0]
    for _ in range(20):
        a = np.outer(column, rng.standard_normal(2)).astype(dtype)
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(FORMS[form](a), a @ rng.standard_normal(2).astype(dtype))
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.factorized(FORMS[form](a)).solve(a @ np.ones(2, dtype))


def test_the_directions() -> None:
    """The directions are orthogonal for two rows, and of one size."""
    for n in (1, 2, 7, 8):
        z = direction(n)
        assert np.abs(another(z)).sum() == pytest.approx(np.abs(z).sum())
        assert abs((z * another(z)).sum()) < (1e-15 if n == 2 else 0.95 * (z**2).sum() + (n == 1))
