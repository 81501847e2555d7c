"""The stabilizing solution X of an algebraic Riccati equation, by the closed loop Ac = A - B K.

continuous   A^H X + X A - X B R^-1 B^H X + Q = 0,      K = R^-1 B^H X
tangent      Ac^H dX + dX Ac = -(N + N^H + dQ + K^H dR K),   N = X (dA - dB K)
cotangent    Ac l + l Ac^H = -sym(X_bar);   A_bar = 2 X l,   Y = X
discrete     A^H X A - X - A^H X B K + Q = 0,           K = (R + B^H X B)^-1 B^H X A
tangent      dX - Ac^H dX Ac = N + N^H + dQ + K^H dR K,      N = Ac^H X (dA - dB K)
cotangent    l - Ac l Ac^H = sym(X_bar);    A_bar = 2 Y l,   Y = X Ac
both         B_bar = -A_bar K^H,   Q_bar = l,   R_bar = K l K^H
cost         `ldiv.engines.functions.stabilizing` forward; 1 Schur form of Ac for all derivatives
reference    Arnold and Laub, Proc. IEEE 72 (1984); Kao and Hennequin, arXiv:2011.11430
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldiv.core.arrays.shapes import adjoint, common_batch, each_on_host, hermitian, result_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite, unwarned
from ldiv.core.rules.rule import Cases, Rule, Traits
from ldiv.core.rules.structure import Structure, minus, nonzero, plus
from ldiv.engines.functions import stabilizing
from ldiv.errors import NotSymmetricError, value_error
from ldiv.rules.solve import solve
from ldiv.structures.asymmetry import refuse_asymmetry
from ldiv.structures.dense import dense
from ldiv.structures.kronecker_sum import kronecker_sum
from ldiv.structures.stein import stein


@dataclass(frozen=True)
class Riccati(Rule):
    """Arguments A (*batch, n, n), B (*batch, n, m), Q (*batch, n, n), R (*batch, m, m); output X.

    Of Q and R the Hermitian parts are read.
    """

    core = (2, 2, 2, 2)
    engine: ClassVar[type[stabilizing.Equation]]
    sign: ClassVar[int]

    def kernel(self, *args: Tree) -> Arrays:
        for name, x in zip("abqr", args, strict=True):
            require_finite(name, x)
        shape = (*common_batch(self.core, args), *args[0].shape[-2:])
        return each_on_host(self._one, self.core, args, ((shape, result_dtype(args)),))

    def _one(self, *args: Any) -> tuple[Any]:
        if not args[0].size:
            return (args[0],)
        _require_hermitian("q", args[2])
        _require_hermitian("r", args[3])
        a, b, q, r = (x.astype(np.result_type(x, np.float64)) for x in args)
        with unwarned():  # what overflows is no solution
            return (self.engine(a, b, hermitian(q), hermitian(r)).solved(),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da, db, dq, dr), (a, b, _, r), (x,) = tangents, args, out
        k, loop, y = self.loop(a, b, hermitian(r), x)
        # Y^H dA - Y^H dB K + (dQ + K^H dR K) / 2
        yh, kh = adjoint(y), adjoint(k)
        # half of the right-hand side, which is Hermitian
        half = None if da is None else yh @ da
        half = minus(half, None if db is None else yh @ db @ k)
        half = plus(half, None if dq is None else hermitian(dq) / 2)
        half = plus(half, None if dr is None else kh @ hermitian(dr) @ k / 2)
        half = nonzero(half)
        return (self._solved(loop, half + adjoint(half), "N"),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (x_bar,), (a, b, _, r), (x,) = cotangents, args, out
        k, loop, y = self.loop(a, b, hermitian(r), x)
        # Ac lam + lam Ac^H = -sym(X_bar), or lam - Ac lam Ac^H = sym(X_bar)
        lam = self._solved(loop, hermitian(x_bar), "H")
        # A_bar = 2 Y lam,  B_bar = -A_bar K^H,  Q_bar = lam,  R_bar = K lam K^H
        a_bar, kh = 2 * y @ lam, adjoint(k)
        of_a, of_b, of_q, of_r = need
        return (
            a_bar if of_a else None,
            -a_bar @ kh if of_b else None,
            lam if of_q else None,
            k @ lam @ kh if of_r else None,
        )

    def _solved(self, loop: Array, right: Array, op: str) -> Array:
        """X of the linear equation of the closed loop, or of its adjoint."""
        xp, (*batch, n, _) = namespace(right), right.shape
        structure = self.equation(n).view(op)
        # row-major: S vec(X) is A X + X B^T, or X - A X B^T
        vector = xp.reshape(right, (*batch, n * n, 1))
        found = solve(structure, (loop, loop), self.sign * vector)
        return xp.reshape(found, (*found.shape[:-2], n, n))

    @abstractmethod
    def equation(self, n: int) -> Structure:
        """dX -> the change of the equation, of the parameters (Ac, Ac)."""

    @abstractmethod
    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        """(K, Ac, Y)."""


def _gain(r: Array, right: Array) -> Array:
    """R^-1 B^H X .., of which all orders are known."""
    return solve(dense(*r.shape[-2:]), r, right)


def _require_hermitian(name: str, x: Any) -> None:
    try:
        refuse_asymmetry(x, adjoint(x), "H")
    except NotSymmetricError as error:
        came = "one that differs from its adjoint by more than rounding"
        advice = "Pass its Hermitian part: the equation has no other."
        raise value_error(name, "a Hermitian matrix", came, advice) from error


@dataclass(frozen=True)
class ContinuousRiccati(Riccati):
    """A^H X + X A - X B R^-1 B^H X + Q = 0."""

    sign = -1
    engine = stabilizing.Continuous

    traits = Traits(name="solve_continuous_are", on_host=True)

    def equation(self, n: int) -> Structure:
        # A X + X B^T with A = Ac^H, B = Ac^T: Ac^H X + X Ac
        return kronecker_sum(dense(n, n).H, dense(n, n).T)

    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        k = _gain(r, adjoint(b) @ x)
        return k, a - b @ k, x


@dataclass(frozen=True)
class DiscreteRiccati(Riccati):
    """A^H X A - X - A^H X B (R + B^H X B)^-1 B^H X A + Q = 0."""

    sign = 1
    engine = stabilizing.Discrete

    traits = Traits(name="solve_discrete_are", on_host=True)

    def equation(self, n: int) -> Structure:
        # X - A X B^T with A = Ac^H, B = Ac^T: X - Ac^H X Ac
        return stein(dense(n, n).H, dense(n, n).T)

    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        bx = adjoint(b) @ x
        # K = (R + B^H X B)^-1 B^H X A
        inner = r + bx @ b
        k = _gain(inner, bx @ a)
        loop = a - b @ k
        # R K = B^H X Ac: a small Ac lacks the digits of K that cancelled in A - B K
        change = _gain(inner, bx @ loop - r @ k)
        k, loop = k + change, loop - b @ change
        return k, loop, x @ loop


def cases(structures: Any, draw: Any) -> Cases:
    def definite(*shape: int) -> Array:
        x = draw(*shape)
        return x @ adjoint(x) + np.eye(shape[-1])

    for rule in (ContinuousRiccati(), DiscreteRiccati()):
        yield rule, (draw(3, 3), draw(2, 3, 2), definite(3, 3), definite(2, 2))
