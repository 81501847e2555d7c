"""G = dS(p)^*[S(p)^-H], the gradient of log |det S(p)|.

It is made of entries of the inverse if S is sparse and linear in p, and is a function of the K_i if
S = K_1 x K_2 x ... + s I.

tangent      dG = T(dp),   T(e) = -S^*[(S^-1 S(e) S^-1)^H] of a linear S. For Kronecker products
             `ldiv.engines.direct.kronecker_eigenpairs` has T: equal eigenvalues are no obstacle
cotangent    p_bar = T(G_bar): T is the second derivative of a real function, and self-adjoint
             of T(e): e_bar = T(T_bar), p_bar = T'(e, T_bar), the third derivative
cost         1 factorization, and about as much again for G and thrice for T, of Kronecker products
             less; the third derivative, of sparse matrices alone, takes 5 n solves, a block of
             columns at a time
reference    Takahashi, Fagan, Chin (1973); Erisman and Tinney (1975); Jacobi's formula
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import broadcast, conj, factors, real, unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import Structure, matmul, nothing, outer, plus
from ldiv.core.rules.units import of_matrix, of_rest
from ldiv.engines import entries
from ldiv.engines.factors.sparse_programs import sparse_programs
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.rules.solve import solve
from ldiv.structures.composed import active
from ldiv.structures.shifted_kronecker import ShiftedKronecker


@dataclass(frozen=True)
class InverseEntries(Rule):
    """Argument p; outputs G, one in the space of each parameter."""

    structure: Structure
    assume_a: str = "gen"

    traits = Traits(name="selected_inverse", on_host=True, only_refuses=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core,)

    @property
    def units(self) -> tuple[Unit, ...]:
        # a gradient of log |det S(p)| has the inverse of the unit of p
        powers = leaves(self.structure.unit_powers or ())
        return of_matrix(self.structure, tuple(-power for power in powers))

    def kernel(self, *args: Tree) -> Arrays:
        return entries.gradient(self.structure, args[0], self.assume_a)

    def program(self, *flat: Any) -> CompiledCall | None:
        programs = sparse_programs(self.structure, self.assume_a, "auto")
        return None if programs is None else programs.inverse(self.policy, *flat)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return InverseTangent(self.structure, self.assume_a).along(args[0], tangents[0])

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        rule = InverseTangent(self.structure, self.assume_a)
        return (_needed(need[0], rule.along(args[0], cotangents)),)


@dataclass(frozen=True)
class InverseTangent(Rule):
    """Arguments p and e; outputs T(e), one in the space of each parameter."""

    structure: Structure
    assume_a: str = "gen"

    traits = Traits(name="selected_inverse", on_host=True, only_refuses=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core, self.structure.core)

    @property
    def units(self) -> tuple[Unit, ...]:
        of_each = (2,) * len(leaves(self.structure.core))
        rest = of_rest(self.structure, of_each, of_each)
        # the units of several parameters are others for each pair of them
        return (rest,) if len(of_each) > 1 else (*of_matrix(self.structure, (-4,), 1), rest)

    def kernel(self, p: Tree, e: Tree) -> Arrays:
        return entries.tangent(self.structure, p, e, self.assume_a)

    def along(self, p: Tree, e: Tree) -> Tangents:
        """T(e), in which None is zero."""
        if not active(e):
            return (None,) * len(leaves(p))
        pairs = zip(leaves(p), leaves(e), strict=True)
        whole = [namespace(x).zeros_like(x) if d is None else d for x, d in pairs]
        return bind(self, p, rebuild(p, whole))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, e), (dp, de) = args, tangents
        # dT = T(de) + T'(e, dp)
        moved = self.along(p, de)
        if not active(dp):
            return moved
        return tuple(plus(t, third) for t, third in zip(moved, self._third(p, e, dp), strict=True))

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        p, e = args
        if not active(cotangents):
            return nothing(need[0]), nothing(need[1])
        # p_bar = T'(e, T_bar),  e_bar = T(T_bar), T being self-adjoint
        p_bar = self._third(p, e, cotangents) if active(need[0]) else leaves(nothing(need[0]))
        e_bar = self.along(p, cotangents) if active(need[1]) else leaves(nothing(need[1]))
        return _needed(need[0], p_bar), _needed(need[1], e_bar)

    def _third(self, p: Tree, e: Tree, other: Tree) -> Arrays:
        """S^*[(S^-1 A S^-1 B S^-1 + S^-1 B S^-1 A S^-1)^H] with A = S(a) and B = S(b), the directions.

        There is one for each of a batch in any of the three: a tangent is not summed over it.
        """
        if isinstance(self.structure, ShiftedKronecker):
            raise _no_third()
        (p,), (a,), (b,) = leaves(p), leaves(e), leaves(other)
        view, n, total = self.structure.H, self.structure.shape[0], None
        each = namespace(p).broadcast_to(p, broadcast(p.shape, a.shape, b.shape))

        def inverse(x: Array) -> Array:
            return solve(view, p, x, self.assume_a, "auto")

        # x = S^-H E,  y = S^-H (B^H S^-H A^H + A^H S^-H B^H) x for a block E of columns of I;
        # the sum of y E^H over the blocks is the matrix that S^* projects
        for j in range(0, n, entries.BLOCK):
            unit = unit_columns(p, n, range(j, min(j + entries.BLOCK, n)))
            x = inverse(unit)
            by_a, by_b = (inverse(matmul(view, c, x)) for c in (a, b))
            y = inverse(matmul(view, b, by_a) + matmul(view, a, by_b))
            total = plus(total, outer(self.structure, each, y, unit, True))
        assert total is not None
        return (total,)


def _needed(need: Tree, found: Any) -> Tree:
    """The cotangents that are needed, as a tree."""
    return rebuild(need, [x if n else None for x, n in zip(found, leaves(need), strict=True)])


def _no_third() -> NotDifferentiableError:
    what = "the determinant of kron(A, B, shift=s)"
    advice = "Pass a dense array. torch.autograd.functional.hvp asks for it, torch.func does not."
    return NotDifferentiableError(
        expected_got(what, "derivatives of first and second order", "one of third", advice)
    )


def inverse_entries(structure: Structure, p: Array, assume_a: str = "gen") -> Array:
    """S^*[S(p)^-H] for a sparse S linear in p, in the space of p."""
    return bind(InverseEntries(structure, assume_a), p)[0]


# -- as Jacobi's formula has them -----------------------------------------------------------------


def gradient(structure: Structure, p: Tree, assume_a: str) -> Arrays | None:
    """G, the same for all views; None for structures without such entries."""
    if entries.supports(structure, p, assume_a):
        return bind(InverseEntries(structure, assume_a), p)
    base = structure.unview()[0].plain
    if not isinstance(base, ShiftedKronecker):
        return None
    return bind(InverseEntries(base, assume_a), p)


def change(structure: Structure, g: Arrays, dp: Tree) -> Array | None:
    """<G, dp>, which is d det S / det S; of Kronecker products it is real."""
    # <G, dp> = sum of conj(g) dp, for each member of a batch
    total = None
    for x, d, own in zip(g, leaves(dp), leaves(structure.core), strict=True):
        if d is not None:
            t = conj(x) * d
            total = plus(total, namespace(t).sum(t, axis=tuple(range(-own, 0))) if own else t)
    return None if total is None else _in_view(structure, total)


def weighted(structure: Structure, weight: Array, g: Arrays, need: Tree) -> Tree:
    """w G, of the parameters that are needed."""
    w = _in_view(structure, weight)
    return _needed(
        need, [factors(w, own) * x for x, own in zip(g, leaves(structure.core), strict=True)]
    )


def _in_view(structure: Structure, w: Array) -> Array:
    """Numbers like det S as those of the base: all views have the same G, but det A^H = conj(det A)."""
    base, op = structure.unview()
    if isinstance(base.plain, ShiftedKronecker):
        return real(w)
    return conj(w) if op in "CH" else w


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        if entries.supports(structure, p):
            yield InverseEntries(structure), (p,)
            yield InverseTangent(structure), (p, draw(*p.shape))
