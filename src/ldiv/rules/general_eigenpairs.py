"""A x = lam B x, |x| = 1: k pairs of any matrix or pencil; without B, B = I.

tangent      [[A - lam B, B x], [x^H, 0]] [dx; -dlam] = [-(dA x - lam dB x); 0]
cotangent    [[A - lam B, B x], [x^H, 0]]^H [w; *] = [x_bar; -lam_bar];
             p_A = -outer(w, x),   p_B = outer(conj(lam) w, x), summed over the pairs
cost         forward that of the engine; each direction a bordered system for each pair, which is
             factored once
reference    Andrew, Chu and Lancaster, SIAM J. Matrix Anal. Appl. 14 (1993)

The phase of x is arbitrary: the tangent has x^H dx = 0, and a loss that depends on it raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import conj, transpose
from ldiv.core.dispatch import namespace
from ldiv.core.rule import bind
from ldiv.core.structure import minus, nothing, outer, push
from ldiv.core.trees import Tree
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.eigen import arnoldi, shift_invert
from ldiv.rules.bordered import border, bordered, parameters
from ldiv.rules.eigenpairs import embedded
from ldiv.rules.inverse_gaps import InverseGaps
from ldiv.rules.pencil import OfPencil


@dataclass(frozen=True)
class GeneralEigenpairs(OfPencil):
    """Arguments (pA, pB, auxiliaries); outputs lam (*batch, k), X (*batch, n, k), complex."""

    task: arnoldi.GeneralTask  # type: ignore[assignment]

    eigenvalues = (1, 0)
    vectors = (0, 0)

    @property
    def public_name(self) -> str:
        return "eigs"

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return arnoldi.pairs(self.task, *args)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (pA, pB, _), (dpA, dpB, _), (lam, X) = args, tangents, out
        dB = push(self.task.B, pB, dpB, X)
        moved = minus(push(self.task.A, pA, dpA, X), None if dB is None else dB * lam[..., None, :])
        if moved is None:
            return None, None
        dX, dlam = self._solved(False, out, args, -moved, 0 * lam)
        return -dlam, dX

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (pA, pB, _), (lam_bar, X_bar), (lam, X) = args, cotangents, out
        if lam_bar is None and X_bar is None:
            return tuple(map(nothing, need))
        lam_bar = 0 * lam if lam_bar is None else lam_bar
        if X_bar is None:
            X_bar = 0 * X
        else:
            lam_bar = self._free_of_phase(lam, X, lam_bar, X_bar)
        w, _ = self._solved(True, out, args, X_bar, -lam_bar)
        return (
            outer(self.task.A, pA, -w, X, need[0]),
            outer(self.task.B, pB, w * conj(lam)[..., None, :], X, need[1]),
            nothing(need[2]),
        )

    def _solved(
        self, adjoint: bool, out: tuple[Array, ...], args: Tree, r: Array, below: Array
    ) -> tuple[Array, Array]:
        """The solutions of all bordered systems, (*batch, n, k) and (*batch, k)."""
        A, B, (pA, pB, _), (lam, X) = self.task.A, self.task.B, args, out
        rule, s = bordered(A, B, not shift_invert.factors(A, B)), border(A, pA, r)
        right = namespace(r).concat([transpose(r), (below * s)[..., None]], axis=-1)[..., None]
        p = parameters(A, B, (pA, pB), lam, X, s)
        y = bind(rule.adjoint if adjoint else rule, p, right)[0]
        return transpose(y[..., :-1, 0]), y[..., -1, 0] * s

    def _free_of_phase(self, lam: Array, X: Array, lam_bar: Array, X_bar: Array) -> Array:
        """lam_bar, if the loss does not depend on the phases: Im(x_j^H x_bar_j) = 0."""
        xp = namespace(X)
        own = xp.sum(conj(X) * X_bar, axis=-2)
        coupling = embedded((own - conj(own)) / 2, X)
        scale = norm(xp.abs(X_bar), axis=(-2, -1))[..., None, None] + 0 * xp.abs(coupling)
        rule = InverseGaps(True, of="general eigenvalue")
        return bind(rule, lam, lam[..., :0], 0 * xp.abs(lam), coupling, scale, lam_bar)[1]
