"""Sparse arrays from values at given positions, and constants moved between frameworks."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import alike
from ldiv.core.arrays.validate import require_float
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.sparse_indexing import structure_at


def sparse_at(
    values: Array, rows: Index, cols: Index, shape: tuple[int, int], format: Format
) -> SparseArray:
    """Values at these positions, which are valid and in the order of the format."""
    return SparseArray(structure_at(rows, cols, shape), values, format)


def moved_like(A: SparseArray, like: Any) -> SparseArray:
    """The values as constants of the framework, dtype and device of `like`, if there is one."""
    if like is None:
        return A
    require_float("like", like)
    return A.with_data(namespace(like).asarray(A.data, **alike(like)))
