"""The identity under SciPy's older name."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_int
from ldiv.core.calls.public import public
from ldiv.matrices.diagonals import eye_array
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_array import SparseArray


@public
def identity(
    n: int,
    dtype: DTypeLike = np.float64,
    format: Format | None = None,
    *,
    like: AnyArray | None = None,
) -> SparseArray:
    """The identity matrix as a sparse array.

    Parameters
    ----------
    n : int
        The number of rows, and of columns.
    dtype : dtype, default float64
        float32, float64, complex64 or complex128, for NumPy values.
    format : {"coo", "csr", "csc"}, optional
        The format of the result; "coo" by default.
    like : array, optional
        An array whose framework, dtype and device the values get; `dtype` is then not used.

    Returns
    -------
    I : SparseArray (n, n)

    Raises
    ------
    ValueError
        For negative sizes.
    TypeError
        For other dtypes.

    See Also
    --------
    eye_array

    Notes
    -----
    A constant: differentiable in its `.data`, like every sparse array. Cost: one array of ones.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.identity(2, format="csr").toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    return eye_array(require_int("n", n, 0), dtype=dtype, like=like).asformat(format)
