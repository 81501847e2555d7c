"""The engines as a solver of lineax; what lineax keeps of a matrix are its parameters, on a
structure that is static.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import lineax as lx
from lineax.internal import (
    PackedStructures,
    pack_structures,
    ravel_vector,
    transpose_packed_structures,
    unravel_solution,
)

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.validate import require_option, require_square
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.rule import bind
from ldiv.derivatives.function_arguments import on_pattern
from ldiv.engines import registry
from ldiv.errors import shown, type_error
from ldiv.lineax.attempt import Attempt
from ldiv.lineax.matrix import matrix_of
from ldiv.matrices.assumptions import promised
from ldiv.matrices.construct import asarray
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse

PROMISES = (
    (lx.is_diagonal, "diagonal"),
    (lx.is_lower_triangular, "lower triangular"),
    (lx.is_upper_triangular, "upper triangular"),
    (lx.is_positive_semidefinite, "pos"),
    (lx.is_negative_semidefinite, "her"),
    (lx.is_symmetric, "sym"),
)


class State(eqx.Module):
    """The parameters of the matrix, on the structure that the rule has."""

    params: Tree
    rule: Attempt = eqx.field(static=True)
    packed: PackedStructures


class Solver(lx.AbstractLinearSolver[State]):  # type: ignore[misc]
    """ldiv's engines as a lineax solver, for square operators that are not singular.

        x = A^-1 b

    The structure decides: sparse for `SparseOperator` and sums, products and multiples of it with
    diagonal, tridiagonal and identity operators; diagonal and tridiagonal where tags say so; dense
    otherwise. The tags positive (negative) semidefinite, symmetric, diagonal, lower and upper
    triangular become promises (`assume_a` of `ldiv.solve`); a broken one is refused.
    `sparsity`: a sparse matrix with entries wherever the operator can have some, for operators
    known by their action alone, such as the Jacobians of optimistix and diffrax. The entries are
    read by one product for each color of the columns. An operator that has others raises: where it
    is traced its program shows that it has none, else a product in a random direction must agree.
    `method`: "auto" or the name of an engine.
    A refused solve has `RESULTS.singular`: `linear_solve` raises, or returns it if `throw=False`.
    Cost: 1 factorization for all solves with one matrix; it is found again by its values, so the
    state keeps no factor.

    >>> import jax, jax.numpy as jnp, ldiv.lineax, lineax, numpy as np
    >>> f = lambda y, _: y**3 + 4 * y - jnp.roll(y, 1).at[0].set(0)
    >>> pattern = ldiv.diags_array([np.ones(1), np.ones(1)], offsets=[0, -1], shape=(3, 3))
    >>> J = lineax.JacobianLinearOperator(f, jnp.ones(3))
    >>> x = lineax.linear_solve(J, jnp.array([7.0, 13.0, 12.0]), ldiv.lineax.Solver(sparsity=pattern)).value
    >>> print(x.round(5))
    [1. 2. 2.]
    """

    sparsity: Sparse | None = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __init__(self, sparsity: Any = None, method: str = "auto") -> None:
        require_option("method", method, ("auto", *registry.engines()))
        self.sparsity = (
            None
            if sparsity is None
            else on_pattern(array := _sparse(sparsity), array.structure.shape)
        )
        self.method = method

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]) -> State:
        require_square("the operator", (operator.out_size(), operator.in_size()))
        matrix = matrix_of(operator, self.sparsity)
        takes_promises = isinstance(matrix.structure.unview()[0], Dense | Sparse)
        promise = next(
            (promise for check, promise in PROMISES if takes_promises and check(operator)), "gen"
        )
        structure, params = promised(matrix, promise)
        rule = Attempt(structure, "pos" if promise == "pos" else "gen", self.method)
        # raises now if there is none
        registry.choose(
            structure.unview()[0], numpy_dtype(leaves(params)[0]), "cpu", rule.assume_a, rule.method
        )
        return State(params, rule, pack_structures(operator))

    def compute(
        self, state: State, vector: Any, options: dict[str, Any]
    ) -> tuple[Any, lx.RESULTS, dict[str, Any]]:
        x, refused = bind(state.rule, state.params, ravel_vector(vector, state.packed)[:, None])
        result = lx.RESULTS.where(refused, lx.RESULTS.singular, lx.RESULTS.successful)
        return unravel_solution(x[:, 0], state.packed), result, {}

    def transpose(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        return State(
            state.params, _seen(state.rule, "T"), transpose_packed_structures(state.packed)
        ), options

    def conj(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        return State(state.params, _seen(state.rule, "C"), state.packed), options

    def assume_full_rank(self) -> bool:
        return True


def _sparse(sparsity: Any) -> SparseArray:
    """The matrix whose pattern contains that of the operator."""
    try:
        if isinstance(sparsity, tuple | list):
            raise TypeError("positions without a shape")
        return asarray(sparsity)
    except (TypeError, ValueError) as error:
        what = "a sparse matrix with entries wherever the operator can have some"
        advice = (
            "ldiv.detect_pattern(f, x) makes one of a function, ldiv.coo_array one of positions."
        )
        raise type_error("sparsity", what, shown(sparsity), advice) from error


def _seen(rule: Attempt, op: str) -> Attempt:
    return replace(rule, structure=rule.structure.view(op))
