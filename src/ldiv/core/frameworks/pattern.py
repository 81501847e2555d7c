"""A sparsity pattern: entries (row, column) in the user's order, and their slots in CSC form.

    slots[s] = sum of p[e] over all entries e at the position of slot s

Slots are sorted by column, then by row; duplicate entries share one. All of this depends on indices
alone, never on values: explicit zeros stay.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import _sparsetools

from ldiv.core.cached_property import cached_property

Index = np.ndarray[Any, np.dtype[Any]]
Values = np.ndarray[Any, Any]


class Pattern:
    """Entries (rows, cols) of a matrix. Immutable, hashed once, compared by content.

    The arrays are not flagged read-only, since PyTorch would warn when it borrows them.
    """

    def __init__(self, rows: Index, cols: Index, shape: tuple[int, int]) -> None:
        kind = np.int32 if max(*shape, len(rows)) < 2**31 else np.int64
        self.rows: Index
        self.cols: Index
        self.rows, self.cols = (np.array(i, dtype=kind) for i in (rows, cols))
        self.shape = shape

    @cached_property
    def places(self) -> tuple[Index, Index]:
        """Rows and columns as intp, with which NumPy gathers fastest."""
        return self.rows.astype(np.intp), self.cols.astype(np.intp)

    @property
    def nnz(self) -> int:
        return len(self.rows)

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, hash(self.rows.tobytes()), hash(self.cols.tobytes())))

    @cached_property
    def digest(self) -> str:
        """A name for the pattern, the same in every process."""
        whole = (np.asarray(i, np.int64).tobytes() for i in (self.shape, self.rows, self.cols))
        return sha256(b"".join(whole)).hexdigest()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        """Shape, entries and digest: these tell patterns apart where JAX says that trees differ."""
        return f"<Pattern {self.shape}, nnz={self.nnz}, {self.digest[:8]}>"

    def __getstate__(self) -> dict[str, Any]:
        """The state without caches: these are made again, and the hashes of bytes differ by process."""
        return {"rows": self.rows, "cols": self.cols, "shape": self.shape}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Pattern)
            and self.shape == other.shape
            and hash(self) == hash(other)
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.cols, other.cols)
        )

    @cached_property
    def _sorted(self) -> tuple[Any, Index | None, Index | None]:
        """(CSC matrix of ones, order, starts): slots = add.reduceat(p[order], starts).

        `order` or `starts` is None if that step changes nothing.
        """
        if self._is_in_order():
            return self._of_ones(self.rows, _starts(self.cols, self.shape[1])), None, None
        # the numbers of the entries as values, which SciPy sorts into CSC
        numbered = sp.coo_array(
            (np.arange(1, self.nnz + 1, dtype=self.rows.dtype), (self.rows, self.cols)),
            shape=self.shape,
        )
        # declared canonical, or the conversion would sum the entry numbers of duplicates
        numbered.has_canonical_format = True
        csc = numbered.tocsc()
        csc.has_sorted_indices = csc.has_canonical_format = False
        csc.sort_indices()
        order = csc.data - 1
        column = np.repeat(np.arange(self.shape[1], dtype=self.cols.dtype), np.diff(csc.indptr))
        # the first entry of each slot; the entries of one slot are adjacent
        fresh = np.ones(self.nnz, dtype=bool)
        fresh[1:] = (csc.indices[1:] != csc.indices[:-1]) | (column[1:] != column[:-1])
        starts, indices, indptr = None, csc.indices, csc.indptr
        if not fresh.all():
            starts, indices = np.flatnonzero(fresh), indices[fresh]
            indptr = np.concatenate([[0], np.cumsum(fresh)])[indptr]
        indices, indptr = (x.astype(self.rows.dtype, copy=False) for x in (indices, indptr))
        in_order = bool((order[1:] > order[:-1]).all())
        return self._of_ones(indices, indptr), None if in_order else order, starts

    def _is_in_order(self) -> bool:
        """Whether the entries are sorted by column, then by row, each position once."""
        rows, cols = self.rows, self.cols
        later = cols[1:] > cols[:-1]
        later |= (cols[1:] == cols[:-1]) & (rows[1:] > rows[:-1])
        return bool(later.all())

    def _of_ones(self, indices: Index, indptr: Index) -> Any:
        """A matrix of one-byte ones, which shares these arrays; `csc` puts values in their place."""
        ones = sp.csc_array((np.ones(len(indices), bool), indices, indptr), shape=self.shape)
        ones.has_sorted_indices = ones.has_canonical_format = True
        return ones

    @property
    def indptr(self) -> Index:
        result: Index = self._sorted[0].indptr
        return result

    @property
    def indices(self) -> Index:
        result: Index = self._sorted[0].indices
        return result

    @property
    def slots(self) -> int:
        """The number of different positions."""
        return len(self.indices)

    @property
    def are_slots(self) -> bool:
        """Whether the entries are the slots, in the same order."""
        return self._sorted[1] is None and self._sorted[2] is None

    @property
    def has_duplicates(self) -> bool:
        return self._sorted[2] is not None

    @cached_property
    def columns(self) -> Index:
        """The column of every slot."""
        if self.are_slots:
            return self.cols
        return np.repeat(np.arange(self.shape[1], dtype=self.indices.dtype), np.diff(self.indptr))

    @cached_property
    def has_diagonal(self) -> bool:
        """Whether a square pattern has all entries of the diagonal."""
        return np.count_nonzero(self.indices == self.columns) == self.shape[0]

    @cached_property
    def slot(self) -> Index:
        """The slot of every entry."""
        _, order, starts = self._sorted
        number = np.arange(self.nnz)
        if starts is not None:
            number = np.searchsorted(starts, number, side="right") - 1
        if order is None:
            return number
        slot = np.empty_like(number)
        slot[order] = number
        return slot

    def slot_values(self, p: Values) -> Values:
        """(*batch, nnz) -> (*batch, slots), duplicates added up."""
        _, order, starts = self._sorted
        if order is not None:
            p = p.take(order, axis=-1)
        return p if starts is None else np.add.reduceat(p, starts, axis=-1)

    def csc(self, slots: Values) -> Any:
        """The scipy.sparse matrix with these values in its slots."""
        matrix = object.__new__(sp.csc_array)
        vars(matrix).update(vars(self._sorted[0]), data=slots)  # shares the validated index arrays
        return matrix

    @cached_property
    def _factor_of_products(self) -> tuple[Any, bool]:
        """(matrix of ones, whether its entries are those of the user, as they are): compressed rows
        or columns where the entries come row by row or column by column, else CSC of the slots.
        """
        (m, n), rows, cols = self.shape, self.rows, self.cols
        for kind, i, j, size in ((sp.csr_array, rows, cols, m), (sp.csc_array, cols, rows, n)):
            if bool((i[1:] >= i[:-1]).all()):
                of_ones = (np.ones(self.nnz, bool), j, _starts(i, size))
                return kind(of_ones, shape=self.shape), True
        return self._sorted[0], False

    def factor_values(self, p: Values) -> Values:
        """(*batch, nnz) -> the values that `product` takes."""
        return p if self._factor_of_products[1] else self.slot_values(p)

    def product(self, values: Values, x: Values, transposed: bool) -> Values:
        """A x or A^T x for x (n, k) and the matrix A of these `factor_values`; for those of a batch
        (count, size) the members of x are below each other.
        """
        of_ones, _ = self._factor_of_products
        (m, n), indptr, indices = self.shape, of_ones.indptr, of_ones.indices
        by_rows = isinstance(of_ones, sp.csr_array)
        if values.ndim == 2:  # a block diagonal matrix
            count, size = values.shape
            which = np.arange(count, dtype=indices.dtype)[:, None]
            indices = (which * (n if by_rows else m) + indices).ravel()
            indptr = np.append(which * size + indptr[:-1], count * size).astype(indices.dtype)
            values, m, n = values.ravel(), count * m, count * n
        shape = (n, m) if transposed else (m, n)
        return product_by(by_rows != transposed, shape, indptr, indices, values, x)

    @cached_property
    def row_by_row(self) -> tuple[Index, Index, Index]:
        """(order, starts, rows): in p[order] the entries of each of these rows, the ones that have any,
        are adjacent.
        """
        order = np.argsort(self.rows, kind="stable")
        rows, starts = np.unique(self.rows[order], return_index=True)
        return order, starts, rows

    @cached_property
    def is_full(self) -> bool:
        """Whether the pattern has all entries of the matrix, row by row."""
        (i, j), n = self.places, self.shape[1]
        return self.nnz == self.shape[0] * n and bool((i * n + j == np.arange(self.nnz)).all())

    @cached_property
    def transposition(self) -> Index | None:
        """t with slot t[s] the mirror image of slot s; None if the pattern is unsymmetric."""
        return self._transposed()

    def _transposed(self) -> Index | None:
        m, n = self.shape
        if m != n:
            return None
        # converting CSR to CSC transposes: the slot numbers end up at their mirror images
        mirror = sp.csr_array(
            (np.arange(self.slots, dtype=self.indices.dtype), self.indices, self.indptr),
            shape=self.shape,
        ).tocsc()
        same = np.array_equal(mirror.indptr, self.indptr) and np.array_equal(
            mirror.indices, self.indices
        )
        return mirror.data if same else None

    @cached_property
    def triangles(self) -> tuple[Index, Index] | None:
        """The slots below the diagonal of a symmetric pattern, and their mirror images, without
        `transposition`, which takes more memory; None if the pattern is unsymmetric.
        """
        if (mirror := self._transposed()) is None:
            return None
        below = np.flatnonzero(self.indices > self.columns).astype(self.indices.dtype)
        return below, mirror[below]

    @cached_property
    def mirror(self) -> Index | None:
        """An entry at the mirrored position of each entry; None if the pattern is unsymmetric."""
        if self.transposition is None:
            return None
        first = np.empty(self.slots, dtype=np.intp)
        first[self.slot] = np.arange(self.nnz)
        return first[self.transposition[self.slot]]

    @property
    def canonical(self) -> Pattern:
        """The same positions, each once, in the order of the slots."""
        return Pattern(self.indices, self.columns, self.shape)


def product_by(
    rows: bool, shape: tuple[int, int], indptr: Index, indices: Index, values: Values, x: Values
) -> Values:
    """A x for x (n, k), of compressed rows or columns of A.

    By the loops of scipy.sparse, whose matrix objects take longer to make than to multiply.
    """
    sizes, own = (len(x), len(values), len(indptr)), (shape[1], len(indices), shape[not rows] + 1)
    if sizes != own:  # the loops would read beyond their ends
        raise ValueError(f"x, values and indptr: expected {own} numbers, got {sizes}")
    k, dtype = x.shape[1], np.result_type(values, x)
    values, x = np.ascontiguousarray(values, dtype), np.ascontiguousarray(x, dtype)
    y = np.zeros((shape[0], k), dtype)
    if k == 1:
        add = _sparsetools.csr_matvec if rows else _sparsetools.csc_matvec
        add(*shape, indptr, indices, values, x[:, 0], y[:, 0])
    elif y.size:
        add = _sparsetools.csr_matvecs if rows else _sparsetools.csc_matvecs
        add(*shape, k, indptr, indices, values, x.reshape(-1), y.reshape(-1))
    return y


def _starts(i: Index, size: int) -> Index:
    """The starts of the runs of 0 to size - 1 in sorted indices, and their end."""
    count = np.bincount(i, minlength=size)
    return np.concatenate([[0], np.cumsum(count)]).astype(i.dtype)
