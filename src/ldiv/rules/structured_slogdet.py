"""s = det S(p) / |det S(p)|, l = log |det S(p)| of a structure that is factored as a whole.

tangent      dl = Re t,  ds = i s Im t,  t = tr(S^-1 dS)
cotangent    p_bar = dS^*[(l_bar + i Im(conj(s) s_bar)) S^-H]
cost         as `logabsdet`
reference    Jacobi's formula
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ldiv.core.arrays import conj, is_complex, real
from ldiv.core.dispatch import check_or_raise, namespace
from ldiv.core.errstate import singular_state, under
from ldiv.core.rule import Rule, bind
from ldiv.core.structure import Structure, nothing
from ldiv.core.trees import Array, Tree
from ldiv.engines import registry, solver
from ldiv.engines.selected import entries
from ldiv.rules.assertion import Unchanged
from ldiv.rules.logabsdet import determinant_cotangent, relative_change
from ldiv.rules.slogdet import not_positive, with_turn
from ldiv.structures.composed import Composed
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class StructuredSLogDet(Rule):
    """Argument p; outputs (s, l), (*batch,)."""

    structure: Structure
    singular: str = field(default_factory=singular_state)

    sees_overflow = True

    @cached_property
    def on_host(self) -> bool:  # type: ignore[override]
        return self.structure.on_host

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core,)

    @property
    def _real(self) -> bool:
        """Is the determinant real, whatever the entries?"""
        return self.structure.H == self.structure

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        with under(self.singular):
            if entries.is_sparse(self.structure, args[0]):
                return entries.slogdet(self.structure, args[0], "gen")
            base, op = self.structure.unview()
            sign, size = solver.slogdet(base, args[0])
            if self._real and is_complex(sign):
                sign = namespace(sign).sign(real(sign)) + 0 * sign
            return conj(sign) if op in "CH" else sign, size

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (p,), (dp,), (sign, _) = args, tangents, out
        t = relative_change(self.structure, p, dp, "gen", "auto", self.singular)
        if t is None:
            return None, None
        turns = is_complex(t) and not self._real
        return sign * (1j * namespace(t).imag(t)) if turns else 0 * sign * real(t), real(t)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (p,), (s_bar, l_bar), (sign, _) = args, cotangents, out
        weight = l_bar if self._real else with_turn(l_bar, s_bar, sign)
        if weight is None:
            return tuple(map(nothing, need))
        return (
            determinant_cotangent(self.structure, p, weight, need[0], "gen", "auto", self.singular),
        )


@dataclass(frozen=True)
class PositiveSign(Unchanged):
    """Arguments l and s, (*batch,); output l, or an error unless s = 1. `n` rows."""

    n: int

    core = (0, 0)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        size, sign = args
        eps = float(np.finfo(np.dtype(str(size.dtype).rpartition(".")[2])).eps)
        slack = 8 * self.n * eps if is_complex(sign) else 0
        check_or_raise((namespace(sign).abs(sign - 1) <= slack).all(), not_positive)
        return (size + 0,)


def if_positive(size: Array, sign: Array, n: int) -> Array:
    """The logarithm, where the determinant is positive."""
    return bind(PositiveSign(n), size, sign)[0]


def cases(
    structures: Iterator[tuple[Structure, Tree]], draw: Any
) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    for structure, p in structures:
        base = structure.unview()[0]
        by_parts = isinstance(base, Composed) and base.inverse is not None
        if np.equal(*structure.shape) and not by_parts and registry.has_factors(structure, p):
            part = base.base if isinstance(base, Symmetric) else base
            if base.pattern is not None or isinstance(part, Dense):
                yield StructuredSLogDet(structure), (p,)
