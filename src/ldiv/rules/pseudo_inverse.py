"""X = A^+, the pseudoinverse: A X A = A, X A X = X, A X and X A Hermitian.

tangent      dX = -X dA X + X X^H dA^H (I - A X) + (I - X A) dA^H X^H X
cotangent    A_bar = -X^H X_bar X^H + (I - A X) X_bar^H X X^H + X^H X X_bar^H (I - X A)
cost         1 singular value decomposition forward; a few products each direction
reference    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973). Both hold while the rank stays what
             it is: elsewhere A^+ is not even continuous.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, astype, numpy_dtype, real
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit, bind
from ldiv.core.rules.unchanged import Unchanged
from ldiv.engines.factors.spectral_calls import PinvCalls
from ldiv.errors import NotDifferentiableError, value_error


@dataclass(frozen=True)
class PseudoInverse(Rescaled):
    """Arguments A (*batch, m, n), and atol (*batch,) if `absolute`; outputs X (*batch, n, m), rank.

    Singular values of at most max(atol, rtol s_1) are taken for 0. The rank (*batch,) is a whole
    number, atol a constant. A rank that was `promised` is there, and constant.
    """

    rtol: float
    on_degenerate: str = "raise"
    absolute: bool = False
    promised: int | None = None

    traits = Traits(name="pinv", differentiable=(True, False), only_refuses=True, on_host=True)

    @cached_property
    def core(self) -> Trees:
        return (2, 0) if self.absolute else (2,)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2, 2) if self.absolute else (2,), (-2, 0), by=(0,)),)

    def operation(self) -> Compiled:
        return PinvCalls(self.rtol, self.promised)

    def kernel(self, a: Array, *atol: Array) -> Arrays:
        require_finite("A", a)
        xp, (m, n) = namespace(a), a.shape[-2:]
        if 0 in (m, n):
            return adjoint(a) + 0, self._as_promised(real(xp.sum(a, axis=(-2, -1))))
        u, s, vh = frontend_of(a).dense.svd(a)
        counts = counted(s, self.rtol, *atol)
        # A^+ = V diag(1 / s) U^H, with 0 for each s that does not count
        inverse = xp.where(counts, 1 / xp.where(counts, s, 1), 0 * s)
        found = self._as_promised(rank(s, self.rtol, *atol))
        return adjoint((u * inverse[..., None, :]) @ vh), found

    def _as_promised(self, found: Array) -> Array:
        if self.promised is not None:
            check_or_raise((found == self.promised).all(), self._another_rank, found)
        return found

    def _another_rank(self, found: Any) -> ValueError:
        ranks = ", ".join(map(str, sorted({*map(int, asnumpy(found).ravel())})))
        advice = "A tolerance decides what is taken for 0: state one."
        return value_error("rank", f"that of A, {ranks}", str(self.promised), advice)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da, *_), (a, *_) = tangents, args
        if da is None or 0 in a.shape:
            return None, None
        x, dh = self._of_full_rank(a, out), adjoint(da)
        middle, xh = x @ da @ x, adjoint(x)
        # left = X X^H dA^H,  right = dA^H X^H X:
        # dX = left (I - A X) + (I - X A) right - X dA X
        left, right = x @ (xh @ dh), dh @ (xh @ x)
        return left - (left @ a) @ x + right - x @ (a @ right) - middle, 0 * out[1]

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (x_bar, _), (a, *constants) = cotangents, args
        if not need[0]:
            return (None,) * len(args)
        if 0 in a.shape:
            return 0 * a, *(None for _ in constants)
        x, gh = self._of_full_rank(a, out), adjoint(x_bar)
        xh = adjoint(x)
        # left = X^H X X_bar^H,  right = X_bar^H X X^H:
        # A_bar = left (I - X A) + (I - A X) right - X^H X_bar X^H
        left, right = xh @ (x @ gh), (gh @ x) @ xh
        # X A and A X first, which are near 1: left X may leave the range where A_bar does not
        a_bar = left - left @ (x @ a) + right - (a @ x) @ right - xh @ x_bar @ xh
        return a_bar, *(None for _ in constants)

    def _of_full_rank(self, a: Array, out: Arrays) -> Array:
        if self.on_degenerate == "drop" or self.promised is not None:
            return out[0]
        return bind(FullRank(min(a.shape[-2:]), self.on_degenerate == "warn"), *out)[0]


@dataclass(frozen=True)
class FullRank(Unchanged):
    """Arguments X and the rank; X, if the rank is full."""

    full: int
    warns: bool

    traits = Traits(is_condition=True, on_host=True, only_refuses=True)
    core = (2, 0)

    def kernel(self, x: Array, rank: Array) -> Arrays:
        if self.warns:
            frontend_of(rank).host_callback(self._warn, rank)
        else:
            check_or_raise((rank == self.full).all(), self._error, rank)
        return (x + 0,)

    def _warn(self, rank: Any) -> None:
        if (asnumpy(rank) != self.full).any():
            warnings.warn(str(self._error(rank)), stacklevel=2)

    def _error(self, rank: Any) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"no derivative: the rank of A is {asnumpy(rank).min():.0f}, {self.full} would be "
            "full, and the pseudoinverse jumps where the rank changes. "
            "on_degenerate='drop' takes the rank for constant."
        )


def counted(s: Array, rtol: float, atol: Array | None = None) -> Array:
    """A mask of the singular values that are not taken for 0."""
    least = rtol * s[..., :1]
    return s > (least if atol is None else namespace(s).maximum(least, atol[..., None] + 0 * least))


def rank(s: Array, rtol: float, atol: Array | None = None) -> Array:
    """The number of singular values that are not taken for 0, in the dtype of s."""
    return namespace(s).sum(astype(counted(s, rtol, atol), numpy_dtype(s)), axis=-1)


def cases(structures: Any, draw: Any) -> Cases:
    for shape in ((4, 3), (2, 3, 4), (3, 3)):
        yield PseudoInverse(1e-12), (draw(*shape),)
    yield PseudoInverse(1e-12, promised=3), (draw(4, 3),)
