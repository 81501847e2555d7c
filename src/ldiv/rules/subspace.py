"""An invariant subspace: A X = B X H, X^H B X = I, H = X^H A X.

Smooth also where single eigenpairs are not: no gap inside the subspace occurs in the formulas.
tangent      a = X^H dA X,  b = X^H dB X;
             A Z - B Z H = -(I - B X X^H)(dA X - dB X H),   X^H B Z = 0;
             dX = Z - X b/2,   dH = a - (b H + H b)/2
cotangent    A W - B W H = -(I - B X X^H) X_bar,   X^H B W = 0;
             A_bar = P_A X^H,   P_A = W + X Gam,   Gam = sym(H_bar);
             B_bar = P_B X^H,   P_B = -W H - X (sym(X^H X_bar)/2 + (Gam H + H Gam)/2)
cost         forward that of the engine; each direction of a derivative k deflated solves
reference    Stewart and Sun, Matrix Perturbation Theory, chapter V
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, common_batch, join, numpy_dtype, real, spread
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.structure import minus, nothing, outer, plus, push
from ldiv.core.rules.unchanged import Passing
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.eigen.task import EigenTask, choose
from ldiv.errors import NotDifferentiableError
from ldiv.rules.deflated import deflated
from ldiv.rules.eigenpairs import embedded
from ldiv.rules.inverse_gaps import InverseGaps
from ldiv.rules.pencil import OfPencil
from ldiv.structures.composed import is_dense


@dataclass(frozen=True)
class Subspace(OfPencil):
    """Arguments (pA, pB, auxiliaries); outputs X, H, gam, G, error_bound.

    X (*batch, n, k), H (*batch, k, k).
    gam and G are the guard pairs, computed beyond the k; `error_bound` is that of all eigenvalues.
    """

    task: EigenTask

    eigenvalues = (0, 1, 1, 0, 1)
    vectors = (1, 0, 0, 1, 0)

    @cached_property
    def traits(self) -> Traits:
        return Traits(
            differentiable=(True, True, False, False, False),
            on_host=self.task.on_host,
            only_refuses=is_dense(self.task.A.unview()[0]),  # an iteration branches on its checks
        )

    def kernel(self, pA: Tree, pB: Tree, auxiliaries: Tree) -> Arrays:
        lam, X, error_bound = choose(self.task, pA, pB).pairs(self.task, pA, pB, auxiliaries)
        k = self.task.k
        return X[..., :k], embedded(lam[..., :k], X), lam[..., k:], X[..., k:], error_bound

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (pA, pB, auxiliaries), (dpA, dpB, _), (X, H, *rest) = args, tangents, out
        dAX, dBX = push(self.task.A, pA, dpA, X), push(self.task.B, pB, dpB, X)
        # dA X - dB X H
        moved = minus(dAX, None if dBX is None else dBX @ H)
        if moved is None:
            return (None,) * len(out)
        moved, _ = bind(self._defined(False), X, H, moved, H * 0, *rest)
        # A Z - B Z H = -(I - B X X^H) (dA X - dB X H),  X^H B Z = 0
        Z = deflated(self.task, pA, pB, H, X, -moved, auxiliaries, tuple(rest))
        a = adjoint(X) @ moved  # X^H dA X - b H
        if dBX is None:
            return Z, a, None, None, None
        # dX = Z - X b / 2,  dH = a - b H + (b H - H b) / 2 = a - (b H + H b) / 2
        b = adjoint(X) @ dBX
        return Z - X @ b / 2, a + (b @ H - H @ b) / 2, None, None, None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (pA, pB, auxiliaries), (X_bar, H_bar, *_), (X, H, *rest) = args, cotangents, out
        G, gam = X * 0 if X_bar is None else X_bar, H * 0 if H_bar is None else H_bar
        # H is Hermitian: only Gam = sym(H_bar) counts
        G, gam = bind(self._defined(True), X, H, G, (gam + adjoint(gam)) / 2, *rest)
        # A W - B W H = -(I - B X X^H) X_bar,  X^H B W = 0
        W = (
            None
            if X_bar is None
            else deflated(self.task, pA, pB, H, X, -G, auxiliaries, tuple(rest))
        )
        # P_A = W + X Gam
        P_A, P_B = plus(X @ gam, W), None
        if not self.task.standard:
            # P_B = -W H - X (sym(X^H X_bar) / 2 + (Gam H + H Gam) / 2)
            m = adjoint(X) @ G
            middle = X @ ((m + adjoint(m)) / 4 + (gam @ H + H @ gam) / 2)
            P_B = -middle if W is None else -middle - W @ H
        A_bar = outer(self.task.A, pA, P_A, X, need[0])
        return (
            A_bar,
            nothing(need[1]) if P_B is None else outer(self.task.B, pB, P_B, X, need[1]),
            nothing(need[2]),
        )

    def _defined(self, cotangent: bool) -> Defined:
        return Defined(cotangent, self.task.on_degenerate)


@dataclass(frozen=True)
class Defined(Passing):
    """Arguments (X, H, Y, Gam, gam, G, error_bound); outputs Y and Gam, if a derivative exists.

    A loss must not depend on the basis: skew(X^H Y) + H Gam - Gam H = 0; and the subspace must not
    cut a cluster.
    """

    cotangent: bool
    on_degenerate: str

    traits = Traits(may_overflow=True, only_refuses=True)
    core = (2, 2, 2, 2, 1, 2, 1)
    passed = (2, 3)

    def kernel(self, *args: Tree) -> Arrays:
        X, H, Y, gam, *rest = args
        xp = namespace(X)
        if self.on_degenerate != "drop":
            self._judge_basis(X, H, Y, gam)
            # H = Q diag(theta) Q^H: the columns of X Q are eigenvectors, with gaps to the guards
            theta, Q = frontend_of(H).dense.eigh(H)
            self._judge_cut(theta, X, Y @ Q, real(xp.linalg.diagonal(adjoint(Q) @ gam @ Q)), *rest)
        batch = common_batch(self.core, args)
        return spread(Y, batch) + 0, spread(gam, batch) + 0

    def _judge_basis(self, X: Array, H: Array, Y: Array, gam: Array) -> None:
        if not self.cotangent:
            return
        m = adjoint(X) @ Y
        # skew(X^H Y) + H Gam - Gam H, which vanishes for functions of the subspace
        defect = _size((m - adjoint(m)) / 2 + H @ gam - gam @ H)
        size = _size(X) * _size(Y) + _size(H) * _size(gam)
        root = float(np.finfo(numpy_dtype(size)).eps) ** 0.5
        if self.on_degenerate == "raise":
            check_or_raise((defect <= root * size).all(), _depends)
        else:
            frontend_of(X).host_callback(_warn, defect, root * size)

    def _judge_cut(
        self,
        theta: Array,
        X: Array,
        Y: Array,
        d: Array,
        guards: Array,
        G: Array,
        error_bound: Array,
    ) -> None:
        xp = namespace(X)
        # in the basis of eigenvectors only the couplings with the guard pairs matter
        beyond = adjoint(G) @ Y
        inside = xp.zeros_like(adjoint(X) @ Y)
        x, g, y = (norm(z, axis=-2) for z in (X, G, Y))
        coupling = join(inside, beyond, 2)
        InverseGaps(self.cotangent, self.on_degenerate, inside=False).kernel(
            theta, guards, error_bound, coupling, join(x, g, 1)[..., :, None] * y[..., None, :], d
        )


def _size(x: Array) -> Array:
    return norm(x, axis=(-2, -1))


def _depends() -> NotDifferentiableError:
    return NotDifferentiableError(_BASIS)


def _warn(defect: Any, allowed: Any) -> None:
    if (asnumpy(defect) > asnumpy(allowed)).any():
        warnings.warn(_BASIS, stacklevel=2)


_BASIS = (
    "no derivative: the loss depends on the basis of the subspace, which is arbitrary. "
    "Let it depend on X X^H M, on X f(H) X^H or on "
    "the eigenvalues of H; for single eigenvectors there is ldiv.eigsh."
)
