"""SparseArray: a constant pattern, and its values as a variable of PyTensor."""

from __future__ import annotations

from typing import Any

from pytensor.tensor import as_tensor_variable

from ldiv.errors import type_error, value_error
from ldiv.matrices.construct import asarray
from ldiv.matrices.inverse_entries import plain


class SparseArray:
    """A square sparse matrix whose values are a variable of PyTensor.

        A[row[e], col[e]] = values[e]

    Parameters
    ----------
    pattern : sparse matrix of SciPy, or SparseArray of NumPy, (n, n)
        Says where the entries are, and their order; its own numbers are not read. No entry comes
        twice.
    values : variable, or array (nnz,)
        The numbers, in the order in which the pattern stores its own, of float32 or float64.

    Notes
    -----
    Zeros are entries, too: where the values of a model vanish, the pattern stays.

    Examples
    --------
    >>> import ldiv.pytensor, numpy as np, pytensor.tensor as pt, scipy.sparse as sp
    >>> W = sp.coo_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> pattern, rho = (W + sp.eye_array(3)).tocoo(), pt.dscalar()
    >>> values = pt.where(pattern.row == pattern.col, 2.0, -rho)
    >>> Q = ldiv.pytensor.SparseArray(pattern, values)
    >>> Q.shape, Q.nnz
    ((3, 3), 7)
    """

    def __init__(self, pattern: Any, values: Any) -> None:
        A = asarray(pattern)
        places: Any = A.structure.unview()[0].pattern
        square = A.shape[-2] == A.shape[-1]
        if places.has_duplicates or not square:
            came = "entries that come twice" if square else str(A.shape)
            wanted, advice = "a square matrix, each entry once", "See its sum_duplicates()."
            raise value_error("pattern", wanted, came, advice)
        self.structure: Any = plain(A).structure
        self.values = as_tensor_variable(values)
        if self.values.dtype not in ("float32", "float64") or self.values.ndim != 1:
            wanted, advice = "a vector of real numbers", "A matrix has one number for each entry."
            raise type_error("values", wanted, str(self.values.type), advice)
        if self.values.type.shape[0] not in (None, self.nnz):
            advice = "Give them in the order of the pattern."
            raise value_error("values", f"{self.nnz}", f"{self.values.type.shape[0]}", advice)

    @property
    def shape(self) -> tuple[int, int]:
        return self.structure.shape

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return int(self.row.size)

    @property
    def row(self) -> Any:
        return self.structure.pattern.rows

    @property
    def col(self) -> Any:
        return self.structure.pattern.cols
