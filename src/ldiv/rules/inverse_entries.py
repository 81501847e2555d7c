"""G = S^*[S(p)^-H]: entries of an inverse on the pattern of S, the gradient of log |det S(p)|.

tangent      dG = T(dp),   T(e) = -S^*[(S^-1 S(e) S^-1)^H]
cotangent    p_bar = T(G_bar): T is the second derivative of a real function, and self-adjoint
             of T(e): e_bar = T(T_bar), p_bar = T'(e, T_bar), the third derivative
cost         1 factorization, and about as much again for G and thrice for T; the third derivative
             takes 5 n solves, a block of columns at a time
reference    Takahashi, Fagan, Chin (1973); Erisman and Tinney (1975); Jacobi's formula
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import broadcast, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.structure import Structure, matmul, outer, plus
from ldiv.core.rules.traits import Traits
from ldiv.core.rules.units import Unit, of_matrix, of_rest
from ldiv.engines import entries
from ldiv.engines.factors.sparse_programs import sparse_programs
from ldiv.rules.solve import solve


@dataclass(frozen=True)
class InverseEntries(Rule):
    """Argument p; output G in the space of p."""

    structure: Structure
    assume_a: str = "gen"

    traits = Traits(name="selected_inverse", on_host=True, only_refuses=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core,)

    @property
    def units(self) -> tuple[Unit, ...]:
        return of_matrix(self.structure, (-2,))

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return (entries.gradient(self.structure, args[0], self.assume_a),)

    def program(self, *flat: Any) -> CompiledCall | None:
        programs = sparse_programs(self.structure, self.assume_a, "auto")
        return None if programs is None else programs.inverse(self.policy, *flat)

    def _along(self, p: Array, e: Array | None) -> Array | None:
        if e is None:
            return None
        return bind(InverseTangent(self.structure, self.assume_a), p, e)[0]

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        return (self._along(args[0], tangents[0]),)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        return (self._along(args[0], cotangents[0]),)


@dataclass(frozen=True)
class InverseTangent(Rule):
    """Arguments p and e; output T(e) in the space of p."""

    structure: Structure
    assume_a: str = "gen"

    traits = Traits(name="selected_inverse", on_host=True, only_refuses=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core, self.structure.core)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (*of_matrix(self.structure, (-4,), 1), of_rest(self.structure, (2,), (2,)))

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        p, e = args
        return (entries.tangent(self.structure, p, e, self.assume_a),)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (p, e), (dp, de) = args, tangents
        return (
            plus(
                None if dp is None else self._third(p, e, dp),
                None if de is None else bind(self, p, de)[0],
            ),
        )

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (p, e), (t_bar,) = args, cotangents
        if t_bar is None:
            return None, None
        return (
            self._third(p, e, t_bar) if need[0] else None,
            bind(self, p, t_bar)[0] if need[1] else None,
        )

    def _third(self, p: Array, a: Array, b: Array) -> Array:
        """S^*[(S^-1 A S^-1 B S^-1 + S^-1 B S^-1 A S^-1)^H] with A = S(a) and B = S(b).

        There is one for each of a batch in any of the three: a tangent is not summed over it.
        """
        view, n, total = self.structure.H, self.structure.shape[0], None
        each = namespace(p).broadcast_to(p, broadcast(p.shape, a.shape, b.shape))

        def inverse(x: Array) -> Array:
            return solve(view, p, x, self.assume_a, "auto")

        for j in range(0, n, entries.BLOCK):
            unit = unit_columns(leaves(p)[0], n, range(j, min(j + entries.BLOCK, n)))
            x = inverse(unit)
            by_a, by_b = (inverse(matmul(view, c, x)) for c in (a, b))
            y = inverse(matmul(view, b, by_a) + matmul(view, a, by_b))
            total = plus(total, outer(self.structure, each, y, unit, True))
        assert total is not None
        return total


def inverse_entries(structure: Structure, p: Array, assume_a: str = "gen") -> Array:
    """S^*[S(p)^-H] for a sparse S linear in p, in the space of p."""
    return bind(InverseEntries(structure, assume_a), p)[0]


def cases(
    structures: Iterator[tuple[Structure, Tree]], draw: Any
) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    for structure, p in structures:
        if entries.supports(structure, p):
            yield InverseEntries(structure), (p,)
            yield InverseTangent(structure), (p, draw(*p.shape))
