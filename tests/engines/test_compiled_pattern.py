"""The compiled looks at sparse matrices: those of NumPy, and nothing is read past the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.accuracy.equilibration import Layout
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.libraries import native

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")
N = 30


def drawn(dtype: str, seed: int = 0) -> Any:
    """Compressed columns, balanced by the diagonal."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((N, N), density=0.1, rng=rng).tocsc()
    if dtype[0] == "c":
        a = a * (1 + 0.5j)
    a = sp.csc_array(a + 2 * sp.eye_array(N)).astype(dtype)
    a.sort_indices()
    return a


def vectors(dtype: str) -> Any:
    x = np.random.default_rng(1).standard_normal((4, N, 1))
    return (x[:2] + (1j * x[2:] if dtype[0] == "c" else 0)).astype(dtype)


@compiled
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_and_residuals(dtype: str, index: str) -> None:
    a, (x, b) = drawn(dtype), vectors(dtype)
    eps = np.finfo(dtype).eps
    diagonal = np.flatnonzero(a.indices == np.repeat(np.arange(N), np.diff(a.indptr)))
    pattern = native.native.Pattern(a.indptr.astype(index), a.indices.astype(index), diagonal)
    sums = np.empty(N, a.data.real.dtype)
    found = pattern.sizes(a.data, sums)
    expected = abs(a).sum(axis=0)
    least = abs(a.diagonal()).min(), abs(a.data).max(), expected.min(), expected.max()
    assert np.allclose(found, least, rtol=8 * eps) and np.allclose(sums, expected, rtol=8 * eps)
    for matrix, transposed in ((a, False), (a.T, True)):
        r = np.empty_like(b)
        sizes = pattern.residual(a.data, x, b, r, transposed)
        assert np.allclose(r, b - matrix @ x, atol=100 * eps)
        assert np.allclose(sizes, [abs(v).max() for v in (r, x, b)], rtol=8 * eps)


@compiled
def test_a_residual_with_nan_is_not_small() -> None:
    a, (x, b) = drawn("float64"), vectors("float64")
    m = SparseMatrix("", Arrangement(Pattern(*a.tocoo().coords, a.shape)), a.data)
    good = np.linalg.solve(a.toarray(), b)
    assert m.checked_residual(b, good, "N")[1]
    for at in (0, N // 2, N - 1):
        bad = good.copy()
        bad[at] = np.nan
        assert not m.checked_residual(b, bad, "N")[1] and np.isnan(m.measured(b, bad, "N")[1]).all()
    assert not m.checked_residual(b, x, "N")[1]


@compiled
def test_what_does_not_fit_is_refused() -> None:
    a, (x, b) = drawn("float64"), vectors("float64")
    starts, rows = a.indptr, a.indices
    make, r = native.native.Pattern, np.empty_like(b)
    beyond, below, back = rows.copy(), rows.copy(), starts.copy()
    beyond[3], below[3], back[2] = N, -1, starts[-1] + 5
    for wrong in (
        (starts, beyond, None),
        (starts, below, None),
        (back, rows, None),
        (starts[:-1], rows, None),
        (starts, rows.astype("int64"), None),
        (starts.astype(float), rows, None),
        (starts, rows, np.arange(N) + len(rows)),
        (starts, rows, np.arange(N - 1)),
        (starts, rows, np.arange(N, dtype="int32")),
    ):
        with pytest.raises(ValueError, match="compressed columns"):
            make(*wrong)
    pattern = make(starts, rows, None)
    for wrong in (
        (a.data[:-1], x, b, r),
        (a.data, x[:-1], b, r),
        (a.data, x, b[:-1], r),
        (a.data, x, b, r[:-1]),
        (a.data, x.astype("float32"), b, r),
    ):
        with pytest.raises(ValueError, match="a number for each entry"):
            pattern.residual(*wrong, False)
    with pytest.raises(ValueError, match="a number for each entry"):
        pattern.sizes(a.data, np.empty(N - 1))
    with pytest.raises(TypeError, match="floats"):
        pattern.residual(starts, x, b, r, False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_agree(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, (_, b) = drawn(dtype), vectors(dtype)
    A = ldiv.asarray(a)
    for trans in "NTH":
        found = ldiv.solve(A, b, trans=trans)
        with monkeypatch.context() as patch:
            patch.setattr(Layout, "compiled", None)
            ldiv.clear_cache()
            expected = ldiv.solve(A, b, trans=trans)
        assert np.allclose(found, expected, rtol=100 * np.finfo(dtype).eps, atol=0)
