"""l = log |det S(p)|.

tangent      dl = Re tr(S^-1 dS)
cotangent    p_bar = l_bar dS^*[S^-H]
cost         1 factorization forward; of a sparse S linear in p the derivative takes about as much
             again (see `inverse_entries`), of a dense one it is the inverse (see `inverse`), of a
             diagonal n divisions, of others n solves, a block of columns of S^-H at a time, and
             never the whole inverse
reference    Jacobi's formula
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import conj, factors, real, unit_columns
from ldiv.core.cached_property import cached_property
from ldiv.core.compiled import Compiled
from ldiv.core.compiled_call import CompiledCall
from ldiv.core.dispatch import namespace
from ldiv.core.errstate import singular_state, under
from ldiv.core.rule import Rule, bind
from ldiv.core.structure import Structure, nothing, outer, plus, push
from ldiv.core.trees import Tree, leaves, rebuild
from ldiv.core.units import Unit, of_matrix
from ldiv.engines import entries, registry, solver
from ldiv.engines.factors.dense_calls import DeterminantCalls, dense_calls
from ldiv.engines.factors.dense_programs import dense_programs
from ldiv.rules.inverse import Inverse, is_whole
from ldiv.rules.inverse_entries import inverse_entries
from ldiv.rules.quotient import quotient
from ldiv.rules.solve import solve
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import Symmetric

BLOCK = 64  # columns of the inverse in memory at a time


@dataclass(frozen=True)
class LogAbsDet(Rule):
    """Argument p; output (*batch,)."""

    structure: Structure
    assume_a: str = "gen"
    method: str = "auto"
    singular: str = field(default_factory=singular_state)

    sees_overflow = True

    @cached_property
    def on_host(self) -> bool:
        return self.structure.on_host

    @cached_property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core,)

    @property
    def units(self) -> tuple[Unit, ...]:
        return of_matrix(self.structure, (0,), adds=(2 * self.structure.shape[0],))

    @cached_property
    def compiled(self) -> Compiled | None:
        """What finds it below Python, if that is anything."""
        if not self.on_host:
            return None
        found: Compiled | None = dense_calls(
            DeterminantCalls, self.structure, self.assume_a, self.method, False, False
        )
        return found

    def compiled_call(self, *flat: Any) -> CompiledCall | None:
        programs = dense_programs(self.structure, self.assume_a, self.method)
        return programs and programs.logabsdet(self.singular, *flat)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        with under(self.singular):
            if self.method == "auto" and entries.supports(self.structure, args[0]):
                return (entries.logabsdet(self.structure, args[0], self.assume_a),)
            return (solver.logabsdet(self.structure, args[0], self.assume_a, self.method),)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (p,), (dp,) = args, tangents
        t = relative_change(self.structure, p, dp, self.assume_a, self.method, self.singular)
        return (None if t is None else real(t),)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (p,), (l_bar,) = args, cotangents
        if l_bar is None:
            return tuple(map(nothing, need))
        return (
            determinant_cotangent(
                self.structure, p, l_bar, need[0], self.assume_a, self.method, self.singular
            ),
        )


def relative_change(
    structure: Structure, p: Tree, dp: Tree, assume_a: str, method: str, singular: str
) -> Array | None:
    """tr(S^-1 dS) = d det S / det S; of a sparse Hermitian S its real part, which is all of it."""
    base, op = structure.unview()
    if isinstance(base, Diagonal):
        t = None if dp is None else namespace(p).sum(quotient(dp, p), axis=-1)
        return t if t is None or op not in "CH" else conj(t)
    if isinstance(base, Dense):
        if dp is None:
            return None
        t = namespace(p).linalg.trace(solve(base, p, dp, assume_a, method, singular))
        return conj(t) if op in "CH" else t
    if entries.supports(structure, p):
        if dp is None:
            return None
        g = inverse_entries(structure, p, assume_a, singular)
        axes = tuple(range(-leaves(structure.core)[0], 0))
        # all four views have the same gradient, but the determinant of A^H is conj(det A)
        t = namespace(g).sum(conj(g) * dp, axis=axes)
        return conj(t) if op in "CH" else t
    total = None
    for e in _blocks(structure, p):
        x = push(structure, p, dp, e)
        if x is None:
            return None
        y = solve(structure, p, x, assume_a, method, singular)
        total = plus(total, namespace(x).sum(e * y, axis=(-2, -1)))
    return total


def determinant_cotangent(
    structure: Structure,
    p: Tree,
    weight: Array,
    need: Tree,
    assume_a: str,
    method: str,
    singular: str,
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
        w = real(w) if isinstance(base, Symmetric) and base.op == "H" else w
        x = bind(Inverse(base.H, assume_a, method, singular), p)[0]
        return (conj(w) if op in "CH" else w) * x
    if entries.supports(structure, p):
        if not need:
            return None
        g = inverse_entries(structure, p, assume_a, singular)
        w = factors(weight, leaves(structure.core)[0])
        return (conj(w) if op in "CH" else w) * g
    total = leaves(nothing(need))
    for e in _blocks(structure, p):
        column = factors(weight) * solve(structure.H, p, e, assume_a, method, singular)
        part = leaves(outer(structure, p, column, e, need))
        total = [plus(t, g) for t, g in zip(total, part, strict=True)]
    return rebuild(need, total)


def _blocks(structure: Structure, p: Tree) -> Iterator[Array]:
    n, like = structure.shape[0], leaves(p)[0]
    starts = range(0, max(n, 1), BLOCK)  # without rows one empty block: derivatives are zeros
    return (unit_columns(like, n, range(j, min(j + BLOCK, n))) for j in starts)


def cases(
    structures: Iterator[tuple[Structure, Tree]], draw: Any
) -> Iterator[tuple[LogAbsDet, tuple[Tree, ...]]]:
    for structure, p in structures:
        if np.equal(*structure.shape) and registry.has_factors(structure, p):
            yield LogAbsDet(structure), (p,)
