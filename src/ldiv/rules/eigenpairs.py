"""A X = B X Lam, X^H B X = I: k pairs, A Hermitian, B Hermitian positive definite.

tangent      a = X^H dA X,  b = X^H dB X,  c = a - (b H + H b)/2;   dlam_i = Re c_ii;
             dX = X (Om - b/2) + Z,   Om H - H Om = c outside of clusters,
             z_i = -S_i (dA - lam_i dB) x_i;   dH = c inside of clusters
cotangent    M = X^H X_bar = Hh + K, Hermitian and skew;  T H - H T = K outside of clusters, and
             Hermitian(H_bar) + diag lam_bar inside;   w_i = -S_i x_bar_i;
             A_bar = P_A X^H,  P_A = W + X T;
             B_bar = P_B X^H,  P_B = -W H - X (Hh/2 + (T H + H T)/2)
             H = diag(lam): c_ji R_ji is Om,  R_ji = 1 / (lam_i - lam_j);  S_i is the reduced
             resolvent: k deflated solves, none without X_bar
cost         forward that of the engine; each direction of a derivative k deflated solves
reference    Magnus, Econometric Theory 1 (1985); Nelson, AIAA J. 14 (1976)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, common_batch, real, spread, unit_columns
from ldiv.core.arrays.space import combined, gram
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.rule import ENGINE, FEW, Traits, Unit
from ldiv.core.rules.structure import minus, nothing, outer, plus, push
from ldiv.engines.accuracy.limits import RESOLVED
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.eigen.task import EigenTask, choose
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.spectral_calls import EigenpairCalls
from ldiv.errors import NotDifferentiableError, value_error
from ldiv.rules.deflated import deflated
from ldiv.rules.divided import divided
from ldiv.rules.inverse_gaps import gaps
from ldiv.rules.pencil import OfPencil
from ldiv.structures.composed import is_dense
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class Eigenpairs(OfPencil):
    """Arguments (pA, pB, auxiliaries); outputs lam, X, gam, G, error_bound, H.

    lam (*batch, k), X (*batch, n, k), H (*batch, k, k).
    gam and G are the guard pairs, computed beyond the k; `error_bound` is that of all eigenvalues.
    A loss knows lam, of which only sums over a cluster have derivatives; derivatives know H = X^H A X,
    which is diag(lam) and moves with the basis of a cluster.
    """

    task: EigenTask

    eigenvalues = (1, 0, 1, 0, 1, 1)
    vectors = (0, 1, 0, 1, 0, 0)

    def operation(self) -> Compiled | None:
        """Return the calls that find all pairs of dense matrices."""
        return EigenpairCalls() if _finds_all(self.task) else None

    def program_in_units(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.eigh(*flat) if _finds_all(self.task) else None

    def pullback_in_units(self, *of: Any) -> CompiledCall | None:
        if not _finds_all(self.task):
            return None
        return dense_programs.eigh_pullback(self.task.on_degenerate, *of)

    @cached_property
    def traits(self) -> Traits:
        return Traits(
            differentiable=(True, True, False, False, False, True),
            on_host=self.task.on_host,
            few=FEW if is_dense(self.task.A.unview()[0]) else ENGINE,
            only_refuses=is_dense(self.task.A.unview()[0]),  # an iteration branches on its checks
        )

    def measured(self, unit: Unit, flat: Sequence[Array]) -> list[tuple[Array, int]]:
        if self.compiled is None:
            return super().measured(unit, flat)
        return [(flat[0], 2)]  # all of it is read

    def kernel(self, pA: Tree, pB: Tree, auxiliaries: Tree) -> Arrays:
        lam, X, error_bound = choose(self.task, pA, pB).pairs(self.task, pA, pB, auxiliaries)
        k = self.task.k
        # lam of [[0, A], [A^H, 0]] that are singular values of A, which have no derivative at 0
        if self.task.positive and 0 not in lam.shape:
            check_or_raise(
                (lam[..., :k] > RESOLVED * error_bound[..., :k]).all(),
                _vanishes,
                namespace(lam).min(lam[..., :k]),
            )
        H = embedded(lam[..., :k], X)
        return lam[..., :k], X[..., :k], lam[..., k:], X[..., k:], error_bound, H

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (pA, pB, auxiliaries), (dpA, dpB, _), (_, X, gam, G, error_bound, H) = args, tangents, out
        dAX, dBX = push(self.task.A, pA, dpA, X), push(self.task.B, pB, dpB, X)
        gram, combined = self._gram, self._combined
        # dA X - dB X H
        moved = minus(dAX, None if dBX is None else combined(dBX, H))
        if moved is None:
            return (None,) * len(out)
        self._require_differentiable(dBX is not None)
        c = gram(X, moved)  # a - b H
        b = None if dBX is None else gram(X, dBX)
        # a - b H + (b H - H b) / 2 = a - (b H + H b) / 2
        c = c if b is None else c + (b @ H - H @ b) / 2
        dlam = real(namespace(c).linalg.diagonal(c))
        R, dlam, same = self._gaps(False, out, off_diagonal(c), gram(G, moved), X, moved, dlam)
        # Om H - H Om = c outside of clusters;  C = Om - b / 2
        C = minus(divided(H, c, R), None if b is None else b / 2)
        # z_i = -S_i (dA x_i - lam_i dB x_i); for k = n nothing is outside of X
        Z = (
            None
            if self.task.k == self.task.n
            else deflated(self.task, pA, pB, H, X, -moved, auxiliaries, (gam, G, error_bound))
        )
        return dlam, plus(combined(X, C), Z), None, None, None, c * same

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (pA, pB, auxiliaries), (_, X, gam, G, error_bound, H) = args, out
        lam_bar, X_bar, *_, H_bar = cotangents
        self._require_differentiable(any(leaves(need[1])))
        # M = X^H X_bar, and the couplings G^H X_bar with the guard pairs
        if X_bar is None:
            of_vectors, m, beyond = X * 0, H * 0, gam[..., :, None] * H[..., :1, :] * 0
        else:
            of_vectors, m, beyond = X_bar, self._gram(X, X_bar), self._gram(G, X_bar)
        # only the skew part K of M is divided by gaps: the Hermitian part stays finite in a cluster
        K, lam_bar = (m - adjoint(m)) / 2, out[0] * 0 if lam_bar is None else lam_bar
        R, lam_bar, same = self._gaps(True, out, K, beyond, X, of_vectors, lam_bar)
        # T is the part of P_A in the span of X; W is the rest
        T, outside = embedded(lam_bar, X), None
        if H_bar is not None:
            T = T + (H_bar + adjoint(H_bar)) / 2 * same
        if X_bar is not None:
            T = T + divided(H, K, R)
        if X_bar is not None and self.task.k < self.task.n:  # for k = n nothing is outside of X
            # w_i = -S_i x_bar_i
            outside = deflated(self.task, pA, pB, H, X, -X_bar, auxiliaries, (gam, G, error_bound))
        if X_bar is None and H_bar is None:  # T is diagonal
            P_A = X * self.task.space.spread(lam_bar)[..., None, :]
        else:
            P_A = plus(self._combined(X, T), outside)
        P_B = None
        if not self.task.standard:
            # P_B = -W H - X (Hh / 2 + (T H + H T) / 2) with Hh = (M + M^H) / 2
            middle = (T @ H + H @ T) / 2 + (m + adjoint(m)) / 4
            rest = None if outside is None else self._combined(outside, H)
            P_B = minus(-self._combined(X, middle), rest)
        A_bar = outer(self.task.A, pA, P_A, X, need[0])
        B_bar = nothing(need[1]) if P_B is None else outer(self.task.B, pB, P_B, X, need[1])
        return A_bar, B_bar, nothing(need[2])

    # -- in the space of the vectors ---------------------------------------------------

    def _gram(self, x: Array, y: Array) -> Array:
        return gram(self.task.space, x, y)

    def _combined(self, x: Array, c: Array) -> Array:
        return combined(self.task.space, x, c)

    def _sizes(self, x: Array) -> Array:
        """The norms of columns."""
        return self.task.space.norms(norm(x, axis=-2))

    def _require_differentiable(self, in_B: bool) -> None:
        if in_B and self.task.constraints:
            raise NotDifferentiableError(
                "lobpcg with constraints Y is not differentiable in B, which measures them. "
                "Leave Y out, or take eigsh."
            )

    def _gaps(
        self, cotangent: bool, out: Any, inside: Array, beyond: Array, X: Array, Y: Array, d: Array
    ) -> tuple[Array, Array, Array]:
        """R, d and clusters, if the couplings of the pairs, X^H Y and G^H Y, allow a derivative."""
        lam, _, gam, G, error_bound, _ = out
        xp = namespace(X)
        # the rounding error of a coupling x^H y is about eps |x| |y|
        k, batch = lam.shape[-1], common_batch((2, 2, 2), (X, G, Y))
        sizes = self._sizes(xp.concat([spread(z, batch) for z in (X, G, Y)], axis=-1))
        x, y = sizes[..., :-k], sizes[..., -k:]
        scale = x[..., :, None] * y[..., None, :]
        # a coupling of two of the k has the rounding of the larger of (j, i) and (i, j)
        mutual = scale[..., :k, :]
        scale = xp.concat([xp.maximum(mutual, mutual.mT), scale[..., k:, :]], axis=-2)
        coupling = xp.concat([inside, beyond], axis=-2)
        return gaps(cotangent, self.task.on_degenerate, lam, gam, error_bound, coupling, scale, d)


def embedded(lam: Array, like: Array) -> Array:
    """diag(lam), in the dtype of `like`."""
    return lam[..., :, None] * unit_columns(like, lam.shape[-1], range(lam.shape[-1]))


def _finds_all(task: EigenTask) -> bool:
    """Whether the task asks for all pairs of one dense Hermitian part, in ascending order."""
    A, op = task.A.unview()
    return (
        isinstance(A, Symmetric)
        and (A.op, op) == ("H", "N")
        and isinstance(A.base, Dense)
        and task.standard
        and (task.k, task.which, task.method) == (task.n, "index", "lapack")
        and not task.positive
    )


def off_diagonal(x: Array, keep: bool = False) -> Array:
    """x without its diagonal, or what is left out, its diagonal."""
    one = unit_columns(x, x.shape[-1], range(x.shape[-1]))
    return x * one if keep else x * (1 - one)


def _vanishes(least: Any) -> ValueError:
    return value_error(
        "k",
        "singular values that are not zero",
        f"one of {float(least):.1e}",
        "Ask for no more than the rank.",
    )
