"""The structural rank: the largest rank of a matrix with entries in given positions.

It is the size of a maximum matching of rows and columns: compiled, or SciPy's, which takes n^2 steps
for a mesh with permuted rows.
Reference: Duff, Kaya, Uçar, ACM Trans. Math. Softw. 38 (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import structural_rank

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries.native import native

ALL = slice(None)


def rank_bound(pattern: Pattern, kept: Any = ALL) -> int:
    """Return the structural rank of a square pattern, or of the slots of it that are kept."""
    n, rows, cols = pattern.shape[0], pattern.indices[kept], pattern.columns[kept]
    if native is None:
        ones = np.ones(len(rows))
        return int(structural_rank(sp.csr_array((ones, (rows, cols)), shape=pattern.shape)))
    # compressed columns: rows[starts[j] : starts[j + 1]] are those of column j
    starts = np.concatenate([[0], np.cumsum(np.bincount(cols, minlength=n))])
    return int(native.Pattern(starts.astype(np.int64), rows.astype(np.int64), None).rank())
