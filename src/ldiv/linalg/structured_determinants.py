"""Sign and logarithm of the determinant of a structure, by the formula that it has.

    diagonal, triangle     det D = prod d_i
    Kronecker product      det (A x B) = (det A)^n_B (det B)^n_A
    Gram matrix            det (L L^H) = |det L|^2
    product, multiple      det A det B,   alpha^n det A
    low-rank update        det (A + U V^H) = det A det (I + V^H A^-1 U)

Everything else is factored as a whole: sparse matrices by blocks, dense ones by LAPACK.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays import alike, batch_of, broadcast, conj, real, take, unit_columns
from ldiv.core.dispatch import namespace
from ldiv.core.errstate import singular_state
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS, Structure, matmul
from ldiv.core.trees import Array, Tree, leaves
from ldiv.errors import SingularMatrixError
from ldiv.rules.diagonal_slogdet import DiagonalSLogDet
from ldiv.rules.gather import add_up
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.rules.structured_slogdet import StructuredSLogDet
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.diagonal_part import DiagonalPart
from ldiv.structures.gram import Gram
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.product import Product
from ldiv.structures.scaled import Scaled
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
    """Is its determinant a product of powers of those of its parts?"""
    base = structure.unview()[0]
    return isinstance(base, tuple(_FORMULAS)) and _has_square_parts(base)


def _of_base(base: Structure, p: Tree) -> Pair:
    if isinstance(base, SelfAdjoint):
        return slogdet_of(base.base, p)
    if isinstance(base, Dense):
        sign, size = bind(SLogDet(base.shape[0]), p)
        return sign, size
    if has_formula(base):
        return _FORMULAS[type(base)](base, p)
    if isinstance(base, Sum) and (split := _low_rank(base, p)) is not None:
        return _of_update(*split)
    if isinstance(base, Triangular | SparseTriangular) and base.diagonal == "unit":
        return _one(base, p)
    if (d := _diagonal(base, p)) is not None:
        sign, size = bind(DiagonalSLogDet(), d)
        return sign, size
    if base.rank < base.shape[0]:
        raise SingularMatrixError("slogdet", f"a rank of {base.rank} at most", certain=True)
    sign, size = bind(StructuredSLogDet(base, singular_state()), p)
    return sign, size


def _has_square_parts(base: Any) -> bool:
    return all(part.shape[0] == part.shape[1] for part in base.parts)


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


# -- made of others --------------------------------------------------------------------------------


def _of_kronecker(base: Any, p: Tree) -> Pair:
    (a, b), ((s, l), (t, m)) = base.parts, map(slogdet_of, base.parts, p)
    return s ** b.shape[0] * t ** a.shape[0], b.shape[0] * l + a.shape[0] * m


def _of_gram(base: Any, p: Tree) -> Pair:
    sign, size = slogdet_of(base.base, p[0])
    return 0 * sign + 1, 2 * size


def _of_product(base: Any, p: Tree) -> Pair:
    (s, l), (t, m) = map(slogdet_of, base.parts, p)
    return s * t, l + m


def _of_multiple(base: Any, p: Tree) -> Pair:
    sign, size = slogdet_of(base.base, p[0])
    alpha = conj(p[1]) if base.scalar == "conjugate" else p[1]
    alpha = 0 * alpha + real(alpha) if base.scalar == "real" else alpha
    turn, scale = bind(DiagonalSLogDet(), alpha[..., None])
    return sign * turn ** base.shape[0], size + base.shape[0] * scale


_FORMULAS: dict[type[Structure], Callable[[Any, Tree], Pair]] = {
    Kronecker: _of_kronecker,
    Gram: _of_gram,
    Product: _of_product,
    Scaled: _of_multiple,
}


def _low_rank(base: Sum, p: Tree) -> tuple[Structure, Tree, Structure, Tree] | None:
    """(A, its parameters, the low-rank update, its parameters), where A has entries to factor."""
    if len(base.parts) != 2:
        return None
    for one, other in ((0, 1), (1, 0)):
        if 0 < base.parts[other].rank < base.shape[0]:
            a = base.parts[one]
            return (a, p[one], base.parts[other], p[other]) if _is_factored(a) else None
    return None


def _is_factored(a: Structure) -> bool:
    """Dense arrays are as fast factored as a whole, where nothing cancels."""
    return not isinstance(a.unview()[0], Dense)


def _of_update(a: Structure, pa: Tree, update: Structure, pu: Tree) -> Pair:
    (u, p_left), (vh, p_right) = update.halves(pu)
    like, r = leaves(pu)[0], u.shape[1]
    columns = matmul(u, p_left, unit_columns(like, r, range(r)))
    c = matmul(vh, p_right, solve(a, pa, columns))
    c = c + unit_columns(c, r, range(r))
    (s, l), (t, m) = slogdet_of(a, pa), bind(SLogDet(r), c)
    return s * t, l + m


def broadcast_to_batch(structure: Structure, p: Tree, pair: Pair) -> Pair:
    """Both with all batch axes of the parameters."""
    cores, flat = leaves(structure.core), leaves(p)
    batch = broadcast(*(batch_of(x, own) for x, own in zip(flat, cores, strict=True)))
    s, l = (namespace(x).broadcast_to(x, batch) if x.shape != batch else x for x in pair)
    return s, l
