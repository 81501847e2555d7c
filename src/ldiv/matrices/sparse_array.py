"""SparseArray: values on a sparsity pattern, with the methods of scipy.sparse's arrays.

Everything is differentiable in the values. The pattern is fixed when the array is made and never
depends on values: explicit zeros are stored, duplicates add up. One idea per file:

    sparse_values         the entries, and views of them
    sparse_storage        their dtype, device and graph
    sparse_formats        coo, csr, csc, dense
    sparse_selection      A[rows, columns], diagonals
    sparse_arithmetic     sums and products
    sparse_elementwise    functions that keep 0
    sparse_reductions     sums and counts
    sparse_extremes       the largest and the smallest
    sparse_indexing       the arithmetic of indices behind all these
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, numpy_dtype
from ldiv.core.arrays.validate import require_float
from ldiv.core.calls.call import parts_of
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_array, namespace
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.matrices.entries import Format, coordinates
from ldiv.matrices.matrix import Matrix, flatten, unflatten
from ldiv.matrices.sparse_arithmetic import Arithmetic
from ldiv.matrices.sparse_elementwise import Elementwise
from ldiv.matrices.sparse_extremes import Extremes
from ldiv.matrices.sparse_formats import Formats
from ldiv.matrices.sparse_indexing import structure_at
from ldiv.matrices.sparse_reductions import Reductions
from ldiv.matrices.sparse_selection import Selection
from ldiv.matrices.sparse_storage import Storage
from ldiv.structures.sparse import Sparse


def from_stored(
    data: Array, rows: bytes, cols: bytes, kind: str, shape: tuple[int, int], op: str, format: Any
) -> SparseArray:
    """Rebuild an array from the parts that `SparseArray.__reduce__` gave, which a file may have changed."""
    at = [np.frombuffer(x, np.dtype(kind)) for x in (rows, cols)]
    _, i, j, shape, _ = coordinates("", data, at, shape)
    return SparseArray(Sparse(Pattern(i, j, shape)).view(op), data, format)


def _packed(static: Any) -> bytes:
    """All but the values, for exported programs: a line of JSON, the rows, the columns."""
    parts: Any = unflatten(SparseArray, static, (None,)).__reduce__()
    _, rows, cols, *head = parts[1]
    return json.dumps(head).encode() + b"\n" + rows + cols


def _unpacked(stored: bytes) -> Any:
    head, places = stored.split(b"\n", 1)
    kind, *rest = json.loads(head)
    half = len(places) // 2
    values = np.zeros(half // np.dtype(kind).itemsize)
    return flatten(from_stored(values, places[:half], places[half:], kind, *rest))[1]


class SparseArray(Storage, Formats, Selection, Arithmetic, Elementwise, Reductions, Extremes):
    """A sparse matrix whose values are an array of the user's framework, of shape (*batch, nnz).

    Made by `coo_array`, `csr_array`, `csc_array`, `diags_array`, `eye_array` and `asarray`.

    Parameters
    ----------
    structure : ldiv.structures.Sparse, or a view of it
        The pattern.
    data : array (*batch, nnz)
        The values, in the order of the pattern.
    format : {"coo", "csr", "csc"}, default "coo"
        The format in which the entries are ordered.

    Notes
    -----
    Methods have the names, arguments and defaults of scipy.sparse's arrays: `*` is the product
    entry by entry, `@` that of matrices. Differentiable in `.data`, in every mode: `@` with
    vectors, blocks and sparse matrices; `+ - * /` with scalars, arrays and sparse arrays of the
    same or another pattern. Differentiable, too, are `A[rows, columns]`, `A.diagonal()`,
    `A.trace()`, `.sum(axis)`, `.mean()`, `.max(axis)`; `.tocsr()` and other formats, `.toarray()`;
    `abs(A)`, `A ** 2`, `.sin()` and other functions that keep 0. Every cotangent has nnz numbers.
    What changes an array in SciPy returns a new one: `sum_duplicates`, `eliminate_zeros`,
    `ldiv.setdiag(A, values)`.
    The constructors and `with_data` copy values of NumPy; `data` given here is taken as it is, and
    so is what `A.data` returns: writing to it changes A and its views.
    Axes and indices are those of the matrix; batch axes come before them, and stay.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.coo_array((np.array([2.0, 3.0, 1.0]), ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
    >>> A
    <SparseArray (2, 2) float64, nnz=3 (75%), coo, numpy>
    >>> A @ np.array([1.0, 1.0])
    array([2., 4.])
    >>> (A + 2 * A.T).toarray()
    array([[6., 2.],
           [1., 9.]])
    >>> A.with_data(np.array([1.0, 1.0, 0.0])).diagonal()
    array([1., 1.])
    >>> A[1], A[[1]].toarray()
    (array([1., 3.]), array([[1., 3.]]))
    >>> print(A)
    SparseArray
    shape      (2, 2)
    nnz        3
    density    75%
    dtype      float64
    format     coo
    framework  numpy
    """

    _packing = _packed, _unpacked

    def _table(self) -> dict[str, str]:
        """The facts about the array that do not depend on its values."""
        m, n = self.structure.shape
        known = is_array(self.data)  # else a leaf of somebody's tree
        return {
            "shape": str(self.shape if known else (m, n)),
            "nnz": str(self.nnz),
            "density": f"{100 * self.nnz / max(m * n, 1):.3g}%",
            "dtype": str(numpy_dtype(self.data)) if known else repr(self.data),
            "format": self.format,
            "framework": frontend_of(self.data).__name__.rpartition(".")[2] if known else "none",
        }

    def __repr__(self) -> str:
        says = self._table()
        return (
            f"<SparseArray {says['shape']} {says['dtype']}, nnz={says['nnz']} ({says['density']}), "
            f"{says['format']}, {says['framework']}>"
        )

    def __str__(self) -> str:
        lines = (f"{name:<11}{value}" for name, value in self._table().items())
        return "\n".join(["SparseArray", *lines])

    def __reduce__(self) -> tuple[Any, ...]:
        """The values, and the places as bytes: what readers of files take that call nothing."""
        base, op = self.structure.unview()
        pattern: Any = base.pattern
        kind = f"<i{pattern.rows.itemsize}"
        places = (x.astype(kind, copy=False).tobytes() for x in (pattern.rows, pattern.cols))
        return from_stored, (self.data, *places, kind, pattern.shape, op, self.format)

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        rows = (
            f"<tr><th>{name}</th><td>{escape(value)}</td></tr>"
            for name, value in self._table().items()
        )
        return f"<table><caption>SparseArray</caption>{''.join(rows)}</table>"


parts_of[SparseArray] = parts_of[Matrix]


def sparse_at(
    values: Array, rows: Index, cols: Index, shape: tuple[int, int], format: Format
) -> SparseArray:
    """Values at these positions, which are valid and in the order of the format."""
    return SparseArray(structure_at(rows, cols, shape), values, format)


def moved_like(A: SparseArray, like: Any) -> SparseArray:
    """The values as constants of the framework, dtype and device of `like`, if there is one."""
    if like is None:
        return A
    require_float("like", like)
    return A.with_data(namespace(like).asarray(A.data, **alike(like)))


def on_a_pattern(matrix: Matrix) -> SparseArray | None:
    """The matrix as a SparseArray, if its structure is a sparsity pattern or a view of one."""
    if isinstance(matrix, SparseArray):
        return matrix
    if not isinstance(matrix.structure.unview()[0], Sparse):
        return None
    return SparseArray(matrix.structure, matrix.params)
