"""The values of a symmetric part: A itself where it is symmetric to the last bit, else the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Pattern
from ldiv.errors import NotSymmetricError
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


def drawn(op: str, dtype: str, seed: int = 0) -> Any:
    """A symmetric or Hermitian matrix of 20 rows, by columns."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((20, 20), density=0.2, rng=rng).toarray().astype(dtype)
    a = a * np.exp(2j * np.pi * rng.random(a.shape)) if np.dtype(dtype).kind == "c" else a
    return sp.csc_array(a + (a.conj().T if op == "H" else a.T) + 3 * np.eye(20)).astype(dtype)


def slots(a: Any, values: Any, op: str) -> Any:
    cols = np.repeat(np.arange(20), np.diff(a.indptr))
    return Symmetric(Sparse(Pattern(a.indices, cols, a.shape)), op).slot_values(values)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("op", ["T", "H"])
def test_exact_rounded_and_far(op: str, dtype: str) -> None:
    a = drawn(op, dtype)
    assert np.array_equal(slots(a, a.data, op), a.data)
    batch = np.stack([a.data, 2 * a.data])
    assert np.array_equal(slots(a, batch, op), batch)
    off = np.flatnonzero(a.indices != np.repeat(np.arange(20), np.diff(a.indptr)))[0]
    for row in (slice(None), slice(1, 2)):  # of a batch, in one matrix only
        rounded = batch.copy()
        rounded[row, off] *= 1 + np.finfo(dtype).eps
        found = slots(a, rounded, op)
        for values in found:
            s = sp.csc_array((values, a.indices, a.indptr)).toarray()
            assert np.array_equal(s, s.conj().T if op == "H" else s.T)
        np.testing.assert_allclose(found, batch, rtol=4 * np.finfo(dtype).eps)
        far = batch.copy()
        far[row, off] *= -1
        with pytest.raises(NotSymmetricError):
            slots(a, far, op)


def test_a_hermitian_diagonal_is_real() -> None:
    """The diagonal is its own mirror image: off the diagonal nothing is wrong."""
    a = drawn("H", "complex128")
    on = np.flatnonzero(a.indices == np.repeat(np.arange(20), np.diff(a.indptr)))[3]
    values = a.data.copy()
    values[on] += 0.5j
    with pytest.raises(NotSymmetricError):
        slots(a, values, "H")
