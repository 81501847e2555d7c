"""The public arguments of A x = b, validated: the rule, its arguments, and the call itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

from ldiv.core.arrays.shapes import astype, batch_of, common_batch, is_complex, numpy_dtype
from ldiv.core.arrays.validate import (
    as_block,
    common_precision,
    require_batches,
    require_option,
    require_square,
)
from ldiv.core.calls.call import Bound
from ldiv.core.frameworks.dispatch import frontend_of, is_array
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure
from ldiv.engines import registry
from ldiv.engines.iterative.options import Options
from ldiv.errors import value_error
from ldiv.linalg.arguments.iteration import Iteration, iteration_options
from ldiv.matrices.matrix import Matrix, as_matrix, converted
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.solve import Solve
from ldiv.structures.dense import Dense

FactorDtype: TypeAlias = Literal["float32"]


def square(A: Any, *others: Any) -> Matrix:
    """A square matrix, in the framework of b and of other arrays."""
    matrix = as_matrix("A", A, *others)
    require_square("A", matrix.structure.shape)
    return matrix


def dense_block(b: Any) -> Any:
    """A sparse right-hand side written out, as its solution has no zeros; else b as it is."""
    found = b if isinstance(b, Matrix) else converted("b", b)
    return found.toarray() if isinstance(found, SparseArray) else b


def build_problem(
    structure: Structure,
    params: Tree,
    b: Any,
    assume_a: str,
    method: str,
    iteration: Iteration | None = None,
    factor_dtype: str | None = None,
) -> tuple[Solve, tuple[Tree, ...], bool]:
    """Return the rule, its validated arguments, and whether b came as a vector."""
    require_method(method)
    flat = leaves(params)
    block, vector = as_block("b", b, structure.shape[0], flat[0])
    require_batches("b", common_batch(structure.core, params), batch_of(block, 2))
    *flat, block = common_precision(*flat, block)
    if isinstance(structure.unview()[0], Dense) and is_complex(flat[0]):
        # as x is: what is compiled of dense matrices takes arrays of one dtype
        block = astype(block, numpy_dtype(flat[0]))
    p = rebuild(structure.core, flat)
    if iteration is None or not iteration.given:
        # an engine that takes whole calls is told whether it is that of a cotangent
        options = None if registry.whole(structure) is None else Options()
        rule = Solve(structure, assume_a, method, options, factor_dtype=factor_dtype)
        return rule, (p, block), vector
    if factor_dtype is not None:
        what, advice = f"None with {iteration.given[0]}", "An iteration has no factors."
        raise value_error("factor_dtype", what, repr(factor_dtype), advice)
    given = block[..., 0] if vector else block
    method, options, auxiliaries = iteration_options(
        iteration, assume_a, method, structure, p, given
    )
    return Solve(structure, assume_a, method, options), (p, block, *auxiliaries), vector


def bound(
    structure: Structure,
    params: Tree,
    b: Any,
    assume_a: str,
    method: str,
    iteration: Iteration | None = None,
    factor_dtype: str | None = None,
) -> Bound:
    """Return the rule and its validated arguments."""
    rule, (p, block, *auxiliaries), vector = build_problem(
        structure, params, b, assume_a, method, iteration, factor_dtype
    )
    if not vector:
        return Bound(rule, leaves((p, block, *auxiliaries)))
    if not auxiliaries:  # b itself, if nothing had to be converted
        alike = is_array(b) and frontend_of(b) is frontend_of(block) and b.dtype == block.dtype
        own = b if alike else block[..., 0]
        return Bound(replace(rule, vector=True), [*leaves(p), own])
    return Bound(rule, leaves((p, block, *auxiliaries)), _as_vector)


def _as_vector(outputs: tuple[Any, ...]) -> Any:
    return outputs[0][..., 0]


def require_method(method: str, name: str = "method", advice: str = "Choose one of these.") -> str:
    """Return `method`, or raise unless it is the name of an engine or of a kind of engines."""
    every = "auto", "direct", "iterative", *registry.engines()
    return require_option(name, method, every, advice)


def require_factor_dtype(factor_dtype: Any) -> None:
    """Raise unless this is None, or the name of another precision to factor in."""
    if factor_dtype is not None:
        require_option("factor_dtype", factor_dtype, get_args(FactorDtype))
