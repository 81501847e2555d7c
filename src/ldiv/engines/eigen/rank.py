"""The rank of a matrix with entries, for messages: singular values of it, equilibrated, above t.

    [t I  A  ]
    [A^H  t I]    has the eigenvalues t +- s_i, and t: as many negative ones as A has s_i > t

Reference: Sylvester (1852), by `inertia`; t = eps^(2/3), or larger where the count
is not certain.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.eigen.inertia import inertia
from ldiv.errors import EngineError, SingularMatrixError
from ldiv.structures.composed import entries, entry_values
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

SWEEPS = 5


def rank(structure: Structure, p: Tree) -> tuple[int, float] | None:
    """The count, and t, of one matrix on the host; None where its entries are not at hand, or the count is not certain."""
    if (places := entries(structure)) is None:
        return None
    values = np.asarray(entry_values(structure, p))
    A = sp.csr_array((values, places), shape=structure.shape)
    A.sum_duplicates()
    eps = float(np.finfo(values.dtype).eps)
    A = _equilibrated(A.astype(np.result_type(values.dtype, np.float64)))
    # a larger t where the inertia for the smaller one is not certain
    for t in (eps ** (2 / 3), eps**0.5, eps ** (3 / 8)):
        with suppress(EngineError, SingularMatrixError):
            return _above(A, t), t
    return None


def _above(A: Any, t: float) -> int:
    m, n = A.shape
    # K has one negative eigenvalue t - s_i for each singular value s_i > t
    K = sp.block_array([[t * sp.eye_array(m), A], [A.conj().T, t * sp.eye_array(n)]]).tocoo()
    rows, cols = K.coords
    return inertia(Symmetric(Sparse(Pattern(rows, cols, (m + n, m + n)))), K.data)[1]


def _equilibrated(A: Any) -> Any:
    """The largest entries of rows and columns near 1, which keeps the rank."""
    for _ in range(SWEEPS):
        # one step of Ruiz's scaling: a_ij / sqrt(r_i c_j), r and c the largest entries
        rows, cols = (abs(A).max(axis).toarray() for axis in (1, 0))
        rows, cols = (1 / np.sqrt(np.where(x > 0, x, 1)) for x in (rows, cols))
        A = sp.diags_array(rows) @ A @ sp.diags_array(cols)
    return A.tocsr()
