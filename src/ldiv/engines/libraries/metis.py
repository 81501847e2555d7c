"""Fill-reducing orderings by METIS nested dissection, of the graph of A + A^T or of A^T A.

METIS has no wheel for every platform; None is the answer where it is not installed.
Reference: George, SIAM J. Numer. Anal. 10 (1973); Karypis and Kumar, SIAM J. Sci. Comput. 20
(1998).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.owners.forking import import_module

DENSE_ROW = 50  # A^T A is formed only if it has at most this many times the entries of A


def of_sum(pattern: Pattern, imbalance: int | None = None) -> Index | None:
    """A permutation p such that A[p][:, p] has little fill-in if pivots stay on the diagonal.

    `imbalance`: by how many thousandths the halves of a dissection may differ.
    """
    ones = pattern.csc(np.ones(pattern.slots, dtype=np.int8))
    return _dissect(ones if pattern.transposition is not None else ones + ones.T, imbalance)


def of_sum_or_band(pattern: Pattern) -> Index:
    """Order as `of_sum` does; without METIS for a small bandwidth (reverse Cuthill-McKee)."""
    if (order := of_sum(pattern)) is not None:
        return order
    ones = pattern.csc(np.ones(pattern.slots, dtype=np.int8))
    band: Index = reverse_cuthill_mckee(ones, pattern.transposition is not None)
    return band.astype(np.intp)


def of_columns(pattern: Pattern) -> Index | None:
    """A permutation q such that A[:, q] has little fill-in for any row pivoting.

    None also if A^T A would be too dense to form.
    """
    in_row = np.bincount(pattern.indices, minlength=pattern.shape[0])
    if (in_row.astype(float) ** 2).sum() > DENSE_ROW * pattern.slots:
        return None
    ones = pattern.csc(np.ones(pattern.slots, dtype=np.int32))
    return _dissect(ones.T @ ones)


def library() -> Any:
    """METIS, or None if it is not installed."""
    try:
        return import_module("pymetis")
    except ImportError:
        return None


def _dissect(graph: Any, imbalance: int | None = None) -> Index | None:
    if (pymetis := library()) is None:
        return None
    n = graph.shape[0]
    column = np.repeat(np.arange(n), np.diff(graph.indptr))
    off = graph.indices != column
    starts = np.concatenate([[0], np.cumsum(np.bincount(column[off], minlength=n))])
    if starts[-1] == 0:
        return np.arange(n)
    neighbors = sp.csr_array(
        (np.ones(starts[-1], np.int8), graph.indices[off], starts), shape=graph.shape
    )
    options = pymetis.Options()
    if imbalance is not None:
        options.ufactor = imbalance
    adjacency = pymetis.CSRAdjacency(neighbors.indptr, neighbors.indices)
    order, _ = pymetis.nested_dissection(adjacency, options=options)
    return np.asarray(order, dtype=np.intp)
