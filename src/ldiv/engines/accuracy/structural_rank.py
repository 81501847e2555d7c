"""The structural rank: the largest rank of a matrix with entries in given positions.

It is the size of a maximum matching of rows and columns. SciPy's takes n^2 steps for a mesh with
permuted rows, 40 s for 25,000 of them, where RSLAB's analysis, which finds blocks and an ordering
as well, takes 0.2 s. So of many rows is said only whether the rank is full.
Reference: Duff, Kaya, Uçar, ACM Trans. Math. Softw. 38 (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import structural_rank

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import rslab

FEW = 1000  # rows up to which the rank is counted
ALL = slice(None)


def rank_bound(pattern: Pattern, kept: Any = ALL) -> int:
    """n where a square pattern, or its slots that are kept, have full rank; else a bound below n."""
    n, rows, cols = pattern.shape[0], pattern.indices[kept], pattern.columns[kept]
    if n > FEW and rslab.decline(np.float64, "cpu") is None:
        starts = np.concatenate([[0], np.cumsum(np.bincount(cols, minlength=n))])
        return n if _is_matched(n, starts.astype(np.int64), rows.astype(np.int64)) else n - 1
    ones = np.ones(len(rows))
    return int(structural_rank(sp.csr_array((ones, (rows, cols)), shape=pattern.shape)))


def _is_matched(n: int, starts: Any, rows: Any) -> bool:
    try:
        rslab.calls().analyze_klu(
            n, starts, rows, np.ones(len(rows)), parallel=False, matching=False
        )
    except RuntimeError as error:
        if "singular" in str(error):
            return False
        raise
    return True
