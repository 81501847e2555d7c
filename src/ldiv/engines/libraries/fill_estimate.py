"""An estimate of the work of a factorization per entry of its factors, from two samples of its graph.

    work(n) ~ work(m) (n / m)^q,   q = log(work(m) / work(m / 4)) / log 4

A sample is the submatrix of the m vertices nearest to one in the middle: a piece of a mesh is a
mesh, a piece of a circuit a circuit. Meshes in two dimensions have q near 1/2, in three near 1,
networks near 0. So an analysis of 100,000 rows, which takes as long as a factorization, is spared
where its outcome can be told in some milliseconds. Vertices with very many neighbors, of which all
others would be near, do not count.
Reference: George, SIAM J. Numer. Anal. 10 (1973), on the exponents of meshes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from ldiv.core.frameworks.pattern import Pattern

ROWS = 1600  # of the larger sample, at most
ENTRIES = 10_000  # of it, about
STEEPEST = 1.0  # the exponent of meshes in three dimensions
CROWDED = 10.0  # times sqrt(n) neighbors from which a vertex is left out


def extrapolated(pattern: Pattern, work: Callable[[Pattern], float]) -> float:
    """The work for each entry of the factors, about, of a pattern with all of its diagonal.

    `work(pattern)` counts it for a small pattern.
    """
    graph = _without_crowded(pattern)
    if 2 * graph.shape[0] <= pattern.shape[0]:  # almost dense
        return np.inf
    near = breadth_first_order(graph, _middle(graph), directed=False, return_predecessors=False)
    # rows that have about ENTRIES entries
    most = max(4, min(ROWS, int(ENTRIES * graph.shape[0] / max(graph.nnz, 1))))
    (few, less), (many, more) = (
        (len(nodes), work(_sample(graph, nodes))) for nodes in (near[: most // 4], near[:most])
    )
    # no growth from which an exponent could be told
    if many <= few or more <= less:
        return more
    # work(m) / work(m / 4) = 4^q
    exponent = STEEPEST if less <= 0 else np.log(more / less) / np.log(many / few)
    return float(more * (pattern.shape[0] / many) ** min(exponent, STEEPEST))


def _without_crowded(pattern: Pattern) -> Any:
    n = pattern.shape[0]
    graph = sp.csr_array(
        (np.ones(pattern.slots), pattern.indices, pattern.indptr), shape=pattern.shape
    )
    most = CROWDED * np.sqrt(n)
    # neighbors by columns, and by rows
    degrees = np.diff(pattern.indptr), np.bincount(pattern.indices, minlength=n)
    kept = np.flatnonzero((degrees[0] <= most) & (degrees[1] <= most))
    return graph if len(kept) == n else graph[kept][:, kept]


def _middle(graph: Any) -> int:
    """A vertex with at least the median number of neighbors: not in a corner, and not isolated."""
    degree = np.diff(graph.indptr)
    usual = np.flatnonzero(degree >= np.median(degree))
    return int(usual[len(usual) // 2])


def _sample(graph: Any, nodes: Any) -> Pattern:
    nodes = np.sort(nodes)
    part = graph[nodes][:, nodes].tocoo()
    return Pattern(part.col, part.row, part.shape)  # rows of the graph are columns
