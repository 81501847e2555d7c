"""Right-hand sides over all the range of their dtype: a row of x that depends on a small entry alone has
all its digits. The references are rational numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
import torch

import ldiv
from ldiv.engines.libraries import native

jax.config.update("jax_enable_x64", True)
Array = np.ndarray[Any, Any]


def rational(a: Array, b: Array) -> Array:
    """A^-1 b of an upper triangular A."""
    rows, x = [[Fraction(float(v)) for v in row] for row in a], [Fraction(0)] * len(a)
    for i in reversed(range(len(a))):
        rest = sum(rows[i][j] * x[j] for j in range(i + 1, len(a)))
        x[i] = (Fraction(float(b[i])) - rest) / rows[i][i]
    return np.array([float(v) for v in x])


def close(x: Any, expected: Array, rtol: float) -> None:
    np.testing.assert_allclose(x, expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("b", [[1e200, 1, 1e-120 / 7], [1e13, 1, 1e-300 / 7], [1e300, 1e-300, 0]])
def test_units_of_a_column_cost_no_digits_of_its_small_entries(
    b: Any, assume_a: Any, form: str
) -> None:
    a = np.diag([1.0, 2.0, 3.0])
    A = ldiv.asarray(scipy.sparse.csc_array(a)) if form == "sparse" else a
    for unit in (1, 1 + 1j):
        x = ldiv.solve(A, np.array(b) * unit, assume_a=assume_a)
        np.testing.assert_allclose(x, np.array(b) * unit / [1, 2, 3], rtol=1e-15)


SMALL = [(1, 1, 1e-300 / 7), (1e13, 1, 1e-300 / 7), (1, 1 / 3, 1e-30 / 7), (1, 1e-200 / 3, 1e-60)]
SMALL += [(1e-305, 1e-305 / 3, 1e-305 / 7)]


@pytest.mark.parametrize("factor_dtype", [None, "float32"])
@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("unit", [1, 1 + 1j])
@pytest.mark.parametrize("b", SMALL)
def test_small_entries_are_refined(b: Any, unit: complex, assume_a: Any, factor_dtype: Any) -> None:
    """A factor in single precision leaves half of their digits to refinement."""
    # the second row is that of [[4, 1], [1, 3]] less a quarter of the first one
    upper = np.array([[4.0, 1, 0], [0, 2.75, 0], [0, 0, 3]])
    a, b = upper.copy(), np.array(b)
    a[1] = [1, 3, 0]
    expected = rational(upper, b - np.array([0, b[0] / 4, 0]))
    A = ldiv.asarray(scipy.sparse.csc_array(a))
    x = ldiv.solve(A, b * unit, assume_a=assume_a, factor_dtype=factor_dtype)
    close(x / unit, expected, 64 * 2.0**-52)


APART = {"f": 2.0**20, "d": 2.0**160}  # an entry that puts two rows into units that are far apart


@pytest.mark.parametrize("form", ["dense", "sparse", "in single", "torch", "eager", "jit"])
@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("char", "fdFD")
def test_entries_that_leave_the_range_in_other_units(char: str, trans: str, form: str) -> None:
    """R b of M = R A C would be rounded, or zero, though x is not."""
    real, unit = np.dtype(char.lower()), 1 + 1j if char in "FD" else 1
    upper = np.diag(np.array([3, 3, 3], real))
    upper[0, 1] = APART[real.char]
    a: Any = (upper if trans == "N" else upper.T).astype(char)
    options: dict[str, Any] = {"trans": trans}
    if form in ("sparse", "in single"):
        a = scipy.sparse.csc_array(a)
    if form == "in single":
        options["factor_dtype"] = "float32"
    in_jax = {"eager": jax.numpy.asarray, "jit": jax.numpy.asarray}
    array: Any = {"torch": torch.asarray, **in_jax}.get(form, lambda x: x)
    solve = jax.jit(ldiv.solve, static_argnames="trans") if form == "jit" else ldiv.solve
    least, most = float(np.finfo(real).tiny), float(np.finfo(real).max) / 64
    ends = [(24 * least, 0, 0), (24 * least / 7, 0, 1), (2.0**30 * least / 7, 0, most)]
    # in a program that XLA made a part that is lost is not solved for by itself
    for entries in ends if form != "jit" or native.native else ends[:2]:
        b = np.array(entries, real)
        x = np.asarray(solve(array(a), array((b * unit).astype(char)), **options))
        close(x / unit, rational(upper, b), 8 * float(np.finfo(real).eps))


# the units of the rows, of the columns and of b lie on both sides of 1
BEYOND = {
    "d": [((2e89, 1e-86, 3e89), (-4e-183, 1e-288, -2e191))],
    "f": [((1.3421773e8, 8.5899346e9, 5120), (-2.3889453e-17, -9.1629807e29, 5.8653369e13))],
}


@pytest.mark.parametrize("form", ["dense", "sparse", "in single", "torch", "eager", "jit"])
@pytest.mark.parametrize("char", "fdFD")
def test_no_product_of_units_leaves_the_range(char: str, form: str) -> None:
    real, unit = np.dtype(char.lower()), 1 + 1j if char in "FD" else 1
    if form == "jit" and not native.native:
        pytest.skip("a program that XLA made solves once: b is in one unit")
    for diagonal, entries in BEYOND[real.char]:
        d, b = np.array(diagonal, real), np.array(entries, real)
        a: Any = np.diag(d).astype(char)
        options: dict[str, Any] = {}
        if form in ("sparse", "in single"):
            a = scipy.sparse.csc_array(a)
        if form == "in single":
            options["factor_dtype"] = "float32"
        array: Any = torch.asarray if form == "torch" else np.asarray
        array = jax.numpy.asarray if form in ("eager", "jit") else array
        solve = jax.jit(ldiv.solve) if form == "jit" else ldiv.solve
        given = a if form in ("sparse", "in single") else array(a)
        x = np.asarray(solve(given, array((b * unit).astype(char)), **options))
        close(x / unit, rational(np.diag(d), b), 8 * float(np.finfo(real).eps))
