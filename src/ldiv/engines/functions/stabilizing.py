"""The stabilizing solution X of a Riccati equation: SciPy's, and Newton's steps to the last digits.

gain         continuous  K = R^-1 B^H X,   discrete  K = (R + B^H X B)^-1 B^H X A;   F = A - B K
residual     continuous  E = F^H X + X F + K^H R K + Q,    discrete  E = F^H X F - X + K^H R K + Q
step         X <- X + D,   continuous  F^H D + D F = -E,   discrete  D - F^H D F = E
units        B -> B C, R -> C R C;   A -> T^-1 A T, B -> T^-1 B, Q -> T Q T, X -> T X T;
             C and T are diagonal: R, and the Hamiltonian matrix, are balanced
verdict      |E| <= eps^(2/3) W for each entry; eps W is the residual that eps in the entries of
             A, B, Q and R makes, in any units of states and inputs

An error of K enters E by its square. An E made of A^H X A or X B K has the errors of large terms
that cancel in F.
Reference: Kleinman, IEEE Trans. Autom. Control 13 (1968); Ghavimi and Laub, IEEE Trans. Autom.
Control 40 (1995).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import adjoint, hermitian
from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.accuracy.dense_matrix import equilibrated
from ldiv.engines.accuracy.limits import BALANCED, BALANCINGS, CAREFUL_STEPS, REFINED, limits
from ldiv.engines.functions.triangular_stein import triangular_stein
from ldiv.engines.functions.triangular_sylvester import triangular_sylvester
from ldiv.errors import OF_UNSTABLE_LOOPS, SingularMatrixError


@dataclass(frozen=True)
class Equation(ABC):
    """A Riccati equation of NumPy arrays in double precision; Q and R are Hermitian."""

    a: HostArray
    b: HostArray
    q: HostArray
    r: HostArray
    scipy_solves: ClassVar[Callable[..., HostArray]]

    def solved(self) -> HostArray:
        """X, by the first start from which Newton's steps end in one that is believed."""
        # R <- C R C, B <- B C
        r, scales = _equilibrated(self.r)
        b = self.b * scales
        found = None
        for t, start in self._starts(b):
            s = t[:, None]
            try:  # X is computed as T X T
                # A <- T^-1 A T, B <- T^-1 B, Q <- T Q T; X is T^-1 (T X T) T^-1
                equation = type(self)(self.a * t / s, b / s, self.q * t * s, r)
                return equation._refined(start(equation)) / t / s
            except SingularMatrixError as error:
                found = found or error
        assert found is not None
        raise found

    def _starts(self, b: HostArray) -> Iterator[tuple[HostArray, Callable[[Equation], HostArray]]]:
        """Units of the states, and X of the equation in them: SciPy's, then zero."""
        # |A|, |B| |B|^T and |Q|, of which the units balance the sums
        a, g, q = np.abs(self.a), np.abs(b) @ np.abs(b).T, np.abs(self.q)
        np.fill_diagonal(beside := a.copy(), 0)
        units = _units(beside, g, q)
        yield units, partial(Equation._scipys, balanced=True)
        # a small Q says nothing of the size of X, which A and B give
        t = _units(beside, 0 * g, 0 * q)
        yield (
            t * _root((g / t / t[:, None]).max(), a.max()),
            partial(Equation._scipys, balanced=False),
        )
        # X is as small as Q where A is stable
        yield units, lambda equation: 0 * equation.a

    def _scipys(self, balanced: bool) -> HostArray:
        try:
            return hermitian(self.scipy_solves(self.a, self.b, self.q, self.r, balanced=balanced))
        except (np.linalg.LinAlgError, ValueError) as error:
            raise _unstable(f"none ({str(error).rstrip('.')})", "SciPy") from error

    def _refined(self, x: HostArray) -> HostArray:
        """X after Newton's steps, until its residual is rounding, or halves no more."""
        limit, best, least = limits(x.dtype), x, np.inf
        for _ in range(CAREFUL_STEPS):
            # K, F = A - B K, E and W, max |E| / W
            try:
                k = self.gain(x)
            except np.linalg.LinAlgError as singular:
                raise _unstable("no gain, as R is singular") from singular
            loop = self.a - self.b @ k
            residual, terms = self.residual(k, loop, x)
            error = _share(residual, terms)
            # accurate already, and the last step did not halve the residual
            if not error < np.inf or (least <= limit.accurate and error > least / 2):
                break
            best, least = (x, error) if error < least else (best, least)
            # F = U T U^H: its eigenvalues, and the triangular equation of the step
            t, u = scipy.linalg.schur(loop, output="complex", check_finite=False)
            if not self.is_stable(np.diagonal(t)):
                raise _unstable("a closed loop that is not stable")
            if error <= REFINED * limit.eps:
                break
            try:
                # D = U D' U^H, of which T^H D' + D' T = -U^H E U, or D' - T^H D' T = U^H E U
                step = u @ self.triangular(t, adjoint(u) @ residual @ u) @ adjoint(u)
            except SingularMatrixError as singular:
                raise _unstable("a closed loop on the boundary of stability") from singular
            x = hermitian(x + (step if x.dtype.kind == "c" else step.real))
            # an entry that is rounding of the step has no digit: it belongs to a mode that nothing sees
            rounding = len(x) * limit.eps * np.abs(step).max()
            x = np.where(np.abs(x) <= rounding, 0, x)
        if not least <= limit.accurate:
            raise _unstable(f"a residual of {least:.1e}")
        return best

    def residual(self, k: HostArray, loop: HostArray, x: HostArray) -> tuple[HostArray, HostArray]:
        """(E, W)"""
        a, b, q, r = self.a, self.b, self.q, self.r
        # W: eps W is the change of the residual by changes eps of |A|, |B|, |R| and |Q|
        entries = np.abs(self.inner(loop, x)) @ (np.abs(a) + np.abs(b) @ np.abs(k))
        inputs = np.abs(k).T @ np.abs(r) @ np.abs(k)
        # E = outer(F, X) + K^H R K + Q
        residual = self.outer(loop, x) + (adjoint(k) @ r @ k + q)
        return hermitian(residual), entries + entries.T + inputs + np.abs(q)

    @abstractmethod
    def gain(self, x: HostArray) -> HostArray:
        """K."""

    @abstractmethod
    def inner(self, loop: HostArray, x: HostArray) -> HostArray:
        """The left factor of a change of A."""

    @abstractmethod
    def outer(self, loop: HostArray, x: HostArray) -> HostArray:
        """The linear terms of the equation of the closed loop."""

    @abstractmethod
    def is_stable(self, values: HostArray) -> bool:
        """Whether the closed loop with these eigenvalues is stable."""

    @abstractmethod
    def triangular(self, t: HostArray, e: HostArray) -> HostArray:
        """D of the equation of a triangular closed loop."""


class Continuous(Equation):
    """A^H X + X A - X B R^-1 B^H X + Q = 0."""

    scipy_solves = staticmethod(scipy.linalg.solve_continuous_are)

    def gain(self, x: HostArray) -> HostArray:
        return np.linalg.solve(self.r, adjoint(self.b) @ x)

    # A -> A + dA changes the residual by X dA + dA^H X
    def inner(self, loop: HostArray, x: HostArray) -> HostArray:
        return x

    def outer(self, loop: HostArray, x: HostArray) -> HostArray:
        half = x @ loop
        return half + adjoint(half)

    def is_stable(self, values: HostArray) -> bool:
        return bool((values.real < 0).all())

    # T^H D + D T = -E
    def triangular(self, t: HostArray, e: HostArray) -> HostArray:
        return triangular_sylvester(t, t, -e, "HN")


class Discrete(Equation):
    """A^H X A - X - A^H X B (R + B^H X B)^-1 B^H X A + Q = 0."""

    scipy_solves = staticmethod(scipy.linalg.solve_discrete_are)

    def gain(self, x: HostArray) -> HostArray:
        bx = adjoint(self.b) @ x
        return np.linalg.solve(self.r + bx @ self.b, bx @ self.a)

    # A -> A + dA changes the residual by F^H X dA + dA^H X F
    def inner(self, loop: HostArray, x: HostArray) -> HostArray:
        return adjoint(loop) @ x

    def outer(self, loop: HostArray, x: HostArray) -> HostArray:
        return adjoint(loop) @ x @ loop - x

    def is_stable(self, values: HostArray) -> bool:
        return bool((np.abs(values) < 1).all())

    # D - T^H D T = E
    def triangular(self, t: HostArray, e: HostArray) -> HostArray:
        return triangular_stein(t, t, e, "HN")


def _unstable(evidence: str, by: str = "a look at it") -> SingularMatrixError:
    return SingularMatrixError(
        by,
        evidence,
        what="the Riccati equation",
        verdict="has no stabilizing solution",
        causes=OF_UNSTABLE_LOOPS,
    )


def _share(residual: HostArray, terms: HostArray) -> float:
    """max |E| / W; NaN where they overflow."""
    return float(np.max(np.abs(residual) / np.where(terms == 0, 1, terms)))


def _equilibrated(r: HostArray) -> tuple[HostArray, HostArray]:
    """(C R C, C), C diagonal."""
    _, scales = equilibrated(r, congruent=True)
    c = np.ones(len(r)) if scales is None else np.asarray(scales[1])
    return r * c[:, None] * c, c


def _units(a: HostArray, g: HostArray, q: HostArray) -> HostArray:
    """t, powers of two: in [A / t, G / t t; Q t t, A^H t] rows and columns have equal sums."""
    t = np.ones(len(a))
    for _ in range(BALANCINGS):
        rows, columns = (a @ t + g @ (1 / t)) / t, t * ((1 / t) @ a + q @ t)
        ratio = np.where((rows > 0) & (columns > 0), rows / columns, 1)
        if BALANCED <= ratio.min() and ratio.max() <= 1 / BALANCED:
            break
        t = t * ratio**0.25
    return np.exp2(np.round(np.log2(t)))


def _root(x: float, y: float) -> float:
    """sqrt(x / y), rounded to a power of two; 1 where one of them is zero."""
    return float(np.exp2(np.round((np.log2(x) - np.log2(y)) / 2))) if x and y else 1.0
