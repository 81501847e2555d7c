"""Sign and logarithm of the determinant of a structure, by the formula that it has.

    diagonal, triangle                        det D = prod d_i
    product, multiple, Kronecker, Gram        its own `slogdet`, of those of its parts
    low-rank update of a factored A           det (A + U V^H) = det A det (I + V^H A^-1 U)

Everything else is factored as a whole: sparse matrices by blocks, dense ones by LAPACK.
"""

from __future__ import annotations

from ldiv.core.arrays.shapes import batch_of, broadcast, conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.errors import SingularMatrixError
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.rules.updated_solve import capacitance, updated
from ldiv.structures.dense import dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sum import Sum

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
    if (update := updated(base, p, leaves(p)[0], "gen", "auto")) is not None:
        return _of_update(update, p)
    if (d := base.determinant_diagonal(p)) is not None:
        return _bound(Diagonal(base.shape[0]), d)
    if base.rank < base.shape[0]:
        raise SingularMatrixError("slogdet", f"a rank of {base.rank} at most", certain=True)
    return _bound(base, p)


def _bound(structure: Structure, p: Tree) -> Pair:
    sign, size = bind(SLogDet(structure), p)
    return sign, size


def _of_update(s: Sum, p: Tree) -> Pair:
    """The sign by the formula, and the logarithm by the factor of a solve, which is refused where
    the formula cancels: A much closer to singular than A + U V^H.
    """
    (size,) = bind(SLogDet(s, sign=False), p)
    _, c = capacitance(s, p, solve)
    (one, _), (two, _) = slogdet_of(*s.update(p)[0]), _bound(dense(*c.shape[-2:]), c)
    return one * two, size


def broadcast_to_batch(structure: Structure, p: Tree, pair: Pair) -> Pair:
    """Broadcast sign and logarithm to all batch axes of the parameters."""
    cores, flat = leaves(structure.core), leaves(p)
    batch = broadcast(*(batch_of(x, own) for x, own in zip(flat, cores, strict=True)))
    s, l = (namespace(x).broadcast_to(x, batch) if x.shape != batch else x for x in pair)
    return s, l
