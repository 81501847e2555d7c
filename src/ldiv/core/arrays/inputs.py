"""Conversion of all that SciPy accepts as an array to an array in one of four dtypes.

    lists, tuples, numbers        NumPy arrays
    ranges, array.array, views    NumPy arrays
    objects with `__array__`      NumPy arrays: the columns of pandas, images, files
    bool, int8 ... uint64         float64
    float16                       float32, as SciPy's LAPACK does
    longdouble, clongdouble       float64, complex128
    the other byte order          this one

The `promoted(x)` of a front end is x in the dtype with which its framework computes. Constants of NumPy
beside arrays of another framework are moved there. Arrays in the four dtypes are not converted.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import beside as on_device
from ldiv.core.frameworks.dispatch import frontend_of, is_array, namespace

NUMBERS = (bool, int, float, complex, np.generic)


def promoted(x: Any) -> Any:
    """Return x in the dtype with which its framework computes; objects that are not arrays of
    numbers unchanged.
    """
    if isinstance(x, list | tuple):
        x = _of_sequence(x)
    elif isinstance(x, range | array | memoryview):
        x = np.array(x)
    elif isinstance(x, NUMBERS):
        x = np.asarray(x)
    if type(x) in (np.ndarray, np.memmap):
        return _as_lapack(x)
    if is_array(x):
        return frontend_of(x).promoted(x)
    return _as_lapack(found) if (found := _of_protocol(x)) is not None else x


def _of_protocol(x: Any) -> np.ndarray[Any, Any] | None:
    """The array of an object with `__array__`; None if it has none, or raises."""
    if isinstance(x, type | np.ndarray):  # a numpy.matrix, whose operators are others
        return None
    if not (hasattr(x, "__array__") or hasattr(x, "__array_interface__")):
        return None
    try:
        found = np.asarray(x)
    except Exception:  # as SparseArray and CuPy do
        return None
    return found if type(found) is np.ndarray else None


def _of_sequence(x: Any) -> Any:
    """Nested lists of numbers and NumPy arrays as one array; anything else as it is, for a list
    of tensors would lose their graph.
    """
    try:
        found = np.asarray(x)
    except Exception:  # ragged, or of somebody's classes
        return x
    return found if found.dtype.kind in "biufc" and _of_numbers(x) else x


def _of_numbers(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return all(map(_of_numbers, x))
    return isinstance(x, (*NUMBERS, np.ndarray))


def _as_lapack(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = x.dtype.kind
    if kind in "biu":
        return x.astype(np.float64)
    if kind == "f":
        wide = np.float32 if x.dtype.itemsize <= 4 else np.float64
        return x.astype(wide, copy=False)
    if kind == "c":
        return x.astype(np.complex64 if x.dtype.itemsize <= 8 else np.complex128, copy=False)
    return x


def moved(x: Any, other: Any) -> Any:
    """A NumPy array beside one of another framework as a constant of that framework.

    What are no plain numbers (dates, text, masked arrays) stay as they are, to be refused.
    """
    if type(x) not in (np.ndarray, np.memmap) or isinstance(other, np.ndarray):
        return x
    if x.dtype.kind not in "biufc" or not is_array(other):
        return x
    x = _as_lapack(x) if x.dtype.kind in "fc" else x.astype(x.dtype.newbyteorder("="))
    # a copy: the framework must neither write to it nor warn that it cannot
    return namespace(other).asarray(np.array(x), **on_device(other))
