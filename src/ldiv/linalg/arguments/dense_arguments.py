"""Arguments of factorizations of dense matrices, checked."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import batch_of
from ldiv.core.arrays.validate import (
    as_block,
    as_float,
    common_precision,
    require_batches,
    require_square,
    require_two_dimensions,
    together,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.errors import type_error, value_error
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray

LEAST_SQUARES = "Least squares with a sparse matrix are ldiv.lstsq."


def require_matrix_array(
    name: str, a: Any, *others: Any, instead: str = "", scalar: bool = False
) -> Array:
    """An array (*batch, m, n), a constant in the framework of the others.

    With `scalar` a number is a matrix 1 x 1, where SciPy calls `numpy.atleast_2d`.
    """
    if isinstance(a, Matrix) and not isinstance(a, SparseArray):
        advice = instead or "This function works on dense arrays."
        raise type_error(name, "a dense array", f"a {type(a).__name__}", advice)
    a = as_float(name, a, *others, instead=instead)
    a = a[None, None] if scalar and a.ndim == 0 else a
    require_two_dimensions(name, a)
    return a


def require_square_array(
    name: str, a: Any, *others: Any, instead: str = "", scalar: bool = False
) -> Array:
    """An array (*batch, n, n)."""
    a = require_matrix_array(name, a, *others, instead=instead, scalar=scalar)
    require_square(name, tuple(a.shape[-2:]))
    return a


def require_partner(
    name: str,
    x: Any,
    like: Array,
    shape: tuple[int, ...],
    advice: str,
    *,
    instead: str = "",
    scalar: bool = False,
) -> Array:
    """An array (*batch, *shape) that goes with another one, whose batch axes it broadcasts with."""
    x = require_matrix_array(name, x, like, instead=instead, scalar=scalar)
    together(name, x, like)
    if tuple(x.shape[-2:]) != shape:
        raise value_error(name, f"shape (..., {shape[0]}, {shape[1]})", tuple(x.shape), advice)
    require_batches(name, batch_of(like, 2), batch_of(x, 2))
    return x


def require_system(name: str, a: Any, b: Any) -> tuple[Array, Array, bool]:
    """Factors and right-hand side in a common precision, and whether b came as a vector."""
    a = require_square_array(name, a, b)
    block, vector = as_block("b", b, a.shape[-1], a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    a, block = common_precision(a, block)
    return a, block, vector
