"""Sign and logarithm of the determinant of a structure, by the formula that it has.

    diagonal, triangle                        det D = prod d_i
    product, multiple, Kronecker, Gram        its own `slogdet`, of those of its parts
    low-rank update                           det (A + U V^H) = det A det (I + V^H A^-1 U)

Everything else is factored as a whole: sparse matrices by blocks, dense ones by LAPACK.
"""

from __future__ import annotations

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import alike, batch_of, broadcast, conj, real, take, unit_columns
from ldiv.core.dispatch import namespace
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS, Structure, matmul
from ldiv.core.trees import Tree, leaves
from ldiv.errors import SingularMatrixError
from ldiv.rules.gather import add_up
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.structures.composed import Composed
from ldiv.structures.dense import Dense, dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.diagonal_part import DiagonalPart
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.sum import Sum
from ldiv.structures.triangular import Triangular

Pair = tuple[Array, Array]


def slogdet_of(structure: Structure, p: Tree) -> Pair:
    """(det S(p) / |det S(p)|, log |det S(p)|), of shape (*batch,) or one that broadcasts to it."""
    base, op = structure.unview()
    sign, size = _of_base(base, p)
    return conj(sign) if VIEWS[op][1] else sign, size


def has_formula(structure: Structure) -> bool:
    """Is its determinant made of those of its parts?"""
    base = structure.unview()[0]
    if base.slogdet is None or not isinstance(base, Composed):
        return False
    return all(m == n for m, n in (part.shape for part in base.parts))


def _of_base(base: Structure, p: Tree) -> Pair:
    if isinstance(base, SelfAdjoint):
        return slogdet_of(base.base, p)
    if base.slogdet is not None and has_formula(base):
        return base.slogdet(p, slogdet_of)
    if isinstance(base, Sum) and (split := _low_rank(base, p)) is not None:
        return _of_update(*split)
    if isinstance(base, Triangular | SparseTriangular) and base.diagonal == "unit":
        return _one(base, p)
    if (d := _diagonal(base, p)) is not None:
        return _bound(Diagonal(base.shape[0]), d)
    if base.rank < base.shape[0]:
        raise SingularMatrixError("slogdet", f"a rank of {base.rank} at most", certain=True)
    return _bound(base, p)


def _bound(structure: Structure, p: Tree) -> Pair:
    sign, size = bind(SLogDet(structure), p)
    return sign, size


def _one(base: Structure, p: Array) -> Pair:
    """The determinant of a triangle of ones on its diagonal."""
    own = leaves(base.core)[0]
    zero = namespace(p).zeros(batch_of(p, own), **alike(p))
    return zero + 1, real(zero)


def _diagonal(base: Structure, p: Tree) -> Array | None:
    """The diagonal of a diagonal or triangular matrix; None for others."""
    if isinstance(base, Diagonal):
        return p
    if isinstance(base, Triangular) or (
        isinstance(base, DiagonalPart) and isinstance(base.base, Dense)
    ):
        return namespace(p).linalg.diagonal(p)
    if isinstance(base, DiagonalPart | SparseTriangular) and isinstance(base.base, Sparse):
        pattern = base.base.pattern
        on = np.flatnonzero(pattern.rows == pattern.cols)
        return add_up(take(p, on), pattern.rows[on], base.shape[0])
    return None


# -- low-rank updates --------------------------------------------------------------------------------


def _low_rank(base: Sum, p: Tree) -> tuple[Structure, Tree, Structure, Tree] | None:
    """(A, its parameters, the low-rank update, its parameters), where A has entries to factor."""
    if (at := base.updated) is None or not _is_factored(a := base.parts[at]):
        return None
    return a, p[at], base.parts[1 - at], p[1 - at]


def _is_factored(a: Structure) -> bool:
    """Dense arrays are as fast factored as a whole, where nothing cancels."""
    return not isinstance(a.unview()[0], Dense)


def _of_update(a: Structure, pa: Tree, update: Structure, pu: Tree) -> Pair:
    (u, p_left), (vh, p_right) = update.halves(pu)
    like, r = leaves(pu)[0], u.shape[1]
    columns = matmul(u, p_left, unit_columns(like, r, range(r)))
    c = matmul(vh, p_right, solve(a, pa, columns))
    c = c + unit_columns(c, r, range(r))
    (s, l), (t, m) = slogdet_of(a, pa), _bound(dense(r, r), c)
    return s * t, l + m


def broadcast_to_batch(structure: Structure, p: Tree, pair: Pair) -> Pair:
    """Both with all batch axes of the parameters."""
    cores, flat = leaves(structure.core), leaves(p)
    batch = broadcast(*(batch_of(x, own) for x, own in zip(flat, cores, strict=True)))
    s, l = (namespace(x).broadcast_to(x, batch) if x.shape != batch else x for x in pair)
    return s, l
