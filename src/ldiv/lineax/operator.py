"""A sparse array as a linear operator of lineax: its product, its views, and what its pattern
and its tags say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ldiv.errors import value_error
from ldiv.matrices.construct import asarray
from ldiv.matrices.sparse_array import SparseArray


class SparseOperator(lx.AbstractLinearOperator):  # type: ignore[misc]
    """A SparseArray, or what `ldiv.asarray` makes one, as a lineax operator; every lineax solver
    takes it.

    Differentiable in the values. Diagonal, triangular and tridiagonal patterns need no tags. One
    matrix, no batch: a batch is `jax.vmap`.

    >>> import jax.numpy as jnp, ldiv.lineax, lineax
    >>> array = ldiv.coo_array((jnp.array([4.0, 4.0, 1.0, 1.0]), ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(2, 2))
    >>> A = ldiv.lineax.SparseOperator(array, lineax.positive_semidefinite_tag)
    >>> x = lineax.linear_solve(A, jnp.array([6.0, 9.0]), ldiv.lineax.Solver()).value
    >>> print(x.round(5))
    [1. 2.]
    """

    array: SparseArray
    tags: frozenset[object] = eqx.field(static=True)

    def __init__(self, array: Any, tags: Any = ()) -> None:
        array = asarray(array)
        if array.batch:
            raise value_error(
                "SparseOperator",
                "one matrix",
                f"a batch {array.batch}",
                "Make the operator inside jax.vmap.",
            )
        self.array = array.with_data(jnp.asarray(array.data))
        self.tags = frozenset(tags if isinstance(tags, Iterable) else [tags])

    def mv(self, vector: jax.Array) -> jax.Array:
        return self.array @ vector

    def as_matrix(self) -> jax.Array:
        return self.array.toarray()

    def transpose(self) -> SparseOperator:
        return (
            self
            if lx.is_symmetric(self)
            else SparseOperator(self.array.T, lx.transpose_tags(self.tags))
        )

    def in_structure(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.array.structure.shape[1:], self.array.dtype)

    def out_structure(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.array.structure.shape[:1], self.array.dtype)


def _band(array: SparseArray) -> tuple[int, int]:
    """The lower and the upper bandwidth of the pattern."""
    offsets = array.col.astype(np.int64) - array.row
    return -int(offsets.min(initial=0)), int(offsets.max(initial=0))


def _by_pattern(tag: object, fits: Callable[[int, int], bool]) -> Callable[[SparseOperator], bool]:
    """A property that a tag promises or the pattern shows."""
    return lambda operator: (
        tag in operator.tags
        or fits(*operator.array.structure.cached("band", lambda: _band(operator.array)))
    )


def _is_symmetric(operator: SparseOperator) -> bool:
    """A definite matrix is Hermitian: symmetric too where it is real."""
    definite = lx.is_positive_semidefinite(operator) or lx.is_negative_semidefinite(operator)
    return (
        lx.symmetric_tag in operator.tags
        or lx.is_diagonal(operator)
        or (definite and operator.array.data.dtype.kind == "f")
    )


lx.is_diagonal.register(
    SparseOperator, _by_pattern(lx.diagonal_tag, lambda below, above: below == above == 0)
)
lx.is_tridiagonal.register(
    SparseOperator, _by_pattern(lx.tridiagonal_tag, lambda below, above: max(below, above) <= 1)
)
lx.is_lower_triangular.register(
    SparseOperator, _by_pattern(lx.lower_triangular_tag, lambda below, above: above == 0)
)
lx.is_upper_triangular.register(
    SparseOperator, _by_pattern(lx.upper_triangular_tag, lambda below, above: below == 0)
)
lx.is_positive_semidefinite.register(
    SparseOperator, lambda operator: lx.positive_semidefinite_tag in operator.tags
)
lx.is_negative_semidefinite.register(
    SparseOperator, lambda operator: lx.negative_semidefinite_tag in operator.tags
)
lx.has_unit_diagonal.register(
    SparseOperator, lambda operator: lx.unit_diagonal_tag in operator.tags
)
lx.is_symmetric.register(SparseOperator, _is_symmetric)
lx.diagonal.register(SparseOperator, lambda operator: operator.array.diagonal())
lx.tridiagonal.register(
    SparseOperator, lambda operator: tuple(operator.array.diagonal(k) for k in (0, -1, 1))
)
lx.conj.register(
    SparseOperator, lambda operator: SparseOperator(operator.array.conj(), operator.tags)
)
for _same in (lx.linearise, lx.materialise):
    _same.register(SparseOperator, lambda operator: operator)
