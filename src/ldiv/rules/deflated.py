"""The bordered system  A W - B W H + B X M = R,  X^H B W = C,  for A X = B X H, X^H B X = I.

Solution: in the basis in which H is diag(theta), with the reduced resolvents S_i,
    w_i = S_i r_i + X c_i,   m_i = X^H r_i - (H - theta_i) c_i.
tangent      the same system with R = dR - (dA W - dB W H - B W dH + d(BX) M),
             C = dC - d(BX)^H W,   d(BX) = dB X + B dX
cotangent    the same system with (W_bar, M_bar) gives (R_bar, C_bar);
             Y = -(R_bar M^H + W C_bar^H),
             p_A = -outer(R_bar, W),   p_B = outer(R_bar, W H) + outer(Y, X),
             H_bar = W^H B R_bar,   X_bar = B Y
cost         k deflated solves each time; the factor of the forward pass is used again, if any
reference    Fox and Kapoor, AIAA J. 6 (1968); Andrew and Tan, Numer. Linear Algebra Appl. 7 (2000)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, common_batch, spread
from ldiv.core.arrays.space import combined, gram
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import ENGINE, FEW, Rule, Traits, bind
from ldiv.core.rules.structure import matmul, minus, nothing, outer, plus, push
from ldiv.engines.accuracy.limits import RESOLVED
from ldiv.engines.eigen.deflated_solve import reduced
from ldiv.engines.eigen.task import EigenTask
from ldiv.structures.composed import is_dense


@dataclass(frozen=True)
class Deflated(Rule):
    """Arguments (pA, pB, H, X, R, C, auxiliaries, (gam, G, error_bound)); outputs W, M.

    The result depends on the first six. The rest only helps to solve: the auxiliaries of the
    engine, and the guard pairs with the error bounds of all eigenvalues.
    """

    task: EigenTask

    @property
    def core(self) -> Trees:
        A, B, auxiliaries = self.task.core
        return (A, B, 2, 2, 2, 2, auxiliaries, (1, 2, 1))

    @cached_property
    def traits(self) -> Traits:
        # dense systems have a closed form; an iteration branches on its checks
        is_small = is_dense(self.task.A.unview()[0])
        few = FEW if is_small else ENGINE
        return Traits(on_host=self.task.on_host, few=few, only_refuses=is_small)

    def kernel(self, *args: Tree) -> Arrays:
        pA, pB, H, X, R, C, auxiliaries, (gam, G, error_bound) = args
        # H = Q diag(theta) Q^H, so that the system falls apart into one deflated solve per column
        theta, Q = frontend_of(H).dense.eigh((H + adjoint(H)) / 2)
        X, R, C = X @ Q, R @ Q, adjoint(Q) @ C @ Q
        # w_i = S_i r_i + X c_i
        W = (
            reduced(
                self.task,
                (pA, pB, auxiliaries),
                theta,
                R,
                X,
                (gam, G, 2 * RESOLVED * error_bound[..., H.shape[-1] :, None]),
            )
            + X @ C
        )
        # m_i = X^H r_i - (H - theta_i) c_i
        M = gram(self.task.space, X, R) - (theta[..., :, None] - theta[..., None, :]) * C
        batch = common_batch(self.core, args)
        return spread(W @ adjoint(Q), batch), spread(Q @ M @ adjoint(Q), batch)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (pA, pB, H, X, _, _, *auxiliaries) = args
        (dpA, dpB, dH, dX, dR, dC, *_) = tangents
        (W, M) = out
        A, B, space = self.task.A, self.task.B, self.task.space
        # d(BX) = dB X + B dX
        dBX = plus(push(B, pB, dpB, X), None if dX is None else matmul(B, pB, dX))
        # dR - (dA W - dB W H - B W dH + d(BX) M)
        moved = push(A, pA, dpA, W)
        dBW = push(B, pB, dpB, W)
        moved = minus(moved, None if dBW is None else combined(space, dBW, H))
        moved = minus(moved, None if dH is None else combined(space, matmul(B, pB, W), dH))
        moved = plus(moved, None if dBX is None else combined(space, dBX, M))
        right: Any = minus(dR, moved)
        # dC - d(BX)^H W
        below: Any = minus(dC, None if dBX is None else gram(space, dBX, W))
        if right is None and below is None:
            return None, None
        return bind(self, pA, pB, H, X, _or_zeros(right, W), _or_zeros(below, M), *auxiliaries)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (pA, pB, H, X, _, _, *auxiliaries), (W_bar, M_bar), (W, M) = args, cotangents, out
        xp, space, (A, B) = namespace(W), self.task.space, (self.task.A, self.task.B)
        # the system is Hermitian in (W, M): its adjoint is solved like itself
        R_bar, C_bar = bind(
            self, pA, pB, H, X, _or_zeros(W_bar, W), _or_zeros(M_bar, M), *auxiliaries
        )
        Y = -(combined(space, R_bar, adjoint(M)) + combined(space, W, adjoint(C_bar)))
        # p_B = outer(R_bar, W H) + outer(Y, X) as one product, for R_bar (W H)^H = (R_bar H^H) W^H
        left = xp.concat([combined(space, R_bar, adjoint(H)), Y], axis=-1)
        right = xp.concat([W, X + 0 * W], axis=-1)
        return (
            # p_A = -outer(R_bar, W),  H_bar = W^H B R_bar,  X_bar = B Y
            outer(A, pA, -R_bar, W, need[0]),
            outer(B, pB, left, right, need[1]),
            gram(space, W, matmul(B, pB, R_bar)) if need[2] else None,
            matmul(B, pB, Y) if need[3] else None,
            R_bar if need[4] else None,
            C_bar if need[5] else None,
            *map(nothing, need[6:]),
        )


def _or_zeros(x: Array | None, like: Array) -> Array:
    return like * 0 if x is None else x


def deflated(task: EigenTask, *args: Tree) -> Array:
    """W for C = 0: sum over i of S_i r_i in the basis of eigenvectors."""
    pA, pB, H, X, R, *auxiliaries = args
    return bind(Deflated(task), pA, pB, H, X, R, 0 * H + 0 * (adjoint(X) @ R), *auxiliaries)[0]
