"""t = tr(S^-1 dS) = d det S / det S, and its adjoint dS^*[w S^-H]: Jacobi's formula.

cost         of a sparse S linear in p about a factorization (see `inverse_entries`), of a dense one
             the inverse (see `inverse`), of a diagonal n divisions, of an update of rank r 9 r solves
             (see `updated_determinant`), of a Kronecker product plus a multiple of I less than the
             factorization (see `inverse_entries`), of others n solves, a block of columns of
             S^-H at a time, and never the whole inverse
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ldiv.core.arrays.shapes import adjoint, conj, factors, real, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure, nothing, outer, plus, push
from ldiv.rules import updated_determinant
from ldiv.rules.inverse import Inverse, is_whole
from ldiv.rules.inverse_entries import change, gradient, weighted
from ldiv.rules.quotient import quotient
from ldiv.rules.solve import solve
from ldiv.rules.updated_solve import updated as of_update
from ldiv.structures.composed import active
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric

BLOCK = 64  # columns of the inverse in memory at a time


def relative_change(
    structure: Structure, p: Tree, dp: Tree, assume_a: str, method: str
) -> Array | None:
    """tr(S^-1 dS) = d det S / det S; of a sparse Hermitian S its real part, which is all of it."""
    base, op = structure.unview()
    if isinstance(base, Diagonal):
        # sum of dd_i / d_i
        t = None if dp is None else namespace(p).sum(quotient(dp, p), axis=-1)
        return t if t is None or op not in "CH" else conj(t)
    if isinstance(base, Dense):
        if dp is None:
            return None
        t = namespace(p).linalg.trace(solve(base, p, dp, assume_a, method))
        return conj(t) if op in "CH" else t
    if not active(dp):
        return None
    if (g := gradient(structure, p, assume_a)) is not None:
        return change(structure, g, dp)
    if (updated := of_update(structure, p, leaves(p)[0], assume_a, method)) is not None:
        of_a = partial(relative_change, assume_a="gen", method="auto")
        return updated_determinant.relative_change(updated, p, dp, solve, of_a)
    total = None
    for e in _blocks(structure, p):
        x = push(structure, p, dp, e)
        if x is None:
            return None
        # tr(S^-1 dS) = sum of e^H S^-1 dS e over the columns e of the identity
        y = solve(structure, p, x, assume_a, method)
        total = plus(total, namespace(x).sum(e * y, axis=(-2, -1)))
    return total


def determinant_cotangent(
    structure: Structure, p: Tree, weight: Array, need: Tree, assume_a: str, method: str
) -> Tree:
    """dS^*[w S^-H] for weights w (*batch,)."""
    base, op = structure.unview()
    if isinstance(base, Diagonal):
        w = conj(weight) if op in "CH" else weight
        return quotient(w[..., None], conj(p)) if need else None
    if is_whole(base):
        if not need:
            return None
        w = factors(weight)
        # the determinant is real, and so is what moves it
        w = real(w) if isinstance(base, Symmetric) and base.op == "H" else w
        x = adjoint(bind(Inverse(base, assume_a, method), p)[0])
        return (conj(w) if op in "CH" else w) * x
    if not active(need):
        return nothing(need)
    if (g := gradient(structure, p, assume_a)) is not None:
        return weighted(structure, weight, g, need)
    if (updated := of_update(structure, p, leaves(p)[0], assume_a, method)) is not None:
        of_a = partial(determinant_cotangent, assume_a="gen", method="auto")
        return updated_determinant.cotangent(updated, p, weight, need, solve, of_a)
    total = leaves(nothing(need))
    for e in _blocks(structure, p):
        # dS^*[w S^-H e e^H], summed over the columns e of the identity
        column = factors(weight) * solve(structure.H, p, e, assume_a, method)
        part = leaves(outer(structure, p, column, e, need))
        total = [plus(t, g) for t, g in zip(total, part, strict=True)]
    return rebuild(need, total)


def _blocks(structure: Structure, p: Tree) -> Iterator[Array]:
    n, like = structure.shape[0], leaves(p)[0]
    starts = range(0, max(n, 1), BLOCK)  # without rows one empty block: derivatives are zeros
    return (unit_columns(like, n, range(j, min(j + BLOCK, n))) for j in starts)
