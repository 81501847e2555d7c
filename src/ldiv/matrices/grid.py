"""Blocks on a grid: what users write as rows of matrices, with the height of each row and the width
of each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ldiv.errors import shown, value_error
from ldiv.matrices.matrix import Matrix

MatrixT = TypeVar("MatrixT", bound=Matrix)


@dataclass(frozen=True)
class Grid(Generic[MatrixT]):
    """The blocks at their (row, column), in the order of rows."""

    blocks: dict[tuple[int, int], MatrixT]
    heights: tuple[int, ...]
    widths: tuple[int, ...]


def grid_of(
    blocks: Sequence[Sequence[Any]], convert: Callable[[str, Any], MatrixT]
) -> Grid[MatrixT]:
    """The grid that rows of blocks mean, each converted; None is a block of zeros."""
    whole = (
        isinstance(blocks, tuple | list)
        and len(blocks) > 0
        and all(isinstance(row, tuple | list) for row in blocks)
    )
    if not whole or any(len(row) != len(blocks[0]) or not row for row in blocks):
        raise value_error(
            "blocks", "rows of equally many blocks", shown(blocks), "None is a block of zeros."
        )
    found = {
        (i, j): convert(f"block {i, j}", b)
        for i, row in enumerate(blocks)
        for j, b in enumerate(row)
        if b is not None
    }
    heights, widths = (
        {at[axis]: m.structure.shape[axis] for at, m in reversed(found.items())} for axis in (0, 1)
    )
    if len(heights) < len(blocks) or len(widths) < len(blocks[0]):
        advice = "Its size is not known."
        raise value_error("blocks", "a matrix in every row and column", "one of zeros only", advice)
    for (i, j), m in found.items():
        if m.structure.shape != (heights[i], widths[j]):
            what = f"shape {heights[i], widths[j]}"
            raise value_error(
                f"block {i, j}", what, m.structure.shape, "Its row and column say so."
            )
    return Grid(
        found,
        tuple(heights[i] for i in range(len(heights))),
        tuple(widths[j] for j in range(len(widths))),
    )
