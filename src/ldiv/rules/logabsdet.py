"""l = log |det S(p)|.

tangent      dl = Re tr(S^-1 dS)
cotangent    p_bar = l_bar dS^*[S^-H]
cost         1 factorization forward; of a sparse S linear in p the derivative takes about as much
             again (see `inverse_entries`), of others n solves, a block of columns of S^-H at a
             time, and never the whole inverse
reference    Jacobi's formula
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ldiv.core.arrays import conj, real, unit_columns
from ldiv.core.dispatch import namespace
from ldiv.core.errstate import singular_state, under
from ldiv.core.rule import Rule
from ldiv.core.structure import Structure, nothing, outer, plus, push
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.engines import registry, solver
from ldiv.engines.selected import entries
from ldiv.rules.inverse_entries import inverse_entries
from ldiv.rules.solve import solve

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
    def on_host(self) -> bool:  # type: ignore[override]
        return self.structure.on_host

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        with under(self.singular):
            if self.method == "auto" and entries.supports(self.structure, args[0]):
                return (entries.logabsdet(self.structure, args[0], self.assume_a),)
            return (solver.logabsdet(self.structure, args[0], self.assume_a, self.method),)

    def _entries(self, p: Tree) -> Array | None:
        """The gradient of a sparse matrix, in the space of p."""
        if not entries.supports(self.structure, p):
            return None
        return inverse_entries(self.structure, p, self.assume_a, self.singular)

    def _blocks(self, like: Array) -> Iterator[Array]:
        n = self.structure.shape[0]
        return (unit_columns(like, n, range(j, min(j + BLOCK, n))) for j in range(0, n, BLOCK))

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (p,), (dp,) = args, tangents
        total = None
        if dp is not None and (g := self._entries(p)) is not None:
            axes = tuple(range(-leaves(self.structure.core)[0], 0))
            return (real(namespace(g).sum(conj(g) * dp, axis=axes)),)
        for e in self._blocks(leaves(p)[0]):
            x = push(self.structure, p, dp, e)
            if x is None:
                return (None,)
            inner = namespace(x).sum(
                e * solve(self.structure, p, x, self.assume_a, self.method, self.singular),
                axis=(-2, -1),
            )
            total = plus(total, real(inner))
        return (total,)

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
        if need[0] is True and (g := self._entries(p)) is not None:
            return (l_bar[(..., *[None] * leaves(self.structure.core)[0])] * g,)
        total = leaves(nothing(need[0]))
        for e in self._blocks(leaves(p)[0]):
            column = l_bar[..., None, None] * solve(
                self.structure.H, p, e, self.assume_a, self.method, self.singular
            )
            part = leaves(outer(self.structure, p, column, e, need[0]))
            total = [plus(t, g) for t, g in zip(total, part, strict=True)]
        return (rebuild(need[0], total),)


def cases(
    structures: Iterator[tuple[Structure, Tree]], draw: Any
) -> Iterator[tuple[LogAbsDet, tuple[Tree, ...]]]:
    for structure, p in structures:
        if np.equal(*structure.shape) and registry.has_factors(structure, p):
            yield LogAbsDet(structure), (p,)
