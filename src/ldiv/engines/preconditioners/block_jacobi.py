"""M = blockdiag(B_1, ..., B_m)^-1 for the dense blocks B_i = U diag(s) V^H on the diagonal of S.

    B_i^-1 = V diag(s)^-1 U^H,     where S is Hermitian |B_i|^-1 = V diag(s)^-1 V^H

A direction in which a block is singular (s below rounding) counts as its largest, or as 1 in a
block of zeros. M is a sparse matrix in the framework of the parameters, on their device.
Cost: the decompositions of n / block_size blocks, n block_size^2 operations; a product n block_size.
Reference: Saad, Iterative Methods for Sparse Linear Systems, section 12.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import beside, conj, eps, or_one, transpose
from ldiv.core.arrays.validate import require_int
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace, scatter
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.preconditioners.approximate_inverse import on_numbers
from ldiv.errors import type_error, value_error
from ldiv.structures.dense import Dense
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

SIZE = 12  # whole nodes of 1, 2, 3, 4 and 6 unknowns


@on_numbers
def build(
    structure: Structure, p: Tree, *, block_size: int = SIZE, **options: Any
) -> tuple[Structure, Tree]:
    """The inverse of the diagonal blocks of `block_size` rows and columns, the last may be smaller.

    If S is Hermitian and indefinite, absolute values of the blocks are taken: minres needs a
    definite M.
    """
    if options:
        raise type_error(
            "options", "block_size", ", ".join(sorted(options)), "block_jacobi has no others."
        )
    n = structure.shape[0]
    size = min(require_int("block_size", block_size, 1), max(n, 1))
    base, op = structure.unview()
    u, s, v = _decomposed(blocks(base, p, size))
    # B^-1 = V s^-1 U^H, or |B|^-1 = V s^-1 V^H
    left = v if base.view("H") == base else u
    inverse = (v / s[..., None, :]) @ conj(transpose(left))
    flat = namespace(inverse).reshape(inverse, (*inverse.shape[:-3], -1))
    m, inside = base.cached(("block_jacobi", size), lambda: _diagonal_of_blocks(n, size))
    return m.view(op), flat[..., inside]


def _diagonal_of_blocks(n: int, size: int) -> tuple[Structure, Any]:
    """The structure of M, and which entries of the blocks, one after the other, lie in it."""
    block, row, col = (i.ravel() for i in np.indices((-(-n // size), size, size)))
    rows, cols = block * size + row, block * size + col
    # the last block may reach beyond n
    inside = np.flatnonzero((rows < n) & (cols < n))
    return Sparse(Pattern(rows[inside], cols[inside], (n, n))), inside


def blocks(base: Structure, p: Tree, size: int) -> Array:
    """The blocks (*batch, m, size, size) of S(p); the last one is filled up by `_filled`."""
    if isinstance(base, Symmetric):
        b = blocks(base.base, p, size)
        # the blocks of (B + B^T) / 2, or of (B + B^H) / 2
        mirror = transpose(b)
        return (b + (conj(mirror) if VIEWS[base.op][1] else mirror)) / 2
    (rows, cols), values = _entries(base, p)
    count = -(-base.shape[0] // size)
    near = np.flatnonzero(rows // size == cols // size)
    # (row // size, row % size, col % size) in row-major order
    place = rows[near].astype(np.int64) * size + cols[near] % size
    flat = scatter(values[..., near, None], place, count * size * size)[..., 0]
    b = namespace(flat).reshape(flat, (*flat.shape[:-1], count, size, size))
    return _filled(b, base.shape[0])


def _filled(b: Array, n: int) -> Array:
    """Add a diagonal after row n, as large as the entries of each block."""
    xp, (count, size) = namespace(b), b.shape[-3:-1]
    if n == count * size:
        return b
    # the rows beyond n get a diagonal, so that the last block is not singular for them
    number = np.arange(count * size).reshape(count, size, 1)
    beyond = xp.asarray((number >= n) & np.eye(size, dtype=bool), **beside(b))
    largest = xp.max(xp.abs(b), axis=(-2, -1), keepdims=True)
    return b + xp.where(beyond, or_one(largest), 0)


def _entries(base: Structure, p: Tree) -> tuple[tuple[Any, Any], Array]:
    """((rows, columns), values) of the entries."""
    if isinstance(base, Sparse):
        return (base.pattern.rows, base.pattern.cols), p
    if isinstance(base, Dense):
        rows, cols = (i.ravel() for i in np.indices(base.shape))
        return (rows, cols), namespace(p).reshape(p, (*p.shape[:-2], -1))
    raise value_error(
        "M='block_jacobi'",
        "a sparse matrix, or an array",
        type(base).__name__,
        "Give M=ldiv.preconditioner(B, 'block_jacobi') of a sparse matrix B nearby.",
    )


def _decomposed(b: Array) -> tuple[Array, Array, Array]:
    """(U, s, V) with B = U diag(s) V^H for nonsingular blocks, and s > 0 for all.

    A block with NaN or infinity, which libraries do not decompose, has NaN for s.
    """
    xp = namespace(b)
    finite = xp.all(xp.isfinite(b), axis=(-2, -1), keepdims=True)
    u, s, v_h = frontend_of(b).dense.svd(xp.where(finite, b, xp.zeros_like(b)))
    largest = xp.max(s, axis=-1, keepdims=True)
    s = xp.where(s > b.shape[-1] * eps(b) * largest, s, or_one(largest))
    return u, xp.where(finite[..., 0], s, xp.full_like(s, np.nan)), conj(transpose(v_h))
