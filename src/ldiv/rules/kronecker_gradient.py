"""G = the gradient of log |det S(p)| for S = K_1 x K_2 x ... + s I, a function of the matrices K_i.

tangent      dG = T(dp), as `ldiv.engines.direct.kronecker_eigenpairs` has it: equal eigenvalues are
             no obstacle
cotangent    p_bar = T(G_bar): T is the second derivative of a real function, and self-adjoint
             of T(e): e_bar = T(T_bar)
cost         no more than the factorization; there is no third derivative, and so the laws see this
             rule inside of `SLogDet`
reference    Jacobi's formula
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ldiv.core.arrays.shapes import alike, common_batch, conj, factors, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.structure import Structure, plus
from ldiv.core.rules.traits import Traits
from ldiv.core.rules.units import Unit, of_matrix, of_rest
from ldiv.engines.factors.factorize import factorize
from ldiv.engines.factors.plan import planned
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.structures.composed import active
from ldiv.structures.shifted_kronecker import ShiftedKronecker


@dataclass(frozen=True)
class KroneckerGradient(Rule):
    """Argument p; outputs G, one for each parameter. With `along` arguments p and e; outputs T(e)."""

    structure: Structure
    assume_a: str = "gen"
    along: bool = False

    traits = Traits(on_host=True, only_refuses=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core,) * (1 + self.along)

    @property
    def units(self) -> tuple[Unit, ...]:
        powers = leaves(self.structure.unit_powers)
        if self.along:  # of T the units of p are others for each pair of parameters
            return (of_rest(self.structure, (2,) * len(powers), (2,) * len(powers)),)
        return of_matrix(self.structure, tuple(-power for power in powers))

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        batch = common_batch(self.core, args)
        if 0 in (*batch, *self.structure.shape):
            own = [
                x.shape[x.ndim - c :]
                for x, c in zip(leaves(args[0]), leaves(self.core[0]), strict=True)
            ]
            like = leaves(args[0])[0]
            return tuple(namespace(like).zeros((*batch, *shape), **alike(like)) for shape in own)
        plan = planned(self.structure, args[0], None, self.assume_a).factors
        assert plan is not None, "its engine has factors"
        factor: Any = factorize(plan, args[0])[0]
        return tuple(factor.inverse_tangent(args[1]) if self.along else factor.inverse_entries())

    def _along(self, p: Tree, e: Tree) -> tuple[Array | None, ...]:
        """T(e), in which None is zero."""
        if not active(e):
            return (None,) * len(leaves(p))
        pairs = zip(leaves(p), leaves(e), strict=True)
        whole = [namespace(x).zeros_like(x) if d is None else d for x, d in pairs]
        return bind(replace(self, along=True), p, rebuild(p, whole))

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        if not self.along:
            return self._along(args[0], tangents[0])
        if active(tangents[0]):
            raise _third()
        return self._along(args[0], tangents[1])

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        if self.along and active(need[0]) and active(cotangents):
            raise _third()
        moved = self._along(args[0], cotangents)
        kept = [x if n else None for x, n in zip(moved, leaves(need[-1]), strict=True)]
        zero = (rebuild(need[0], [None for _ in moved]),) * self.along
        return *zero, rebuild(need[-1], kept)


def _third() -> NotDifferentiableError:
    what = "the determinant of kron(A, B, shift=s)"
    advice = "Pass a dense array. torch.autograd.functional.hvp asks for it, torch.func does not."
    return NotDifferentiableError(
        expected_got(what, "derivatives of first and second order", "one of third", advice)
    )


def gradient(structure: Structure, p: Tree, assume_a: str) -> tuple[Array, ...] | None:
    """G, the same for all views; None for other structures."""
    base = structure.unview()[0].plain
    if not isinstance(base, ShiftedKronecker):
        return None
    return bind(KroneckerGradient(base, assume_a), p)


def change(structure: Structure, g: tuple[Array, ...], dp: Tree) -> Array | None:
    """<G, dp>."""
    total = None
    for x, d, own in zip(g, leaves(dp), leaves(structure.core), strict=True):
        if d is not None:
            xp, axes = namespace(x), tuple(range(-own, 0))
            total = plus(total, xp.sum(real(conj(x) * d), axis=axes) if own else real(x) * real(d))
    return total


def weighted(structure: Structure, weight: Array, g: tuple[Array, ...], need: Tree) -> Tree:
    """w G, of the parameters that are needed."""
    scaled = zip(g, leaves(need), leaves(structure.core), strict=True)
    return rebuild(need, [factors(real(weight), own) * x if n else None for x, n, own in scaled])
