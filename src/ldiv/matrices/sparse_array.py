"""SparseArray: values on a sparsity pattern, with operators that act on the values.

Everything is differentiable in the values. The pattern is fixed when the array is made and never
depends on values: explicit zeros are stored, duplicates add up.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import scipy.sparse

from ldiv.core.arrays import conj, numpy_dtype, take
from ldiv.core.dispatch import asnumpy, frontend_of, is_array, namespace
from ldiv.core.public import public
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Array
from ldiv.core.typing import AnyArray, ArrayT
from ldiv.core.validate import (
    require_float,
    require_int,
    require_numbers,
    require_option,
    require_ours,
    require_scalar,
)
from ldiv.errors import expected_got, shown
from ldiv.matrices import sparse_indexing
from ldiv.matrices.entries import require_values
from ldiv.matrices.matrix import NUMBERS, Matrix, MatrixLike
from ldiv.rules.scatter import add_up
from ldiv.structures.sparse import Sparse

Index = np.ndarray[Any, np.dtype[Any]]
Format = Literal["coo", "csr", "csc"]
_TRANSPOSED: dict[Format, Format] = {"coo": "coo", "csr": "csc", "csc": "csr"}


class SparseArray(Matrix):
    """A sparse matrix whose values are an array of the user's framework, of shape (*batch, nnz).

    Made by `coo_array`, `csr_array`, `csc_array`, `diags_array`, `eye_array` and `asarray`.

    Parameters
    ----------
    structure : ldiv.structures.Sparse, or a view of it
        The pattern.
    data : array (*batch, nnz)
        The values, in the order of the pattern.
    format : {"coo", "csr", "csc"}, default "coo"
        The format in which the entries were given, for `repr`.

    Notes
    -----
    Differentiable in `.data`, in every mode: `@` with vectors, blocks and sparse matrices; `+ - *
    /` with scalars, arrays and sparse arrays of the same or another pattern; `.diagonal()`,
    `.sum(axis)`, `.toarray()`. Every cotangent has nnz numbers.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.coo_array((np.array([2.0, 3.0, 1.0]), ([0, 1, 1], [0, 1, 0])), shape=(2, 2))
    >>> A
    <SparseArray (2, 2) float64, nnz=3, coo>
    >>> A @ np.array([1.0, 1.0])
    array([2., 4.])
    >>> (A + 2 * A.T).toarray()
    array([[6., 2.],
           [1., 9.]])
    >>> A.with_data(np.array([1.0, 1.0, 0.0])).diagonal()
    array([1., 1.])
    """

    structure: Structure
    _dense = "A.toarray()"

    def __init__(self, structure: Structure, data: Array, format: Format = "coo") -> None:
        if not isinstance(structure, Structure) or not isinstance(structure.unview()[0], Sparse):
            raise TypeError(
                expected_got(
                    "structure",
                    "ldiv.structures.Sparse, or a view of it",
                    shown(structure),
                    "Make the array with ldiv.coo_array.",
                )
            )
        require_option("format", format, tuple(_TRANSPOSED))
        data = require_float("values", data)
        require_values("values", data, self._base(structure).pattern.nnz)
        super().__init__(structure, data)
        self.format: Format = format

    @staticmethod
    def _base(structure: Structure) -> Sparse:
        base = structure.unview()[0]
        assert isinstance(base, Sparse)
        return base

    @property
    def data(self) -> Array:
        """The values, in the order in which the entries were given."""
        return self.params

    @property
    def nnz(self) -> int:
        """The number of stored entries, explicit zeros and duplicates included."""
        return self._base(self.structure).pattern.nnz

    @property
    def row(self) -> Index:
        """The row of every entry, on the host, read-only."""
        return _read_only(self._at[0])

    @property
    def col(self) -> Index:
        """The column of every entry, on the host, read-only."""
        return _read_only(self._at[1])

    @property
    def _at(self) -> tuple[Index, Index]:
        """Rows and columns of this view of the pattern."""
        pattern = self._base(self.structure).pattern
        return (
            (pattern.cols, pattern.rows)
            if VIEWS[self.structure.unview()[1]][0]
            else (pattern.rows, pattern.cols)
        )

    @property
    def values(self) -> Array:
        """The values at (row, col): `.data`, conjugated in a conjugate view."""
        return conj(self.data) if VIEWS[self.structure.unview()[1]][1] else self.data

    def __repr__(self) -> str:
        return f"<SparseArray {self.shape} {numpy_dtype(self.data)}, nnz={self.nnz}, {self.format}>"

    # -- the same pattern --------------------------------------------------------------------------

    def with_data(self, values: Array) -> SparseArray:
        """The same pattern with new values (*batch, nnz); orderings and symbolic work are kept.

        The way to change values in a loop. In a view (`A.T`, `A.H`) the values are those of the
        array that it views.
        """
        return SparseArray(self.structure, values, self.format)

    @property
    def T(self) -> SparseArray:
        """The transpose, on the same values."""
        return self._view("T")

    @property
    def H(self) -> SparseArray:
        """The conjugate transpose, on the same values."""
        return self._view("H")

    def conj(self) -> SparseArray:
        """The complex conjugate, on the same values."""
        return self._view("C")

    def _view(self, op: str) -> SparseArray:
        return SparseArray(
            self.structure.view(op),
            self.data,
            _TRANSPOSED[self.format] if VIEWS[op][0] else self.format,
        )

    def _like(self, values: Array) -> SparseArray:
        """The same pattern with new values at (row, col)."""
        return self.with_data(conj(values) if VIEWS[self.structure.unview()[1]][1] else values)

    def astype(self, dtype: Any) -> SparseArray:
        """The values in another dtype of their framework."""
        return self.with_data(namespace(self.data).astype(self.data, dtype))

    def __neg__(self) -> SparseArray:
        return self.with_data(-self.data)

    # -- to dense arrays ---------------------------------------------------------------------------

    def toarray(self) -> Array:
        """The dense array (*batch, m, n); differentiable."""
        m, n = self.structure.shape
        flat = add_up(self.values, self.row.astype(np.int64) * n + self.col, m * n)
        return namespace(flat).reshape(flat, (*self.batch, m, n))

    def diagonal(self, k: int = 0) -> Array:
        """The k-th diagonal (*batch, length), zero where nothing is stored; differentiable."""
        (m, n), k = self.structure.shape, require_int("k", k)
        on = np.flatnonzero(self.col.astype(np.int64) - self.row == k)
        return add_up(
            take(self.values, on),
            self.row[on] + min(k, 0),
            max(min(m + min(k, 0), n - max(k, 0)), 0),
        )

    def sum(self, axis: int | None = None) -> Array:
        """The sum of all entries, of each column (axis=0) or each row (axis=1); differentiable."""
        m, n = self.structure.shape
        if axis is None:
            return namespace(self.data).sum(self.values, axis=-1)
        axis = require_int(
            "axis", axis, -2, 1, what="None, 0 or 1", advice="Batch axes are summed on the result."
        )
        return (
            add_up(self.values, self.col, n)
            if axis in (0, -2)
            else add_up(self.values, self.row, m)
        )

    def to_scipy(self) -> scipy.sparse.coo_array:
        """A scipy.sparse.coo_array of the values, without derivatives; one matrix, no batch."""
        if self.batch:
            raise ValueError(
                expected_got(
                    "to_scipy", "one matrix", f"a batch {self.batch}", "Convert them one at a time."
                )
            )
        return scipy.sparse.coo_array(
            (asnumpy(self.values), (self.row, self.col)), shape=self.shape
        )

    def sum_duplicates(self) -> SparseArray:
        """Every position once, sorted by row; the array itself where that is so already."""
        once, place = self.structure.cached(
            "canonical", lambda: sparse_indexing.canonical(*self._at, self.structure.shape)
        )
        if once is None or place is None:
            return self
        return SparseArray(once, add_up(self.values, place, once.pattern.nnz))

    # -- arithmetic --------------------------------------------------------------------------------

    @overload
    def __add__(self, other: SparseArray | int) -> SparseArray: ...
    @overload
    def __add__(self, other: MatrixLike | complex) -> Matrix: ...
    @public
    def __add__(self, other: Any) -> Any:
        return self._add(other, 1)

    @overload
    def __sub__(self, other: SparseArray | int) -> SparseArray: ...
    @overload
    def __sub__(self, other: MatrixLike | complex) -> Matrix: ...
    @public
    def __sub__(self, other: Any) -> Any:
        return self._add(other, -1)

    def _add(self, other: Any, sign: int) -> Any:
        if isinstance(other, NUMBERS) and other == 0:
            return self
        if not isinstance(other, SparseArray):
            if isinstance(other, Matrix):
                return self._sum(other if sign > 0 else -other)
            require_ours("A + other", other)
            return _refuse_fill(other)
        self._require_same_shape(other)
        if self.structure == other.structure:
            return self.with_data(self.data + sign * other.data)
        union, place = self.structure.cached(
            ("union", other.structure),
            lambda: sparse_indexing.union(self._at, other._at, self.structure.shape),
        )
        a, b = _same_batch(self.values, sign * other.values)
        return SparseArray(
            union, add_up(namespace(a).concat([a, b], axis=-1), place, union.pattern.nnz)
        )

    __radd__ = __add__

    def __rsub__(self, other: Any) -> Any:
        return (-self)._add(other, 1)

    @public
    def __mul__(self, other: SparseArray | AnyArray | complex) -> SparseArray:
        if isinstance(other, SparseArray):
            common, a, b = self._common(other)
            return SparseArray(common, a * b)
        return self._like(self.values * self._entries_of(other))

    __rmul__ = __mul__

    @public
    def __truediv__(self, other: SparseArray | AnyArray | complex) -> SparseArray:
        if isinstance(other, NUMBERS) and other == 0:
            raise ValueError(
                expected_got(
                    "A / B", "a B other than 0", shown(other), "No matrix is divided by it."
                )
            )
        if not isinstance(other, SparseArray):
            return self._like(self.values / self._entries_of(other))
        common, a, b = self._common(other)
        if (holes := self.sum_duplicates().nnz - common.pattern.nnz) > 0:
            came = f"{holes} entries of A over none"
            raise ValueError(
                expected_got(
                    "A / B",
                    "a B with an entry wherever A has one",
                    came,
                    "They would be divided by zero.",
                )
            )
        return SparseArray(common, a / b)

    def _common(self, other: SparseArray) -> tuple[Sparse, Array, Array]:
        """The positions that both arrays store, and their values there."""
        self._require_same_shape(other)
        one, two = self.sum_duplicates(), other.sum_duplicates()
        common, i, j = one.structure.cached(
            ("intersection", two.structure),
            lambda: sparse_indexing.intersection(one._at, two._at, self.structure.shape),
        )
        return common, take(one.values, i), take(two.values, j)

    def _entries_of(self, other: Any) -> Any:
        """A scalar, or the entries at (row, col) of a dense array that broadcasts to this shape."""
        if isinstance(other, NUMBERS):
            return require_scalar("the other operand", other, self.data)
        require_ours("the other operand", other)
        if not is_array(other):
            raise TypeError(
                expected_got(
                    "the other operand",
                    "a scalar, an array or a SparseArray",
                    type(other).__name__,
                    "Convert it first.",
                )
            )
        require_numbers("the other operand", other)
        frontend_of(self.data, other)
        if other.ndim == 0:
            return other
        shape = (1, *other.shape) if other.ndim == 1 else tuple(other.shape)
        if any(s not in (1, n) for s, n in zip(shape[-2:], self.structure.shape, strict=True)):
            raise ValueError(
                expected_got(
                    "the other operand",
                    f"a shape that broadcasts to {self.shape}",
                    str(tuple(other.shape)),
                    "Check its axes.",
                )
            )
        other = namespace(other).reshape(other, shape)
        row, col = (i if s > 1 else 0 * i for i, s in zip(self._at, shape[-2:], strict=True))
        return take(
            namespace(other).reshape(other, (*shape[:-2], shape[-2] * shape[-1])),
            row.astype(np.int64) * shape[-1] + col,
        )

    def _require_same_shape(self, other: SparseArray) -> None:
        frontend_of(self.data, other.data)
        if self.structure.shape != other.structure.shape:
            raise ValueError(
                expected_got(
                    "the other operand",
                    f"shape {self.structure.shape}",
                    str(other.structure.shape),
                    "Sparse arrays do not broadcast.",
                )
            )

    @overload  # type: ignore[override]  # a sparse product, more than Matrix says
    def __matmul__(self, other: SparseArray) -> SparseArray: ...
    @overload
    def __matmul__(self, other: Matrix) -> Matrix: ...
    @overload
    def __matmul__(self, other: ArrayT) -> ArrayT: ...
    @public
    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, SparseArray):
            return super().__matmul__(other)
        frontend_of(self.data, other.data)
        (m, k), (l, n) = self.structure.shape, other.structure.shape
        if k != l:
            raise ValueError(
                expected_got("A @ B", f"a B with {k} rows", f"{l}", "The inner sizes must agree.")
            )
        product, i, j, place = self.structure.cached(
            ("product", other.structure),
            lambda: sparse_indexing.product(self._at, other._at, (m, k, n)),
        )
        return SparseArray(
            product,
            add_up(take(self.values, i) * take(other.values, j), place, product.pattern.nnz),
        )


def _read_only(i: Index) -> Index:
    view = i.view()
    view.flags.writeable = False
    return view


def _same_batch(a: Array, b: Array) -> tuple[Array, Array]:
    xp, batch = namespace(a), np.broadcast_shapes(tuple(a.shape[:-1]), tuple(b.shape[:-1]))
    return xp.broadcast_to(a, (*batch, a.shape[-1])), xp.broadcast_to(b, (*batch, b.shape[-1]))


def _refuse_fill(other: Any) -> Any:
    if isinstance(other, NUMBERS) or is_array(other):
        advice = "This sum is dense: add to A.toarray(), or add a multiple of eye_array."
        raise ValueError(
            expected_got("A + other", "a SparseArray or 0", type(other).__name__, advice)
        )
    return NotImplemented
