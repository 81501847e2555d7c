"""Sign and logarithm of the determinant of a structure, by the formula that it has.

    diagonal, triangle                        det D = prod d_i
    product, multiple, Kronecker, Gram        its own `slogdet`, of those of its parts
    low-rank update                           det (A + U V^H) = det A det (I + V^H A^-1 U)

Everything else is factored as a whole: sparse matrices by blocks, dense ones by LAPACK.
"""

from __future__ import annotations

from ldiv.core.arrays.shapes import batch_of, broadcast, conj, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS, Structure, matmul
from ldiv.errors import SingularMatrixError
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.structures.dense import Dense, dense
from ldiv.structures.diagonal import Diagonal

Pair = tuple[Array, Array]


def slogdet_of(structure: Structure, p: Tree) -> Pair:
    """(det S(p) / |det S(p)|, log |det S(p)|), of shape (*batch,) or one that broadcasts to it."""
    base, op = structure.unview()
    sign, size = _of_base(base, p)
    return conj(sign) if VIEWS[op][1] else sign, size


def has_formula(structure: Structure) -> bool:
    """Whether the determinant of the structure has a formula in determinants of its parts."""
    base = structure.unview()[0]
    return base.slogdet is not None and base.has_square_parts


def _of_base(base: Structure, p: Tree) -> Pair:
    if base.plain is not base:
        return slogdet_of(base.plain, p)
    if base.slogdet is not None and base.has_square_parts:
        return base.slogdet(p, slogdet_of)
    if (split := base.update(p)) is not None and not isinstance(split[0][0].unview()[0], Dense):
        return _of_update(*split)
    if (d := base.determinant_diagonal(p)) is not None:
        return _bound(Diagonal(base.shape[0]), d)
    if base.rank < base.shape[0]:
        raise SingularMatrixError("slogdet", f"a rank of {base.rank} at most", certain=True)
    return _bound(base, p)


def _bound(structure: Structure, p: Tree) -> Pair:
    sign, size = bind(SLogDet(structure), p)
    return sign, size


def _of_update(of_a: tuple[Structure, Tree], of_update: tuple[Structure, Tree]) -> Pair:
    """det (A + U V^H) = det A det (I + V^H A^-1 U); a dense A is factored with its update, where
    nothing cancels.
    """
    (a, pa), (update, pu) = of_a, of_update
    (u, p_left), (vh, p_right) = update.halves(pu)
    like, r = leaves(pu)[0], u.shape[1]
    columns = matmul(u, p_left, unit_columns(like, r, range(r)))
    c = matmul(vh, p_right, solve(a, pa, columns))
    c = c + unit_columns(c, r, range(r))
    (s, l), (t, m) = slogdet_of(a, pa), _bound(dense(r, r), c)
    return s * t, l + m


def broadcast_to_batch(structure: Structure, p: Tree, pair: Pair) -> Pair:
    """Broadcast sign and logarithm to all batch axes of the parameters."""
    cores, flat = leaves(structure.core), leaves(p)
    batch = broadcast(*(batch_of(x, own) for x, own in zip(flat, cores, strict=True)))
    s, l = (namespace(x).broadcast_to(x, batch) if x.shape != batch else x for x in pair)
    return s, l
