"""Arguments of factorizations of dense matrices, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import batch_of
from ldiv.core.dispatch import sparse_home
from ldiv.core.trees import Array
from ldiv.core.validate import (
    as_block,
    as_float,
    common_precision,
    require_batches,
    require_square,
    require_two_dimensions,
)
from ldiv.errors import expected_got
from ldiv.matrices.matrix import Matrix

LEAST_SQUARES = "Least squares with a sparse matrix are ldiv.lstsq."


def require_dense(name: str, a: Any, instead: str) -> None:
    """Raises for a matrix that is no dense array, ours or another library's; `instead` says what
    works with it.
    """
    if type(a) is np.ndarray:
        return
    if isinstance(a, Matrix) or hasattr(type(a), "tocsc") or sparse_home(a) is not None:
        raise TypeError(expected_got(name, "a dense array", f"a {type(a).__name__}", instead))


def require_matrix_array(name: str, a: Any, *others: Any, instead: str = "") -> Array:
    """An array (*batch, m, n), a constant in the framework of the others."""
    require_dense(name, a, instead or "This function works on dense arrays: a.toarray().")
    a = as_float(name, a, *others)
    require_two_dimensions(name, a)
    return a


def require_square_array(name: str, a: Any, *others: Any, instead: str = "") -> Array:
    """An array (*batch, n, n)."""
    a = require_matrix_array(name, a, *others, instead=instead)
    require_square(name, tuple(a.shape[-2:]))
    return a


def require_system(name: str, a: Any, b: Any) -> tuple[Array, Array, bool]:
    """Factors and right-hand side in a common precision, and whether b came as a vector."""
    a = require_square_array(name, a, b)
    block, vector = as_block("b", b, a.shape[-1], a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    return *common_precision(a, block), vector
