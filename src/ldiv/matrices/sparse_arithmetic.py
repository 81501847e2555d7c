"""Sums, quotients and products of sparse arrays: the values on the union, the intersection or the
product of the patterns.

    A + B    union                A * B, A / B    intersection                A @ B    product
"""

from __future__ import annotations

from typing import Any, Self, overload

import numpy as np
from scipy.sparse import spmatrix

from ldiv.core.arrays.inputs import moved, promoted
from ldiv.core.arrays.shapes import is_complex, take
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import (
    as_float,
    require_number,
    require_numbers,
    require_ours,
    require_scalar,
    together,
    was_validated,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_array, namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices import sparse_indexing
from ldiv.matrices.matrix import Matrix, MatrixLike, beside, converted
from ldiv.matrices.operator_protocol import NUMBERS
from ldiv.matrices.sparse_values import SparseValues
from ldiv.rules.gather import add_up
from ldiv.structures.sparse import Sparse


class Arithmetic(SparseValues):
    """Operators, and their names as methods."""

    @overload
    def __add__(self, other: SparseValues | int) -> Self: ...
    @overload
    def __add__(self, other: MatrixLike | complex) -> Matrix: ...
    @public
    def __add__(self, other: Any) -> Any:
        return self._add(other, 1)

    @overload
    def __sub__(self, other: SparseValues | int) -> Self: ...
    @overload
    def __sub__(self, other: MatrixLike | complex) -> Matrix: ...
    @public
    def __sub__(self, other: Any) -> Any:
        return self._add(other, -1)

    def _add(self, other: Any, sign: int) -> Any:
        if isinstance(other, NUMBERS) and other == 0:
            return self
        self, other = self._beside("A + other", other)
        if not isinstance(other, SparseValues):
            if isinstance(other, Matrix):
                return self._sum(other if sign > 0 else -other)
            require_ours("A + other", other)
            return _refuse_fill(other)
        self._require_same_shape(other)
        if self.structure == other.structure:
            return self._with(self.data + sign * other.data)
        union, place = self._union(other)
        a, b = _same_batch(self.values, sign * other.values)
        return self._on(
            union, add_up(namespace(a).concat([a, b], axis=-1), place, union.pattern.nnz)
        )

    def _beside(self, name: str, other: Any) -> tuple[Self, Any]:
        """Return both operands in one framework: NumPy's constants move to that of the other.

        Sparse matrices of other libraries and objects with `__array__` are converted.
        """
        own = type(self.data)
        if type(other) is own and was_validated(other):
            return self, other
        if isinstance(other, SparseValues) and type(other.data) is own:
            return self, other
        if not isinstance(other, (Matrix, *NUMBERS)):
            found = converted(name, other)
            if found is None and not is_array(other):
                other = promoted(other)
            elif found is not None:
                other = found
        if isinstance(other, Matrix):
            return beside(self, other), beside(other, self)
        return beside(self, other), moved(other, self.data)

    def _union(self, other: SparseValues) -> tuple[Sparse, Index]:
        """The positions that one of the arrays stores; the place of each entry of both in turn."""
        return self.structure.cached(
            ("union", other.structure),
            lambda: sparse_indexing.union(self._at, other._at, self.structure.shape),
        )

    __radd__ = __add__

    def __rsub__(self, other: Any) -> Any:
        return self._with(-self.data)._add(other, 1)

    @public
    def __mul__(self, other: SparseValues | AnyArray | complex) -> Self:
        self, other = self._beside("the other operand", other)
        if isinstance(other, SparseValues):
            common, a, b = self._common(other)
            return self._on(common, a * b)
        return self._like(self.values * self._entries_of(other))

    def __rmul__(self, other: SparseValues | AnyArray | complex) -> Self:
        if isinstance(other, spmatrix):
            advice = (
                "Write @ for it, or make it a csr_array, whose * is the product entry by entry."
            )
            came = f"{type(other).__name__}, whose * is the product of matrices"
            raise type_error("B * A", "an array or a number", came, advice)
        return self * other

    @public
    def __truediv__(self, other: SparseValues | AnyArray | complex) -> Self:
        if isinstance(other, NUMBERS) and other == 0:
            raise value_error(
                "A / B", "a B other than 0", shown(other), "No matrix is divided by it."
            )
        self, other = self._beside("the other operand", other)
        if not isinstance(other, SparseValues):
            return self._like(self.values / self._entries_of(other))
        common, a, b = self._common(other)
        if (holes := self.sum_duplicates().nnz - common.pattern.nnz) > 0:
            what, advice = "a B with an entry wherever A has one", "They would be divided by zero."
            raise value_error("A / B", what, f"{holes} entries of A over none", advice)
        return self._on(common, a / b)

    @public
    def __rtruediv__(self, other: Any) -> Self:
        """B / A of a sparse matrix B of another library, which has no entry where A has none."""
        if not isinstance(found := self._beside("B / A", other)[1], SparseValues):
            advice = "Elsewhere it is divided by zero: divide by A.toarray()."
            raise type_error("B / A", "a sparse B", type(other).__name__, advice)
        return found / self

    def _common(self, other: SparseValues) -> tuple[Sparse, Array, Array]:
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
            what = "a scalar, an array or a SparseArray"
            raise type_error("the other operand", what, type(other).__name__, "Convert it first.")
        require_numbers("the other operand", other)
        frontend_of(self.data, other)
        if other.ndim == 0:
            return other
        shape = (1, *other.shape) if other.ndim == 1 else tuple(other.shape)
        if any(s not in (1, n) for s, n in zip(shape[-2:], self.structure.shape, strict=True)):
            came, advice = tuple(other.shape), "Check its axes."
            raise value_error(
                "the other operand", f"a shape that broadcasts to {self.shape}", came, advice
            )
        other = namespace(other).reshape(other, shape)
        row, col = (i if s > 1 else 0 * i for i, s in zip(self._at, shape[-2:], strict=True))
        return take(
            namespace(other).reshape(other, (*shape[:-2], shape[-2] * shape[-1])),
            row.astype(np.int64) * shape[-1] + col,
        )

    def _require_same_shape(self, other: SparseValues) -> None:
        frontend_of(self.data, other.data)
        if self.structure.shape != other.structure.shape:
            what, advice = f"shape {self.structure.shape}", "Sparse arrays do not broadcast."
            raise value_error("the other operand", what, other.structure.shape, advice)

    @overload  # type: ignore[override]  # a sparse product, more than Matrix says
    def __matmul__(self, other: SparseValues) -> Self: ...
    @overload
    def __matmul__(self, other: Matrix) -> Matrix: ...
    @overload
    def __matmul__(self, other: ArrayT) -> ArrayT: ...
    @public
    def __matmul__(self, other: Any) -> Any:
        self, other = self._beside("A @ B", other)
        if not isinstance(other, SparseValues):
            return super().__matmul__(other)
        frontend_of(self.data, other.data)
        (m, k), (l, n) = self.structure.shape, other.structure.shape
        if k != l:
            raise value_error("A @ B", f"a B with {k} rows", l, "The inner sizes must agree.")
        product, i, j, place = self.structure.cached(
            ("product", other.structure),
            lambda: sparse_indexing.product(self._at, other._at, (m, k, n)),
        )
        return self._on(
            product,
            add_up(take(self.values, i) * take(other.values, j), place, product.pattern.nnz),
        )

    def multiply(self, other: SparseValues | AnyArray | complex) -> Self:
        """The product entry by entry, as `A * other`; differentiable."""
        return self * other

    # -- the larger and the smaller ------------------------------------------------------------------

    def maximum(self, other: SparseValues | AnyArray | float) -> Any:
        """The larger of two entries, where nothing is stored 0.

        `other` is a sparse array, a dense one, whose result is dense, or a number that is not
        positive, which would fill the matrix.
        Differentiable where the two differ; where they are equal, as the framework says.
        """
        return self._extreme("maximum", other)

    def minimum(self, other: SparseValues | AnyArray | float) -> Any:
        """The smaller of two entries, as `maximum`; a number must not be negative."""
        return self._extreme("minimum", other)

    @public
    def _extreme(self, name: str, other: Any) -> Any:
        self, other = self._beside(name, other)
        dense = is_array(other) and other.ndim > 0
        for x in (self.data, other.data if isinstance(other, SparseValues) else other):
            if is_array(x) and is_complex(x):
                raise type_error(name, "real entries", "complex ones", "They have no order.")
        xp = namespace(self.data)
        larger_or_smaller = getattr(xp, name)
        if isinstance(other, SparseValues):
            self._require_same_shape(other)
            union, place = self._union(other)
            a, b = (
                add_up(x.values, where, union.pattern.nnz)
                for x, where in ((self, place[: self.nnz]), (other, place[self.nnz :]))
            )
            return self._on(union, larger_or_smaller(a, b))
        if dense:
            other = as_float(name, other, self.data)
            together(name, other, self.data)
            if tuple(other.shape[-2:]) != self.structure.shape:
                what, came = f"shape {self.structure.shape}", str(tuple(other.shape))
                raise value_error(name, what, came, "Broadcast it first.")
            whole: Any = self  # a SparseArray, which has a dense form
            return larger_or_smaller(whole.toarray(), other)
        bound = require_number(name, other)
        if bound > 0 if name == "maximum" else bound < 0:
            sign = "not positive" if name == "maximum" else "not negative"
            raise value_error(
                name,
                f"a number that is {sign}",
                shown(other),
                "It would fill the matrix: use A.toarray().",
            )
        once = self._unique()
        return once._like(larger_or_smaller(once.values, bound + xp.zeros_like(once.values)))


def _same_batch(a: Array, b: Array) -> tuple[Array, Array]:
    xp, batch = namespace(a), np.broadcast_shapes(tuple(a.shape[:-1]), tuple(b.shape[:-1]))
    return xp.broadcast_to(a, (*batch, a.shape[-1])), xp.broadcast_to(b, (*batch, b.shape[-1]))


def _refuse_fill(other: Any) -> Any:
    if isinstance(other, NUMBERS) or is_array(other):
        advice = "This sum is dense: add to A.toarray(), or add a multiple of eye_array."
        raise value_error("A + other", "a SparseArray or 0", type(other).__name__, advice)
    return NotImplemented
