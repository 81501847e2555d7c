"""Hand-written code: SuperLU in the order of METIS, one factorization, a solve with A and a solve
with A^T.

The same calls with the same options as the engine of ldiv makes, and nothing else: no check of the
input, no residual, no sampled product. The gradient of c . x, x = A^-1 b, needs lam = A^-T c and x;
this ends when the two are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymetis
from scipy.sparse.linalg import splu

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import ordering

OPTIONS: dict[str, Any] = {
    "permc_spec": "NATURAL",
    "diag_pivot_thresh": 0.01,
    "options": {"SymmetricMode": True},
}


def nested_dissection(a: Any) -> Any:
    """The order of METIS for a matrix with a symmetric pattern and a full diagonal."""
    off = a.indices != np.repeat(np.arange(a.shape[1]), np.diff(a.indptr))
    starts = a.indptr - np.arange(len(a.indptr))  # one diagonal entry in each column
    # int32 takes a fifth longer
    order, _ = pymetis.nested_dissection(
        pymetis.CSRAdjacency(starts, a.indices[off].astype(np.int64))
    )
    return np.asarray(order)


def order_of_ldiv(a: Any) -> Any:
    """The order that ldiv keeps for this pattern."""
    coo = a.tocoo()
    return ordering.of_sum(Pattern(coo.row, coo.col, a.shape))


def permuted(a: Any, order: Any) -> Any:
    """A[order][:, order] in compressed columns, rows sorted."""
    a = a[order][:, order].tocsc()
    a.sort_indices()
    return a


def two_solves(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """A^-1 b and A^-T c with one factorization."""
    lu = splu(a, **OPTIONS)
    return lu.solve(b), lu.solve(c, "T")


def from_scratch(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """The same for a matrix that was never seen before: ordering and permutation, too."""
    order = nested_dissection(a)
    x, lam = np.empty_like(b), np.empty_like(c)
    x[order], lam[order] = two_solves(permuted(a, order), b[order], c[order])
    return x, lam
