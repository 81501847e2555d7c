"""An operator of lineax as a matrix of ldiv, with all the structure that it is known to have."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx

from ldiv.lineax.operator import SparseOperator
from ldiv.lineax.probing import probed
from ldiv.matrices.diagonals import diags_array
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse


@singledispatch
def sparse(operator: lx.AbstractLinearOperator) -> SparseArray | None:
    """The operator as a sparse array, None where only its action is known: I - dt * J is as
    sparse as J.
    """
    return None


def _dtype(operator: lx.AbstractLinearOperator) -> Any:
    return jnp.result_type(*jax.tree.leaves(operator.in_structure()))


def _identity(operator: lx.AbstractLinearOperator) -> SparseArray:
    return diags_array(
        jnp.ones(1, _dtype(operator)), shape=(operator.out_size(), operator.in_size())
    )


def _tridiagonal(operator: lx.AbstractLinearOperator) -> SparseArray:
    main, lower, upper = lx.tridiagonal(operator)
    return (
        diags_array([main, lower, upper], offsets=[0, -1, 1])
        if len(main) > 1
        else diags_array(main)
    )


def _joined(
    join: Callable[[SparseArray, SparseArray], SparseArray], operator: Any
) -> SparseArray | None:
    one, two = sparse(operator.operator1), sparse(operator.operator2)
    return None if one is None or two is None else join(one, two)


def _scaled(scale: Callable[[SparseArray, Any], SparseArray], operator: Any) -> SparseArray | None:
    one = sparse(operator.operator)
    return None if one is None else scale(one, operator)


sparse.register(SparseOperator, lambda operator: operator.array)
sparse.register(lx.IdentityLinearOperator, _identity)
sparse.register(lx.DiagonalLinearOperator, lambda operator: diags_array(lx.diagonal(operator)))
sparse.register(lx.TridiagonalLinearOperator, _tridiagonal)
sparse.register(lx.TaggedLinearOperator, partial(_scaled, lambda a, _: a))
sparse.register(lx.NegLinearOperator, partial(_scaled, lambda a, _: -a))
sparse.register(lx.MulLinearOperator, partial(_scaled, lambda a, operator: a * operator.scalar))
sparse.register(lx.DivLinearOperator, partial(_scaled, lambda a, operator: a / operator.scalar))
sparse.register(lx.AddLinearOperator, partial(_joined, lambda a, b: a + b))
sparse.register(lx.ComposedLinearOperator, partial(_joined, lambda a, b: a @ b))


def matrix_of(operator: lx.AbstractLinearOperator, pattern: Sparse | None = None) -> Matrix:
    """The operator with the structure that it is known to have; a dense matrix where nothing is
    known.
    """
    if lx.is_diagonal(operator):
        return Matrix(Diagonal(operator.in_size()), lx.diagonal(operator))
    if (array := sparse(operator)) is not None:
        return array
    if lx.is_tridiagonal(operator):
        return _tridiagonal(operator)
    if pattern is not None:
        return probed(operator, pattern)
    return Matrix(Dense(operator.out_size(), operator.in_size()), operator.as_matrix())
