"""Values on a sparsity pattern: what all methods of sparse arrays are made of.

    A[i, j] = sum of values[e] over the entries e with row[e] = i, col[e] = j

`data` are the parameters, in the order of the pattern; a view (`A.T`, `A.H`, `A.conj()`) shares
them, and `row`, `col` and `values` are those of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from ldiv.core.arrays.shapes import conj
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import as_float, require_float, require_option, was_validated
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import own
from ldiv.core.frameworks.pattern import Index
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.errors import shown, type_error
from ldiv.matrices import sparse_indexing
from ldiv.matrices.entries import Format, require_values
from ldiv.matrices.matrix import Matrix
from ldiv.rules.gather import Gather, add_up, gather, selecting
from ldiv.structures.sparse import Sparse

TRANSPOSED: dict[Format, Format] = {"coo": "coo", "csr": "csc", "csc": "csr"}

# What users of SciPy and PyTorch look for, and what is here in its place.
_ELSEWHERE = {
    "setdiag": "ldiv.setdiag(A, values, k) returns a new array",
    "resize": "a new array has the new shape: ldiv.coo_array((A.data, (A.row, A.col)), shape)",
    "check_format": "entries are checked when the array is made",
    "prune": "no memory is kept beyond the entries",
    "maxprint": "print(A) is a table of a few lines",
    "tensordot": "write A @ B",
    "nanmax": "write A.max(): functions refuse NaN",
    "nanmin": "write A.min(): functions refuse NaN",
    "has_sorted_indices": "A.sorted_indices() sorts where that is needed",
    "sort_indices": "A.sorted_indices() returns a new array",
    "getrow": "write A[[i]] for a sparse array of one row, A[i] for a vector",
    "getcol": "write A[:, [j]] for a sparse array of one column, A[:, j] for a vector",
    "to_dense": "write A.toarray()",
    "A": "write A.toarray()",
    "numpy": "write A.to_scipy(), or A.toarray()",
    "item": "write A.toarray(), or A.data for the values",
    "solve": "write ldiv.solve(A, b)",
    "inv": "write ldiv.solve(A, b); ldiv.selected_inverse(A) has entries of the inverse",
    "norm": "write ldiv.norm(A)",
    "det": "write ldiv.det(A), or ldiv.slogdet(A)",
    "to_sparse_csr": "write A.tocsr()",
    "coalesce": "write A.sum_duplicates()",
    "indices": "it belongs to compressed rows or columns: A.tocsr().indices",
    "indptr": "it belongs to compressed rows or columns: A.tocsr().indptr",
    "requires_grad": "it belongs to the values: A.data.requires_grad",
    "requires_grad_": "values = torch.tensor(A.data, requires_grad=True), A = A.with_data(values)",
    "grad": "it belongs to the values from which A was made: values.grad",
    "clone": "write A.copy()",
    "dim": "write A.ndim",
    "cuda": 'write A.to("cuda")',
    "cpu": 'write A.to("cpu")',
    "float": 'write A.astype("float32")',
    "double": 'write A.astype("float64")',
    "swapaxes": "write A.T",
    **{
        f"to{kind}": f"write A.to_scipy().to{kind}(), without derivatives"
        for kind in ("bsr", "dia", "dok", "lil")
    },
}


class SparseValues(Matrix):
    """Values (*batch, nnz) on a pattern, and the views of them."""

    structure: Structure
    format: Format

    def __init__(self, structure: Structure, data: Array, format: Format = "coo") -> None:
        if not isinstance(structure, Structure) or not isinstance(structure.unview()[0], Sparse):
            came, advice = shown(structure), "Make the array with ldiv.coo_array."
            raise type_error("structure", "ldiv.structures.Sparse, or a view of it", came, advice)
        require_option("format", format, tuple(TRANSPOSED))
        data = require_float("values", data)
        require_values("values", data, _base(structure).pattern.nnz)
        super().__init__(structure, data)
        self.format = format
        self._lease = structure.unview()[0].lease

    if not TYPE_CHECKING:  # to a type checker every name would be there

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError with advice for names that SciPy has and this class lacks."""
            advice = f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{advice}",
                name=name,
                obj=self,
            )

    @property
    def data(self) -> Any:
        """The values, in the order in which the entries were given."""
        return self.params

    @property
    def nnz(self) -> int:
        """The number of stored entries, explicit zeros and duplicates included."""
        return _base(self.structure).pattern.nnz

    @property
    def size(self) -> int:
        """The number of stored entries, as `nnz`."""
        return self.nnz

    @property
    def row(self) -> Index:
        """The row of every entry, on the host, read-only."""
        return read_only(self._at[0])

    @property
    def col(self) -> Index:
        """The column of every entry, on the host, read-only."""
        return read_only(self._at[1])

    @property
    def coords(self) -> tuple[Index, Index]:
        """The rows and the columns of the entries."""
        return self.row, self.col

    @property
    def _at(self) -> tuple[Index, Index]:
        """Rows and columns of this view of the pattern."""
        pattern = _base(self.structure).pattern
        return (
            (pattern.cols, pattern.rows)
            if VIEWS[self.structure.unview()[1]][0]
            else (pattern.rows, pattern.cols)
        )

    @property
    def values(self) -> Any:
        """The values at (row, col): `.data`, conjugated in a conjugate view."""
        return conj(self.data) if VIEWS[self.structure.unview()[1]][1] else self.data

    # -- views, and the same pattern ---------------------------------------------------------------

    @public
    def with_data(self, values: AnyArray) -> Self:
        """The same pattern with new values (*batch, nnz); orderings and symbolic work are kept.

        The way to change values in a loop. In a view (`A.T`, `A.H`) the values are those of the
        array that it views. Those of NumPy are copied, those of PyTorch as the constructors do.
        """
        return self._with(own(as_float("values", values)))

    def _with(self, values: Array) -> Self:
        """The same pattern, on these values."""
        if not was_validated(values) or values.shape[-1:] != self.params.shape[-1:]:
            return type(self)(self.structure, values, self.format)
        new = object.__new__(type(self))  # everything was validated
        new.structure, new.params, new.format = self.structure, values, self.format
        new._lease = new.structure.unview()[0].lease
        return new

    @property
    def T(self) -> Self:
        """The transpose, on the same values."""
        return self._view("T")

    mT = T

    @property
    def H(self) -> Self:
        """The conjugate transpose, on the same values."""
        return self._view("H")

    def conj(self) -> Self:
        """The complex conjugate, on the same values."""
        return self._view("C")

    conjugate = conj

    def _view(self, op: str) -> Self:
        return type(self)(
            self.structure.view(op),
            self.data,
            TRANSPOSED[self.format] if VIEWS[op][0] else self.format,
        )

    # -- for the methods -----------------------------------------------------------------------------

    def _like(self, values: Array) -> Self:
        """The same pattern with new values at (row, col)."""
        return self._with(conj(values) if VIEWS[self.structure.unview()[1]][1] else values)

    def _on(self, structure: Structure, values: Array, format: Format = "csr") -> Self:
        """Values on another pattern."""
        return type(self)(structure, values, format)

    def _kept(self, kept: Index, format: Format) -> Self:
        """The array of some entries, in this order."""
        row, col = self._at
        structure = sparse_indexing.structure_at(row[kept], col[kept], self.structure.shape)
        return self._on(structure, gather(selecting(kept, self.nnz), self.values), format)

    def _gathered(self, key: Hashable, rule: Callable[[], Gather]) -> Array:
        """Sums of the values, by a rule that depends on the pattern alone."""
        return gather(self.structure.cached(key, rule), self.values)

    def sum_duplicates(self) -> Self:
        """Every position once, sorted by row; the array itself where that is so already.

        A new array, where SciPy changes the old one.
        """
        once, place = self.structure.cached(
            "canonical", lambda: sparse_indexing.canonical(self._at, self.structure.shape)
        )
        if once is None or place is None:
            return self
        return self._on(once, add_up(self.values, place, once.pattern.nnz), "coo")

    def _unique(self) -> Self:
        """An array of the same matrix, with no position twice."""
        return self.sum_duplicates() if _base(self.structure).pattern.has_duplicates else self


def _base(structure: Structure) -> Sparse:
    base = structure.unview()[0]
    assert isinstance(base, Sparse)
    return base


def read_only(i: Index) -> Index:
    view = i.view()
    view.flags.writeable = False
    return view
