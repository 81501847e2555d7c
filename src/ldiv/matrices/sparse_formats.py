"""Formats: the order in which the entries of a sparse array are stored, and dense arrays.

    csr    entries indptr[i] .. indptr[i + 1] - 1 are those of row i, in the columns `indices`
    csc    the same with rows and columns exchanged
    coo    any order

A format is a property of the pattern: a conversion moves the values, differentiably.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from ldiv.core.arrays.shapes import clone
from ldiv.core.arrays.validate import require_flag, require_int, require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import asnumpy, namespace, traced
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import shown, value_error
from ldiv.matrices import sparse_indexing
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_values import TRANSPOSED, SparseValues, read_only
from ldiv.rules.gather import add_up, adding_up, gather, selecting

_AXIS = {"csr": 0, "csc": 1}  # along which lines a format is compressed


class Formats(SparseValues):
    """Conversions, and the arrays of compressed formats."""

    @public
    def asformat(self, format: Format | None, copy: bool = False) -> Self:
        """The same matrix in another format, "coo", "csr" or "csc"; differentiable.

        As in SciPy the duplicates of "coo" are added up on the way to the other two.
        """
        require_flag("copy", copy)
        if format is None or require_option("format", format, tuple(TRANSPOSED)) == self.format:
            return self.copy() if copy else self
        if format == "coo":
            return self._relabelled(format, copy)
        at, shape, axis = self._at, self.structure.shape, _AXIS[format]
        if self.format == "coo":
            once, place = self.structure.cached(
                ("canonical", axis), lambda: sparse_indexing.canonical(at, shape, axis)
            )
            if once is None or place is None:
                return self._relabelled(format, copy)
            return self._on(once, add_up(self.values, place, once.pattern.nnz), format)
        lines, order = self.structure.cached(
            ("lines", axis), lambda: sparse_indexing.by_lines(at, shape, axis)
        )
        if lines is None or order is None:
            return self._relabelled(format, copy)
        return self._on(lines, gather(selecting(order, self.nnz), self.values), format)

    def _relabelled(self, format: Format, copy: bool) -> Self:
        same = type(self)(self.structure, self.data, format)
        return same.copy() if copy else same

    def tocoo(self, copy: bool = False) -> Self:
        """The same entries in coordinate format."""
        return self.asformat("coo", copy)

    def tocsr(self, copy: bool = False) -> Self:
        """The matrix in compressed rows; differentiable."""
        return self.asformat("csr", copy)

    def tocsc(self, copy: bool = False) -> Self:
        """The matrix in compressed columns; differentiable."""
        return self.asformat("csc", copy)

    def _compressed(self) -> tuple[Index, Index]:
        """The lines of the entries, which ascend, and their places in them."""
        axis = _AXIS.get(self.format)
        if axis is None:
            raise AttributeError  # and `__getattr__` says what to do
        line, place = self._at[axis], self._at[1 - axis]
        if (line[1:] < line[:-1]).any():
            raise value_error(
                f"a SparseArray in {self.format}",
                f"entries in the order of their {('row', 'column')[axis]}s",
                "another order",
                "Make it with format='coo', and convert it.",
            )
        return line, place

    @property
    def indices(self) -> Index:
        """The column of every entry in csr, the row in csc; on the host, read-only."""
        return read_only(self._compressed()[1])

    @property
    def indptr(self) -> Index:
        """The beginning of each row in csr, of each column in csc; on the host."""
        line, _ = self._compressed()
        return sparse_indexing.starts(line, self.structure.shape[_AXIS[self.format]])

    @property
    def has_canonical_format(self) -> bool:
        """Whether every position is stored once, in order: by rows, or in csc by columns."""
        at, shape, axis = self._at, self.structure.shape, _AXIS.get(self.format, 0)
        once, _ = self.structure.cached(
            ("canonical", axis), lambda: sparse_indexing.canonical(at, shape, axis)
        )
        return once is None

    @public
    def reshape(self, *shape: Any, order: str = "C", copy: bool = False) -> Self:
        """The same entries, counted row by row, or with order="F" column by column, in another
        shape; one size may be -1. Batch axes stay. Differentiable.
        """
        require_option("order", order, ("C", "F"))
        require_flag("copy", copy)
        (m, n), (rows, cols) = self.structure.shape, _new_shape(self.structure.shape, shape)
        i, j = (x.astype(np.int64) for x in self._at)
        if order == "C":
            i, j = np.divmod(i * n + j, max(cols, 1))
        else:
            j, i = np.divmod(j * m + i, max(rows, 1))
        moved = self._on(sparse_indexing.structure_at(i, j, (rows, cols)), self.values, "coo")
        return moved.asformat(self.format)

    def sorted_indices(self) -> Self:
        """The entries in order: by rows, in csc by columns; duplicates stay. Differentiable."""
        major = _AXIS.get(self.format, 0)
        order = np.lexsort((self._at[1 - major], self._at[major]))
        return self._kept(order, self.format)

    @public
    def eliminate_zeros(self) -> Self:
        """The entries that are not zero, duplicates added up: a NEW pattern, found from the values.

        A new array, where SciPy changes the old one. Its entries keep their derivatives; those that
        are left out have none. A loop in which zeros come and go meets a new pattern each time,
        with its own ordering and symbolic work: keep the zeros there.
        """
        once = self._unique()
        if once.batch or traced(once.data):
            raise value_error(
                "eliminate_zeros",
                "one matrix whose values are known",
                f"a batch {once.batch}" if once.batch else "values that are being traced",
                "Its pattern would depend on them: keep the zeros.",
            )
        kept = np.flatnonzero(asnumpy(once.values))
        if len(kept) == once.nnz:
            return once
        return once._kept(kept, self.format)

    # -- to arrays, and to SciPy -------------------------------------------------------------------

    @public
    def toarray(self) -> Any:
        """The dense array (*batch, m, n); differentiable."""
        m, n = self.structure.shape
        flat = self._gathered(
            "dense", lambda: adding_up(self._at[0].astype(np.int64) * n + self._at[1], m * n)
        )
        return namespace(flat).reshape(flat, (*self.batch, m, n))

    def todense(self) -> Any:
        """The dense array (*batch, m, n); differentiable."""
        return self.toarray()

    def to_scipy(self) -> Any:
        """A scipy.sparse array in the same format, of copies, without derivatives; no batch."""
        if self.batch:
            raise value_error(
                "to_scipy", "one matrix", f"a batch {self.batch}", "Convert them one at a time."
            )
        values = np.array(asnumpy(self.values))
        if self.format == "coo":
            at = self._at[0].copy(), self._at[1].copy()
            return scipy.sparse.coo_array((values, at), shape=self.structure.shape)
        kind = scipy.sparse.csr_array if self.format == "csr" else scipy.sparse.csc_array
        return kind((values, self.indices.copy(), self.indptr), shape=self.structure.shape)

    def copy(self) -> Self:
        """The same pattern, which never changes, with a copy of the values in the same graph."""
        return self._with(clone(self.data))


def _new_shape(old: tuple[int, int], given: tuple[Any, ...]) -> tuple[int, int]:
    """The shape that `reshape` is asked for, with as many places as there are."""
    shape = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if len(shape) != 2:
        advice = "A vector has no rows: A.toarray().reshape(-1), or A.reshape(1, -1)."
        raise value_error("shape", "two sizes", shown(shape), advice)
    sizes, total = [require_int("shape", n, -1) for n in shape], old[0] * old[1]
    if total > np.iinfo(np.int64).max:
        advice = "Its places have no numbers: make the new rows and columns yourself."
        raise value_error("reshape", "at most 2^63 places", total, advice)
    if sizes.count(-1) == 1:
        other = max(sizes)
        sizes[sizes.index(-1)] = total // other if other > 0 else -1
    if min(sizes) < 0 or sizes[0] * sizes[1] != total:
        came = f"{tuple(shape)} for {old}"
        raise value_error("shape", "a shape with as many places", came, "Count them.")
    return sizes[0], sizes[1]
