"""x with A x = b and V^H x = 0, for a singular A and a b that it reaches.

    [A    V] [x ]   [b]
    [V^H  0] [mu] = [0],    V mu is the part of b that A does not reach

The bordered matrix is regular under three conditions: V has as many columns as the null space of A,
no combination of them is in the range of A, and no null vector of A is orthogonal to all of them.
For a Hermitian A these conditions hold where V spans the null space. Reference: Golub and Van Loan,
section 4.4; Govaerts, Numerical Methods for Bifurcations of Dynamical Equilibria (2000), chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, conj, eps, numpy_dtype, spread
from ldiv.core.arrays.validate import as_block, common_precision
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.units import unit_along
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.factors.analyses import analysed
from ldiv.errors import value_error
from ldiv.matrices.compose import block_array
from ldiv.matrices.matrix import Matrix, common_dtype
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.assertion import checked
from ldiv.structures.bordered import Bordered
from ldiv.structures.dense import Dense
from ldiv.structures.placed import require_known_pattern
from ldiv.structures.sparse import Sparse

LARGE = 4096  # rows from which eliminating the border as well takes longer than a solve beside it


def bordered(A: Matrix, V: Array) -> Any:
    """[[A, V], [V^H, 0]], sparse for a sparse A."""
    require_known_pattern("A", A.structure)
    xp, k = namespace(V), V.shape[-1]
    if isinstance(A, SparseArray):
        flat = xp.reshape(V, (-1,))
        parts = common_dtype(A.values, flat, conj(flat))
        batch = batch_of(A.values, 1)
        values = xp.concat([spread(x, batch, 1) for x in parts], axis=-1)
        return Matrix(A.structure.cached(("bordered", k), lambda: _structure(A, k)), values)
    V_H = conj(V).mT
    if not isinstance(A.structure, Dense):
        return block_array([[A, V], [V_H, None]])
    (a,) = leaves(A.params)
    a, V, V_H = common_precision(a, V, V_H)
    batch = tuple(a.shape[:-2])
    V, V_H, none = (
        xp.broadcast_to(part, (*batch, *part.shape[-2:]))
        for part in (V, V_H, xp.zeros((k, k), **alike(a)))
    )
    return xp.concat([xp.concat([a, V], axis=-1), xp.concat([V_H, none], axis=-1)], axis=-2)


def _structure(A: SparseArray, k: int) -> Sparse:
    """A by its entries, V row by row, and V^H column by column; one structure for equal patterns."""
    n = A.shape[-1]
    i, j = np.indices((n, k)).reshape(2, -1)
    pattern = Pattern(np.append(A.row, (i, n + j)), np.append(A.col, (n + j, i)), (n + k, n + k))
    made = Bordered(pattern, k) if n >= LARGE else Sparse(pattern)
    return analysed("structure", made, lambda: made)


def border(V: Any, n: int, like: Array) -> Array:
    """The vectors that a user gave, as columns (n, k)."""
    block, _ = as_block("null_space", V, n, like)
    if block.ndim != 2 or not block.shape[1]:
        advice = "Vectors of the null space are its columns."
        raise value_error("null_space", f"({n},) or ({n}, k)", tuple(block.shape), advice)
    return block


def in_units_of(A: Matrix, V: Array) -> Array:
    """V, each column times a power of two, by which it is about as large as a dense or sparse A."""
    if not isinstance(A.structure, (Dense, Sparse)):
        return V
    # x is the same of [A, V t^2; t^2 V^H, 0] [x; mu / t^2] = [b; 0]
    t = unit_along(V, (-2,)) / unit_along(namespace(V).reshape(leaves(A.params)[0], (-1,)), (-1,))
    return V * t * t


def require_alone(is_not: bool) -> None:
    """Raise if options were given that the bordered system does not take."""
    if is_not:
        advice = "Border the matrix with ldiv.bmat([[A, V], [V.T, None]]) to give them."
        raise value_error(
            "null_space", "no options beside it but assume_a, trans and method", "others", advice
        )


def extended(b: Array, k: int) -> Array:
    """b (*batch, n, c) with k zeros below."""
    xp = namespace(b)
    return xp.concat([b, xp.zeros((*b.shape[:-2], k, b.shape[-1]), **alike(b))], axis=-2)


def consistent(y: Array, V: Array, b: Array) -> Array:
    """x, the first unknowns of y, or an error where V mu is more than rounding of b."""
    xp, n = namespace(y), V.shape[0]
    x, missed = y[..., :n, :], xp.matmul(astype(V, numpy_dtype(y)), y[..., n:, :])
    b = xp.broadcast_to(astype(b, numpy_dtype(y)), tuple(x.shape))
    return checked(_Reached(n), xp.concat([x, missed, b], axis=-2))[..., :n, :]


@dataclass(frozen=True)
class _Reached:
    """Raises unless, of a stack [x; V mu; b], V mu is as small as half of the digits of b say."""

    n: int

    def __call__(self, stack: Array) -> None:
        xp, n = namespace(stack), self.n
        missed, size = (norm(x, -2) for x in (stack[..., n : 2 * n, :], stack[..., 2 * n :, :]))
        if 0 in size.shape:  # there is no b
            return
        check_or_raise(
            xp.all(missed <= eps(size) ** 0.5 * size), _unreached, xp.max(missed), xp.max(size)
        )


def _unreached(missed: Any, size: Any) -> ValueError:
    return value_error(
        "b",
        "a vector in the range of the singular A",
        f"one with a part of {float(missed):.1e} outside of it, |b| = {float(size):.1e}",
        "Subtract this part, or minimize the residual with ldiv.lstsq; a regular A has no null_space.",
    )
