"""S(p) = [A, V; W^H, 0], a sparse matrix whose last rows and columns border a singular A.

Its parameters are those of `Sparse`. The width of the border is what engines know beside the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class Bordered(Sparse):
    """A sparsity pattern whose last `width` columns are V, and whose last `width` rows are W^H."""

    width: int


def cases(draw: Any) -> Iterator[tuple[Bordered, Tree]]:
    # A = [d, -d; -d, d]
    rows, cols = np.array([0, 1, 0, 1, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2, 2, 0, 1])
    a = (draw(1) + 3) * np.array([1, 1, -1, -1])
    yield Bordered(Pattern(rows, cols, (3, 3)), 1), np.append(a, draw(4) + 2)
