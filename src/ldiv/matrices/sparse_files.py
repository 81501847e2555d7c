"""Sparse arrays in files, in SciPy's .npz format."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_flag, require_float
from ldiv.core.calls.public import public
from ldiv.errors import value_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.sparse_array import SparseArray, moved_like


@public
def save_npz(file: Any, matrix: SparseArray | AnyArray, compressed: bool = True) -> None:
    """Write a sparse array to a file, as scipy.sparse.save_npz does.

    Parameters
    ----------
    file : str, path, or file-like object
        Where to write; the name of a file gets the extension `.npz`.
    matrix : SparseArray, or what `asarray` takes
        One matrix, without batch axes, of any framework.
    compressed : bool, default True
        Whether the file is compressed.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        For a batch of matrices.
    TypeError
        For values that are being traced.

    See Also
    --------
    load_npz, scipy.sparse.load_npz : read the file.

    Notes
    -----
    Not differentiable: what is written are numbers. Cost: one copy of them.

    Examples
    --------
    >>> import io, ldiv
    >>> file = io.BytesIO()
    >>> ldiv.save_npz(file, ldiv.eye_array(2))
    >>> _ = file.seek(0)
    >>> ldiv.load_npz(file)
    <SparseArray (2, 2) float64, nnz=2 (50%), coo, numpy>
    """
    theirs = as_sparse("matrix", matrix).to_scipy()
    scipy.sparse.save_npz(file, theirs, compressed=require_flag("compressed", compressed))


@public
def load_npz(file: Any, *, like: AnyArray | None = None) -> SparseArray:
    """Read a sparse array from a file that `save_npz`, or SciPy, has written.

    Parameters
    ----------
    file : str, path, or file-like object
        What to read.
    like : array, optional
        An array whose framework, dtype and device the values get; NumPy's where it is absent.

    Returns
    -------
    A : SparseArray (m, n)
        In the format of the file.

    Raises
    ------
    OSError
        For a file that cannot be read.
    ValueError
        For a file that holds no sparse matrix.
    TypeError
        For other dtypes than those of `asarray`.

    See Also
    --------
    save_npz

    Notes
    -----
    Differentiable in its `.data`, like every sparse array.
    Cost: the indices are checked; nothing is factored.

    Examples
    --------
    >>> import io, ldiv, numpy as np
    >>> file = io.BytesIO()
    >>> ldiv.save_npz(file, ldiv.eye_array(2))
    >>> _ = file.seek(0)
    >>> ldiv.load_npz(file, like=np.zeros(1, np.float32)).dtype
    dtype('float32')
    """
    if like is not None:
        require_float("like", like)
    theirs = scipy.sparse.load_npz(file)
    if theirs.ndim != 2:
        raise value_error("load_npz", "a matrix", f"{theirs.ndim} axes", "Reshape it with SciPy.")
    return moved_like(as_sparse("load_npz", theirs), like)
