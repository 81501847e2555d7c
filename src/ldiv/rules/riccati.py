"""The stabilizing solution X of an algebraic Riccati equation, by the closed loop Ac = A - B K.

continuous   A^H X + X A - X B R^-1 B^H X + Q = 0,      K = R^-1 B^H X
tangent      Ac^H dX + dX Ac = -(N + N^H + dQ + K^H dR K),   N = X (dA - dB K)
cotangent    Ac l + l Ac^H = -sym(X_bar);   A_bar = 2 X l,   Y = X
discrete     A^H X A - X - A^H X B K + Q = 0,           K = (R + B^H X B)^-1 B^H X A
tangent      dX - Ac^H dX Ac = N + N^H + dQ + K^H dR K,      N = Ac^H X (dA - dB K)
cotangent    l - Ac l Ac^H = sym(X_bar);    A_bar = 2 Y l,   Y = X Ac
both         B_bar = -A_bar K^H,   Q_bar = l,   R_bar = K l K^H
cost         SciPy's solution forward; 1 Schur form of Ac for all derivatives
reference    Arnold and Laub, Proc. IEEE 72 (1984); Kao and Hennequin, arXiv:2011.11430
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import adjoint, hermitian, numpy_dtype
from ldiv.core.dispatch import namespace, on_host
from ldiv.core.finite import require_finite, unwarned
from ldiv.core.rule import Rule
from ldiv.core.structure import Structure, minus, nonzero, plus
from ldiv.core.trees import Tree
from ldiv.engines.accuracy.limits import limits
from ldiv.errors import OF_UNSTABLE_LOOPS, NotSymmetricError, SingularMatrixError, expected_got
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
    on_host = True
    scipy_solves: ClassVar[Callable[..., Array]]
    sign: ClassVar[int]

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        for name, x in zip("abqr", args, strict=True):
            require_finite(name, x)
        xp = namespace(args[0])
        batch = np.broadcast_shapes(*(tuple(x.shape[:-2]) for x in args))
        dtype = numpy_dtype(xp.zeros(0, dtype=xp.result_type(*args)))
        shape = (*batch, *args[0].shape[-2:])
        return on_host(partial(self._each, shape), ((shape, dtype),), *args)

    def _each(self, shape: tuple[int, ...], *args: Any) -> tuple[Any, ...]:
        every = [np.broadcast_to(x, (*shape[:-2], *x.shape[-2:])) for x in args]
        found = np.empty(shape, np.result_type(*args))
        with unwarned():  # what overflows is no solution
            for at in np.ndindex(shape[:-2]):
                found[at] = self._one(*(x[at] for x in every))
        return (found,)

    def _one(self, a: Any, b: Any, q: Any, r: Any) -> Any:
        if not a.size:
            return a
        _require_hermitian("q", q)
        _require_hermitian("r", r)
        try:
            x = hermitian(self.scipy_solves(a, b, hermitian(q), hermitian(r)))
        except (np.linalg.LinAlgError, ValueError) as error:
            raise _unstable(f"none ({str(error).rstrip('.')})", "SciPy") from error
        k, residual, size = self.residual(a, b, hermitian(q), hermitian(r), x)
        accurate = limits(x.dtype).accurate
        share = np.abs(residual).max() / size
        if not share <= accurate:
            raise _unstable(f"a residual of {share:.1e}")
        if not self.is_stable(np.linalg.eigvals(a - b @ k)):
            raise _unstable("a closed loop that is not stable")
        return x

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (da, db, dq, dr), (a, b, _, r), (x,) = tangents, args, out
        if da is db is dq is dr is None:
            return (None,)
        k, loop, y = self.loop(a, b, hermitian(r), x)
        yh, kh = adjoint(y), adjoint(k)
        # half of the right-hand side, which is Hermitian
        half = None if da is None else yh @ da
        half = minus(half, None if db is None else yh @ db @ k)
        half = plus(half, None if dq is None else hermitian(dq) / 2)
        half = plus(half, None if dr is None else kh @ hermitian(dr) @ k / 2)
        half = nonzero(half)
        return (self._solved(loop, half + adjoint(half), "N"),)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (x_bar,), (a, b, _, r), (x,) = cotangents, args, out
        if x_bar is None:
            return (None,) * 4
        k, loop, y = self.loop(a, b, hermitian(r), x)
        lam = self._solved(loop, hermitian(x_bar), "H")
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
        vector = xp.reshape(right, (*batch, n * n, 1))
        found = solve(structure, (loop, loop), self.sign * vector)
        return xp.reshape(found, (*found.shape[:-2], n, n))

    @abstractmethod
    def equation(self, n: int) -> Structure:
        """dX -> the change of the equation, of the parameters (Ac, Ac)."""

    @abstractmethod
    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        """(K, Ac, Y)."""

    @abstractmethod
    def residual(self, a: Any, b: Any, q: Any, r: Any, x: Any) -> tuple[Any, Any, Any]:
        """(K, the residual, how large its terms are), of NumPy arrays."""

    @abstractmethod
    def is_stable(self, values: Any) -> bool:
        """By the eigenvalues of the closed loop."""


def _gain(r: Array, right: Array) -> Array:
    """R^-1 B^H X .., of which all orders are known."""
    return solve(dense(*r.shape[-2:]), r, right)


def _require_hermitian(name: str, x: Any) -> None:
    try:
        refuse_asymmetry(x, adjoint(x), "H")
    except NotSymmetricError as error:
        came = "one that differs from its adjoint by more than rounding"
        advice = "Pass its Hermitian part: the equation has no other."
        raise ValueError(expected_got(name, "a Hermitian matrix", came, advice)) from error


def _size(*terms: Any) -> float:
    return sum(float(np.abs(term).max()) for term in terms) or 1.0


def _unstable(evidence: str, by: str = "a look at it") -> SingularMatrixError:
    return SingularMatrixError(
        by,
        evidence,
        what="the Riccati equation",
        verdict="has no stabilizing solution",
        causes=OF_UNSTABLE_LOOPS,
    )


@dataclass(frozen=True)
class ContinuousRiccati(Riccati):
    """A^H X + X A - X B R^-1 B^H X + Q = 0."""

    sign = -1
    scipy_solves = staticmethod(scipy.linalg.solve_continuous_are)

    @property
    def public_name(self) -> str:
        return "solve_continuous_are"

    def equation(self, n: int) -> Structure:
        return kronecker_sum(dense(n, n).H, dense(n, n).T)

    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        k = _gain(r, adjoint(b) @ x)
        return k, a - b @ k, x

    def residual(self, a: Any, b: Any, q: Any, r: Any, x: Any) -> tuple[Any, Any, Any]:
        k, ax = np.linalg.solve(r, adjoint(b) @ x), adjoint(a) @ x
        quadratic = x @ b @ k
        return k, ax + adjoint(ax) - quadratic + q, _size(ax, quadratic, q)

    def is_stable(self, values: Any) -> bool:
        return bool((values.real < 0).all())


@dataclass(frozen=True)
class DiscreteRiccati(Riccati):
    """A^H X A - X - A^H X B (R + B^H X B)^-1 B^H X A + Q = 0."""

    sign = 1
    scipy_solves = staticmethod(scipy.linalg.solve_discrete_are)

    @property
    def public_name(self) -> str:
        return "solve_discrete_are"

    def equation(self, n: int) -> Structure:
        return stein(dense(n, n).H, dense(n, n).T)

    def loop(self, a: Array, b: Array, r: Array, x: Array) -> tuple[Array, Array, Array]:
        bx = adjoint(b) @ x
        k = _gain(r + bx @ b, bx @ a)
        loop = a - b @ k
        return k, loop, x @ loop

    def residual(self, a: Any, b: Any, q: Any, r: Any, x: Any) -> tuple[Any, Any, Any]:
        bx, axa = adjoint(b) @ x, adjoint(a) @ x @ a
        k = np.linalg.solve(r + bx @ b, bx @ a)
        quadratic = adjoint(a) @ x @ b @ k
        return k, axa - x - quadratic + q, _size(axa, x, quadratic, q)

    def is_stable(self, values: Any) -> bool:
        return bool((np.abs(values) < 1).all())


def cases(structures: Any, draw: Any) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    def definite(*shape: int) -> Array:
        x = draw(*shape)
        return x @ adjoint(x) + np.eye(shape[-1])

    for rule in (ContinuousRiccati(), DiscreteRiccati()):
        yield rule, (draw(3, 3), draw(2, 3, 2), definite(3, 3), definite(2, 2))
