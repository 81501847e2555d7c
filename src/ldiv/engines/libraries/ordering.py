"""Fill-reducing orderings of the graph of A + A^T or of A^T A, in compiled code of ldiv's own.

Nested dissection, or minimum degree where that has less fill. Where nothing is compiled the answer
is None, and SuperLU orders by itself.
Reference: George, SIAM J. Numer. Anal. 10 (1973); Karypis and Kumar, SIAM J. Sci. Comput. 20
(1998); Amestoy, Davis and Duff, SIAM J. Matrix Anal. Appl. 17 (1996).
"""

from __future__ import annotations

import numpy as np

from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.engines.libraries import native
from ldiv.engines.libraries.threads import threads

DENSE_ROW = 50  # A^T A is formed only if it has at most this many times the entries of A
EVEN = 0.6  # of the vertices: the most in one half of a dissection


def of_sum(pattern: Pattern, most: float = EVEN) -> Index | None:
    """A permutation p such that A[p][:, p] has little fill-in if pivots stay on the diagonal.

    `most`: the largest share of one half of a dissection.
    """
    return _ordered(pattern.indptr, pattern.indices, most)


def of_columns(pattern: Pattern) -> Index | None:
    """A permutation q such that A[:, q] has little fill-in for any row pivoting.

    None also if A^T A would be too dense to form.
    """
    # row i alone gives A^T A up to (entries of row i)^2 entries
    in_row = np.bincount(pattern.indices, minlength=pattern.shape[0])
    if (in_row.astype(float) ** 2).sum() > DENSE_ROW * pattern.slots:
        return None
    ones = pattern.csc(np.ones(pattern.slots, dtype=np.int32))
    product = ones.T @ ones
    product.sort_indices()
    return _ordered(product.indptr, product.indices, EVEN)


def _ordered(starts: Index, rows: Index, most: float) -> Index | None:
    if native.native is None:
        return None
    order = np.empty(len(starts) - 1, np.int64)
    if not native.native.ordering(starts, rows, most, order, threads()):
        raise MemoryError
    return order
