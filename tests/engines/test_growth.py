"""Pivots that grow: each answer has a small backward error in the units of its matrix, or is refused.

Wilkinson's matrix has growth 2^(n-1) where no row is exchanged. Equal row and column sums make scales of
the same range, in whose norm the lost digits are small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.libraries import ordering

REFUSED = ldiv.SingularMatrixError, ldiv.EngineError


def growing(n: int, dtype: Any) -> np.ndarray[Any, Any]:
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return a.astype(dtype)


def backward_error(a: Any, x: Any, b: Any) -> float:
    a, x, b = (np.asarray(y, np.complex128) for y in (a, x, b))
    sizes = abs(a).sum(1).max() * abs(x).max() + abs(b).max()
    return float(abs(a @ x - b).max() / sizes)


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64])
@pytest.mark.parametrize("method", ["superlu", "lu", "auto", "dense", "batch"])
def test_small_or_refused(
    method: str, dtype: Any, trans: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("of_sum", "of_columns"):
        monkeypatch.setattr(ordering, name, lambda pattern, *_: np.arange(pattern.shape[0]))
    rng, tolerance = np.random.default_rng(0), 4 * np.finfo(dtype).eps ** (2 / 3)
    for n in (30, 43, 50, 57, 60, 64, 80):
        ldiv.clear_cache()
        a = growing(n, dtype)
        for units in (np.zeros(n, int), rng.integers(-8, 8, n)):
            m = np.ldexp(a.real, units).astype(dtype)
            m = m if trans == "N" else m.T.copy()
            b = rng.standard_normal((n, 1)).astype(dtype)
            given: Any = sp.csr_array(m)
            if method in ("dense", "batch"):
                given = m if method == "dense" else np.stack([m, np.eye(n, dtype=dtype)])
            named = method if method in ("superlu", "lu") else "auto"
            try:
                x = ldiv.solve(given, b, method=named).reshape(-1, n)[0]
                y = ldiv.factorized(given, method=named).solve(b, trans="H").reshape(-1, n)[0]
            except REFUSED:
                assert method in ("superlu", "lu")
                continue
            assert backward_error(m, x, b[:, 0]) <= tolerance
            assert backward_error(m.conj().T, y, b[:, 0]) <= tolerance
