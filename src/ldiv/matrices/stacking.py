"""Sparse arrays made of others: one pattern of all their entries, one array of all their values.

`block_array` and `kron` keep their parts as they are instead, of any structure, and copy nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, cast, overload

import numpy as np

from ldiv.core.arrays.inputs import moved
from ldiv.core.arrays.shapes import batch_of, broadcast, spread
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_batches, require_square, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.errors import shown, value_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.entries import Format
from ldiv.matrices.grid import Grid, grid_of
from ldiv.matrices.matrix import common_dtype
from ldiv.matrices.sparse_array import SparseArray, sparse_at
from ldiv.matrices.sparse_indexing import canonical
from ldiv.rules.gather import gather, gathering

BlockLike = SparseArray | AnyArray


@public
def bmat(
    blocks: Sequence[Sequence[BlockLike | None]], format: Format | None = None, dtype: Any = None
) -> SparseArray:
    """A sparse array from sparse blocks; None is a block of zeros.

        bmat([[A, B], [C, None]]) = [[A, B], [C, 0]]

    Parameters
    ----------
    blocks : sequence of sequences of sparse arrays, dense arrays, or None
        The rows of blocks. All blocks of a row have the same height, all blocks of a column the
        same width. Of a dense array all entries are kept.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.
    dtype : dtype, optional
        The dtype of the values; by default the widest dtype of the blocks.

    Returns
    -------
    A : SparseArray (*batch, m, n)

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For mixed frameworks, and for matrices whose entries are not stored.

    See Also
    --------
    block_array : takes matrices of any structure.

    Notes
    -----
    Differentiable in every block, in every mode and order.
    Cost: one copy of the values, and one of the indices.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, B = ldiv.eye_array(2), np.array([[1.0, 1.0]])
    >>> ldiv.bmat([[A, B.T], [B, None]]).toarray()
    array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 0.]])
    """
    return _of_blocks(blocks, format, dtype)


@public
def vstack(
    blocks: Sequence[BlockLike], format: Format | None = None, dtype: Any = None
) -> SparseArray:
    """Sparse arrays one below the other.

        vstack([A, B]) = [[A], [B]]

    Parameters
    ----------
    blocks : sequence of sparse or dense arrays
        They have the same number of columns.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; where it is absent that of the blocks if it is "csr", else "coo".
    dtype : dtype, optional
        As in `bmat`.

    Returns
    -------
    A : SparseArray (*batch, m, n)

    Raises
    ------
    ValueError, TypeError
        As in `bmat`.

    Notes
    -----
    Differentiable in every block, in every mode and order. Cost: that of `bmat`.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.vstack([ldiv.eye_array(2), 3 * ldiv.eye_array(1, 2)]).toarray()
    array([[1., 0.],
           [0., 1.],
           [3., 0.]])
    """
    return _of_blocks([[b] for b in _sequence("blocks", blocks)], format, dtype, "csr")


@public
def hstack(
    blocks: Sequence[BlockLike], format: Format | None = None, dtype: Any = None
) -> SparseArray:
    """Sparse arrays side by side.

        hstack([A, B]) = [A, B]

    Parameters
    ----------
    blocks : sequence of sparse or dense arrays
        They have the same number of rows.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; where it is absent that of the blocks if it is "csc", else "coo".
    dtype : dtype, optional
        As in `bmat`.

    Returns
    -------
    A : SparseArray (*batch, m, n)

    Raises
    ------
    ValueError, TypeError
        As in `bmat`.

    Notes
    -----
    Differentiable in every block, in every mode and order. Cost: that of `bmat`.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.hstack([ldiv.eye_array(2), 3 * ldiv.eye_array(2, 1)]).toarray()
    array([[1., 0., 3.],
           [0., 1., 0.]])
    """
    return _of_blocks([_sequence("blocks", blocks)], format, dtype, "csc")


@overload
def block_diag(
    mats: Sequence[BlockLike], format: Format | None = None, dtype: Any = None
) -> SparseArray: ...
@overload
def block_diag(mats: BlockLike, *others: BlockLike, dtype: Any = None) -> AnyArray: ...
@public
def block_diag(mats: Any, *others: Any, format: Format | None = None, dtype: Any = None) -> Any:
    """Sparse arrays along the diagonal, or with the blocks as arguments of their own a dense array.

        block_diag([A, B]) = [[A, 0], [0, B]]

    Parameters
    ----------
    mats : sequence of sparse or dense arrays
        The blocks, of any shapes.
    *others : sparse or dense arrays, optional
        The blocks after the first, as `scipy.linalg` and PyTorch have them.
    format, dtype : optional
        As in `bmat`.

    Returns
    -------
    A : SparseArray (*batch, m, n), or an array of this shape

    Raises
    ------
    ValueError, TypeError
        As in `bmat`.

    Notes
    -----
    Differentiable in every block, in every mode and order. Cost: that of `bmat`.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.block_diag([ldiv.eye_array(1), 2 * ldiv.eye_array(1, 2)]).toarray()
    array([[1., 0., 0.],
           [0., 2., 0.]])
    """
    if 0 < len(others) <= 2 and isinstance(others[0], str | None):  # format and dtype, as in SciPy
        format, dtype, others = cast(Any, others[0]), (*others[1:], dtype)[0], ()
    blocks = (mats, *others) if others else _sequence("mats", mats)
    if any(b is None for b in blocks):
        advice = "The size of None is not known."
        raise value_error("mats", "a matrix in every place", "None", advice)
    rows = [[b if i == j else None for j in range(len(blocks))] for i, b in enumerate(blocks)]
    A = _of_blocks(rows, format, dtype)
    return A.toarray() if others else A


@public
def kronsum(A: BlockLike, B: BlockLike, format: Format | None = None) -> SparseArray:
    """The Kronecker sum of two square sparse arrays.

        kronsum(A, B) = I_n x A + B x I_m,    A (m, m), B (n, n)

    Parameters
    ----------
    A : sparse or dense array (*batch, m, m)
        The matrix that is repeated along the diagonal.
    B : sparse or dense array (*batch, n, n)
        The matrix whose entries multiply identities.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "csr" where it is absent.

    Returns
    -------
    C : SparseArray (*batch, m n, m n)

    Raises
    ------
    ValueError
        For matrices that are not square.
    TypeError
        For mixed frameworks, and for matrices whose entries are not stored.

    Notes
    -----
    Differentiable in A and B, in every mode and order.
    Cost: n nnz(A) + m nnz(B) numbers.

    Examples
    --------
    The Laplacian of a square from that of an interval:

    >>> import ldiv, numpy as np
    >>> D = ldiv.diags_array([np.array([2.0]), np.array([-1.0]), np.array([-1.0])],
    ...                      offsets=[0, 1, -1], shape=(2, 2))
    >>> ldiv.kronsum(D, D).toarray()
    array([[ 4., -1., -1.,  0.],
           [-1.,  4.,  0., -1.],
           [-1.,  0.,  4., -1.],
           [ 0., -1., -1.,  4.]])
    """
    a, b = as_sparse("A", A), as_sparse("B", B)
    require_square("A", a.structure.shape)
    require_square("B", b.structure.shape)
    m, n = a.structure.shape[0], b.structure.shape[0]
    values = _joined([a, b])
    rows, cols = (
        np.concatenate(
            [
                (np.arange(n)[:, None] * m + i.astype(np.int64)).ravel(),
                (j.astype(np.int64)[:, None] * m + np.arange(m)).ravel(),
            ]
        )
        for i, j in zip(a.coords, b.coords, strict=True)
    )
    source = np.concatenate([np.tile(np.arange(a.nnz), n), a.nnz + np.repeat(np.arange(b.nnz), m)])
    once, place = canonical((rows, cols), (m * n, m * n))
    if once is None or place is None:
        place = np.arange(len(source))
    else:
        rows, cols = once.pattern.rows, once.pattern.cols
    rule = gathering(source, place, (len(rows), a.nnz + b.nnz))
    return sparse_at(gather(rule, values), rows, cols, (m * n, m * n), "csr").asformat(format)


def _sequence(name: str, blocks: Any) -> list[Any]:
    if not isinstance(blocks, tuple | list) or not blocks:
        raise value_error(name, "a sequence of matrices", shown(blocks), "Write [A, B].")
    return list(blocks)


def _of_blocks(
    blocks: Any, format: Format | None, dtype: Any, ordered: Format | None = None
) -> SparseArray:
    A = _assembled(grid_of(blocks, as_sparse), ordered).asformat(format)
    return A if dtype is None else A.astype(dtype)


def _assembled(grid: Grid[SparseArray], ordered: Format | None = None) -> SparseArray:
    """All entries at their places; `ordered`: the format whose order the concatenation keeps."""
    tops, lefts = ([0, *accumulate(sizes)] for sizes in (grid.heights, grid.widths))
    rows = [b.row.astype(np.int64) + tops[i] for (i, _), b in grid.blocks.items()]
    cols = [b.col.astype(np.int64) + lefts[j] for (_, j), b in grid.blocks.items()]
    parts = list(grid.blocks.values())
    kept = ordered if ordered and all(b.format == ordered for b in parts) else "coo"
    shape = tops[-1], lefts[-1]
    return sparse_at(_joined(parts), np.concatenate(rows), np.concatenate(cols), shape, kept)


def _joined(parts: Sequence[SparseArray]) -> Array:
    """The values of all parts, one behind the other, on common batch axes.

    Constants of NumPy come in the framework of the others.
    """
    batch: tuple[int, ...] = ()
    every = [part.values for part in parts]
    like = next((v for v in every if not isinstance(v, np.ndarray)), every[0])
    every = [moved(v, like) for v in every]
    for values in every:
        together("a block", values, every[0])
        require_batches("a block", batch, batch_of(values, 1))
        batch = broadcast(batch, batch_of(values, 1))
    wide = common_dtype(*every)
    return namespace(every[0]).concat([spread(v, batch, 1) for v in wide], axis=-1)
