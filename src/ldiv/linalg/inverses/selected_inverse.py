"""Entries of the inverse of a sparse matrix: on its pattern, on its diagonal, where they are asked.

The rule `inverse_entries` gives (A^-1)_ji for the entries (i, j) of A. For other places A gets
entries that are zero.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ldiv.core.arrays.shapes import conj, unit_columns
from ldiv.core.arrays.typing import AnyArray, ArrayT, Assumption
from ldiv.core.arrays.validate import require_flag, require_option, require_square
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.engines import entries
from ldiv.errors import type_error
from ldiv.matrices import sparse_indexing
from ldiv.matrices.assumptions import assumption as short_name
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.inverse_entries import SYMMETRIC, inverse_at, pattern_of, plain
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix
from ldiv.matrices.sparse_array import SparseArray, on_a_pattern
from ldiv.rules.inverse_entries import inverse_entries
from ldiv.rules.solve import solve
from ldiv.structures.banded import Banded
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

BLOCK = 64  # columns of an inverse in memory at a time, of a matrix that is not sparse


@public
def selected_inverse(
    A: MatrixLike, *, assume_a: Assumption = "gen", fill: bool = False
) -> SparseArray:
    """Compute the entries of the inverse of a sparse matrix on its pattern, differentiably.

        Z_ij = (A^-1)_ij    where A_ij is stored

    Parameters
    ----------
    A : SparseArray (*batch, n, n)
        The matrix, sparse.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        As in `solve`.
    fill : bool, default False
        Whether to give the entries on the pattern of the factor L, and of its transpose.

    Returns
    -------
    Z : SparseArray (*batch, n, n)
        The entries, on the pattern of A; of duplicates, each position once.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError
        As `solve`.
    TypeError
        For a matrix that is not sparse.
    EngineError
        For values that are not on the cpu; for more than 2,000 rows where ldiv's compiled part is
        missing.

    See Also
    --------
    logdet : its gradient is the selected inverse.
    inverse_diagonal : the diagonal, of any matrix.

    Notes
    -----
    Differentiable in A in every mode, to second order and beyond; the tangent along E is
    -A^-1 E A^-1 on the pattern, a self-adjoint map.
    Cost: 1 factorization, and about as much again; a derivative takes about four times as much, and
    second derivatives n solves. With "gen" an unsymmetric pattern is made symmetric.
    NumPy's `ldiv.vjp`, which differentiates one rule, takes "her" and "pos" on a symmetric pattern
    without duplicates.

    References
    ----------
    Takahashi, Fagan, Chin (1973); Erisman and Tinney, Comm. ACM 18 (1975).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    >>> Z = ldiv.selected_inverse(A, assume_a="pos")
    >>> Z.toarray()
    array([[0.75, 0.5 , 0.  ],
           [0.5 , 1.  , 0.5 ],
           [0.  , 0.5 , 0.75]])
    """
    require_option("assume_a", assume_a, ("gen", *SYMMETRIC))
    require_flag("fill", fill)
    matrix = as_matrix("A", A)
    if (entered := on_a_pattern(matrix)) is None:
        advice = "Make one with ldiv.coo_array; of other matrices take inverse_diagonal."
        raise type_error("A", "a sparse matrix", type(A).__name__, advice)
    require_square("A", matrix.structure.shape)
    once = plain(entered)
    pattern = pattern_of(once)
    if fill and pattern.nnz:
        rows, cols = once.structure.cached("filled", lambda: entries.filled(pattern))
        structure, _ = sparse_indexing.union((once.row, once.col), (rows, cols), pattern.shape)
        pattern = structure.pattern
    z = inverse_at(once, pattern.rows, pattern.cols, assume_a)
    return SparseArray(Sparse(pattern), z)


@overload
def inverse_diagonal(A: Matrix, *, assume_a: Assumption = "gen") -> Any: ...
@overload
def inverse_diagonal(A: ArrayT, *, assume_a: Assumption = "gen") -> ArrayT: ...
@public
def inverse_diagonal(A: MatrixLike, *, assume_a: Assumption = "gen") -> AnyArray:
    """Compute the diagonal of an inverse, differentiably: marginal variances of a precision.

        d_i = (A^-1)_ii

    Parameters
    ----------
    A : SparseArray, array (*batch, n, n) or Matrix
        The matrix.
    assume_a : str, default "gen"
        As in `solve`.

    Returns
    -------
    d : array (*batch, n)
        The diagonal.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError, EngineError
        As `solve`.

    See Also
    --------
    selected_inverse : more entries of the inverse of a sparse matrix.

    Notes
    -----
    Differentiable in A in every mode and order.
    Cost: of a sparse or banded matrix as `selected_inverse`; of others 1 factorization and n
    solves, a block of columns at a time.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    >>> ldiv.inverse_diagonal(A, assume_a="pos")
    array([0.75, 1.  , 0.75])
    """
    promise = short_name(assume_a)
    matrix, structure, p, assumption = promised_square(A, promise)
    if (entered := on_a_pattern(matrix)) is not None and promise in ("gen", *SYMMETRIC):
        every = np.arange(structure.shape[0])
        return inverse_at(plain(entered), every, every, promise)
    base, op = structure.unview()
    band = base.base if isinstance(base, Symmetric) else base
    if isinstance(band, Banded) and entries.supports(structure, p):
        g = inverse_entries(base, p, assumption)[..., band.u, :]
        return g if op in "CH" else conj(g)
    return _by_solves(matrix, structure, p, assumption)


def _by_solves(matrix: Matrix, structure: Any, p: Tree, assumption: str) -> Array:
    n, like, parts = structure.shape[0], leaves(p)[0], []
    xp = namespace(like)
    for j in range(0, n, BLOCK):
        size = min(BLOCK, n - j)
        x = solve(structure, p, unit_columns(like, n, range(j, j + size)), assumption)
        parts.append(xp.linalg.diagonal(x[..., j : j + size, :]))
    if not parts:
        return xp.zeros((*matrix.batch, 0), dtype=like.dtype)
    return xp.concat(parts, axis=-1)
