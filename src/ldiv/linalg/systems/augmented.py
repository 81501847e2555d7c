"""The augmented matrix of least squares, Hermitian and as sparse as A.

    [s I   A      ] [r / s]   [b]
    [A^H   -mu / s] [  x  ] = [0],    mu = damp^2

Of a product A = B C the vector u = C x is an unknown, and y a multiplier, so that B C is never formed:

    [s I   B             ] [r / s]   [b]
    [B^H         -I      ] [  u  ]   [0]
    [      -I        C   ] [  y  ] = [0]
    [           C^H  -mu/s] [  x  ]   [0]

The smaller s, the smaller a singular value of A may be; refinement does the rest:
s = eps^(3/4) |A|, a power of two, so that no digit depends on it. With damping no singular value is
smaller than damp, and s = damp if that is larger. With a smaller s, an mu / s of the size of A
would be taken for a pivot. Such a pivot leaves [s I] - A A^H s / mu, of the rank of A but for s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, broadcast, conj, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.matrices.matrix import Matrix, replaced
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.block import Block
from ldiv.structures.composed import entries
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.product import Product
from ldiv.structures.scaled import Scaled
from ldiv.structures.sparse import Sparse
from ldiv.structures.sum import Sum

Part: TypeAlias = tuple[Structure, Any]  # with its parameters

DIRECTIONS = 4  # that tell how large columns are


def fixed(A: Matrix) -> Matrix:
    """A with constants for its parameters."""
    p = rebuild(A.structure.core, [constant(leaf) for leaf in leaves(A.params)])
    return replaced(A, p)


def column_sizes(A: Matrix) -> Array:
    """Estimates of |a_j| for each column, (*batch, n), by random directions: constants."""
    (m, n), like = A.structure.shape, leaves(A.params)[0]
    xp, directions = namespace(like), np.random.default_rng(0).standard_normal((m, DIRECTIONS))
    seen = fixed(A).H @ xp.asarray(directions, **alike(like))
    return xp.sum(xp.abs(seen), axis=-1) if m else xp.zeros((n,), **alike(xp.abs(like)))


def augmented(A: Matrix, damp: float, sizes: Array) -> Matrix | None:
    """The matrix of a tall A, whose first unknowns are r / s and whose last are x; None where the
    entries of A are not at hand.
    """
    xp = namespace(sizes)
    size = xp.max(sizes, axis=-1) if sizes.shape[-1] else xp.sum(sizes, axis=-1)
    least = _power_of_two(eps(sizes) ** 0.75)
    s = (least * _power_of_two(xp.where(size > 0, size, 1.0)))[..., None]
    if damp:
        own = _power_of_two(damp)
        s = xp.where(s > own, s, own)
    if isinstance(A, SparseArray):
        return _merged(A, damp, s)
    chain = list(_factors(A.structure, A.params))
    if any(entries(part) is None for part, _ in chain):
        return None
    return _blocks(chain, damp, s)


def scale_of(K: Matrix) -> Array:
    """s, of shape (*batch, 1)."""
    first: Array = leaves(K.params)[0]
    return first[..., :1]


def _power_of_two(x: Any) -> Any:
    if isinstance(x, float):
        return 2.0 ** round(np.log2(x))
    xp = namespace(x)
    return 2.0 ** xp.round(xp.log2(x))


def _factors(S: Structure, p: Tree) -> Iterator[Part]:
    """Matrices with stored entries whose product is S(p), as far as S can be split."""
    if entries(S) is not None or (halves := _halves(S, p)) is None:
        yield S, p
        return
    for half in halves:
        yield from _factors(*half)


def _halves(S: Structure, p: Tree) -> tuple[Part, Part] | None:
    """Two matrices whose product is S(p):  c (A B) = (c A) B,  A B + C = [A C] [B; I]."""
    if isinstance(S, Product):
        return S.halves(p)
    if isinstance(S, Scaled) and (halves := _halves(S.base, p[0])) is not None:
        (left, of_left), right = halves
        return (Scaled((left,), S.scalar), (of_left, p[1])), right
    if not isinstance(S, Sum):
        return None
    n, like = S.shape[1], leaves(p)[0]
    unit = Diagonal(n), namespace(like).ones((n,), **alike(like))
    parts = list(zip(S.parts, p, strict=True))
    lefts, rights = zip(*(_halves(*part) or (part, unit) for part in parts), strict=True)
    inner, places = tuple(left.shape[1] for left, _ in lefts), range(len(parts))
    row = Block(_first(lefts), tuple((0, i) for i in places), (S.shape[0],), inner)
    column = Block(_first(rights), tuple((i, 0) for i in places), inner, (n,))
    return (row, tuple(q for _, q in lefts)), (column, tuple(q for _, q in rights))


def _first(parts: Iterable[Part]) -> tuple[Structure, ...]:
    return tuple(S for S, _ in parts)


def _blocks(chain: list[Part], damp: float, s: Array) -> Matrix:
    """Unknowns r = y_0, u_1, y_1, u_2 ... u_k = x of a product of k matrices."""
    xp, like = namespace(s), leaves(chain[0][1])[0]
    dtype = numpy_dtype(like)

    def diagonal(n: int, value: Any) -> tuple[Diagonal, Array]:
        return Diagonal(n), astype(value + xp.zeros((n,), **alike(s)), dtype)

    sizes = [S.shape for S, _ in chain]
    blocks: dict[tuple[int, int], Part] = {(0, 0): diagonal(sizes[0][0], s)}
    for i, (S, p) in enumerate(chain):
        blocks[2 * i, 2 * i + 1] = S, p
        blocks[2 * i + 1, 2 * i] = S.H, p
        if i + 1 < len(chain):
            link = diagonal(S.shape[1], -1.0)
            blocks[2 * i + 1, 2 * i + 2] = blocks[2 * i + 2, 2 * i + 1] = link
    last = 2 * len(chain) - 1
    if damp:
        blocks[last, last] = diagonal(sizes[-1][1], -damp * (damp / s))
    widths = tuple(n for size in sizes for n in size)
    structure = Block(_first(blocks.values()), tuple(blocks), widths, widths)
    return Matrix(structure, tuple(p for _, p in blocks.values()))


def _merged(A: SparseArray, damp: float, s: Array) -> SparseArray:
    """Build the augmented matrix of a sparse A, on a pattern that is made once."""
    structure, values = A.structure, A.values
    xp, (m, n) = namespace(values), structure.shape
    s = astype(s, numpy_dtype(values))
    batch = broadcast(batch_of(values, 1), batch_of(s, 1))
    parts = [s * xp.ones((*batch, m), **alike(values)), values, conj(values)]
    if damp:
        parts.append(-damp * (damp / s) * xp.ones((*batch, n), **alike(values)))
    base, op = structure.unview()  # a view may be made anew for each call
    key = ("augmented", bool(damp), VIEWS[op][0])
    pattern = base.cached(key, lambda: _pattern(A, bool(damp)))
    return SparseArray(pattern, xp.concat(parts, axis=-1))


def _pattern(A: SparseArray, damped: bool) -> Sparse:
    (m, n), row, col = A.structure.shape, A.row, A.col
    own, rest = np.arange(m), np.arange(m, m + n if damped else m)
    rows = np.concatenate([own, row, m + col, rest])
    cols = np.concatenate([own, m + col, row, rest])
    return Sparse(Pattern(rows, cols, (m + n, m + n)))
