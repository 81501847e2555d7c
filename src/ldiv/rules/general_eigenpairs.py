"""A x = lam B x, |x| = 1: k pairs of any matrix or pencil; without B, B = I.

tangent      [[A - lam_j B, B X_j], [X_j^H, 0]] [z_j; -c_j] = [-(dA x_j - lam_j dB x_j); 0];
             dlam_j = c_jj;   K_ij = c_ij R_ij,   y_j = z_j + X k_j,   dx_j = y_j - x_j x_j^H y_j
cotangent    g_j = x_bar_j - x_j x_j^H x_bar_j,   N = X^H G,   M = N o conj(R) + diag(lam_bar);
             [[A - lam_j B, B X_j], [X_j^H, 0]]^H [w_j; *] = [g_j; -m_j];
             p_A = -outer(w, x),   p_B = outer(conj(lam) w, x), summed over the pairs
             R_ij = 1 / (lam_j - lam_i), 0 inside a cluster
cost         forward that of the engine; each direction a bordered system for each pair, which is
             factored once
reference    Andrew, Chu and Lancaster, SIAM J. Matrix Anal. Appl. 14 (1993)

The border X_j holds x_j and those of X whose eigenvalues are near lam_j: so a system is regular if
its eigenvalue is repeated among the k. Entries i of c_j, m_j and k_j are there for i in the border;
z_j is orthogonal to it. The phase of x is arbitrary: the tangent has x^H dx = 0, and a loss that
depends on it raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, conj, dots
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import ENGINE, Traits, bind
from ldiv.core.rules.structure import minus, nothing, outer, plus, push
from ldiv.engines.eigen import arnoldi
from ldiv.rules.bordered import Systems
from ldiv.rules.divided import divided
from ldiv.rules.eig import sizes
from ldiv.rules.eigenpairs import embedded, off_diagonal
from ldiv.rules.inverse_gaps import InverseGaps
from ldiv.rules.pencil import OfPencil
from ldiv.rules.summed import no_size, summed, total


@dataclass(frozen=True)
class GeneralEigenpairs(OfPencil):
    """Arguments (pA, pB, auxiliaries); outputs lam (*batch, k), X (*batch, n, k), complex, and the
    size of `summed` (*batch,).
    """

    task: arnoldi.GeneralTask  # type: ignore[assignment]

    eigenvalues = (1, 0, 0)
    vectors = (0, 0, 0)

    @cached_property
    def traits(self) -> Traits:
        return Traits(name="eigs", on_host=self.task.on_host, few=ENGINE)

    def kernel(self, *args: Tree) -> Arrays:
        lam, X = arnoldi.pairs(self.task, *args)
        return lam, X, no_size(lam)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (pA, pB, _), (dpA, dpB, _), (lam, X, size) = args, tangents, out
        x = summed(X, size)
        dB = push(self.task.B, pB, dpB, x)
        # dA x_j - lam_j dB x_j
        moved = minus(push(self.task.A, pA, dpA, x), None if dB is None else dB * lam[..., None, :])
        if moved is None:
            return None, None, None
        systems = self._systems(out, args)
        # K_j [z_j; c_j] = [-moved_j; 0]: this c is minus that of the header
        z, c = systems.solved(False, -moved, 0 * (adjoint(X) @ moved))
        w, error_bound = systems.left()
        # rounding of a coupling w_i^H moved_j
        scale = sizes(w, -2)[..., :, None] * sizes(moved, -2)[..., None, :]
        # dlam_j = c_jj, in the sign of the header
        dlam = -namespace(c).linalg.diagonal(c)
        R, dlam, _ = self._gaps(False, lam, error_bound, off_diagonal(-c), scale, dlam)
        # y_j = z_j + X k_j,  dx_j = y_j - x_j x_j^H y_j
        y = z - X @ divided(embedded(lam, X), c, R)
        return dlam, y - X * dots(X, y)[..., None, :], None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (pA, pB, _), (lam_bar, X_bar, size_bar), (lam, X, size) = args, cotangents, out
        x, systems = summed(X, size), self._systems(out, args)
        lam_bar = 0 * lam if lam_bar is None else lam_bar
        X_bar = 0 * X if X_bar is None else X_bar
        own = dots(X, X_bar)
        # g_j = x_bar_j - x_j x_j^H x_bar_j,  N = X^H G inside the borders
        g = X_bar - X * own[..., None, :]
        inside = systems.inside(off_diagonal(adjoint(X) @ g))
        # its diagonal is i Im(x_j^H x_bar_j), by which the loss depends on the phase of x_j
        coupling = inside + embedded((own - conj(own)) / 2, X)
        scale = plus(total(X_bar), size_bar)[..., None, None] + 0 * namespace(X).abs(coupling)
        xp = namespace(X)
        # a pair may be defective if neither its value nor its vector is asked for
        asked = (lam_bar != 0) | xp.any(g != 0, axis=(-2, -1))[..., None]
        _, error_bound = systems.left(asked[..., None, :])
        R, lam_bar, _ = self._gaps(True, lam, error_bound, coupling, scale, lam_bar)
        # M = N o conj(R) + diag(lam_bar);  K_j^H [w_j; *] = [g_j; -m_j]
        m = divided(embedded(conj(lam), X), inside, conj(R)) + embedded(lam_bar, X)
        w, _ = systems.solved(True, g, -m)
        # p_A = -outer(w, x),  p_B = outer(conj(lam) w, x)
        return (
            outer(self.task.A, pA, -w, x, need[0]),
            outer(self.task.B, pB, w * conj(lam)[..., None, :], x, need[1]),
            nothing(need[2]),
        )

    def _systems(self, out: Arrays, args: Tree) -> Systems:
        (pA, pB, _), (lam, X, _) = args, out
        return Systems(self.task.A, self.task.B, (pA, pB), lam, X)

    def _gaps(self, cotangent: bool, lam: Array, error_bound: Array, *rest: Array) -> Any:
        rule = InverseGaps(cotangent, of="general eigenvalue")
        return bind(rule, lam, lam[..., :0], error_bound, *rest)
