"""(R, X) with R + A X = B, A^H R = C for A of full column rank: the augmented system.

K = [[I, A], [A^H, 0]];  by A = Q T
    X = T^-1 (Q^H B - T^-H C),   R = B - Q Q^H B + Q T^-H C
C = 0: X minimizes |A X - B|, and R is the residual.
B = 0: R is the shortest of all R with A^H R = C.
tangent      K (dR, dX) = (dB - dA X, dC - dA^H R)
cotangent    K (B_bar, C_bar) = (R_bar, X_bar);   A_bar = -B_bar X^H - R C_bar^H
cost         1 QR, which is cached for the derivatives; each direction 2 triangular solves and
             4 products
reference    Bjorck, Numerical Methods for Least Squares Problems (1996), section 1.1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, device_of
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_opaque, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.compiled import Compiled, computed
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import minus, nonzero, plus
from ldiv.engines.factors.cache import Key, cached_factor, in_trace
from ldiv.engines.factors.orthogonal_calls import LeastSquaresCalls, QRCalls
from ldiv.rules.full_rank import require_full_rank


@dataclass(frozen=True)
class LeastSquares(Rescaled):
    """Arguments A (*batch, m, n), m >= n, B (*batch, m, k), C (*batch, n, k); outputs R, X.

    R has the shape of B, X that of C. `given`: the sides that are arguments; the other one is zero.
    `auxiliary`: which of R and X the caller leaves to derivatives.
    """

    given: str = "bc"
    auxiliary: tuple[bool, ...] | None = None
    in_derivative: bool = False

    traits = Traits(name="lstsq", only_refuses=True, on_host=True)

    @cached_property
    def core(self) -> Trees:
        return (2,) * (1 + len(self.given))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        at = [0, *(1 + "bc".index(side) for side in self.given)]
        # t^2 A gives t^-2 X and R as it is, with t^2 C; t^2 (B, C) gives t^2 (R, X)
        of_a, of_sides = (tuple([of[i] for i in at]) for of in ((2, 0, 2), (0, 2, 2)))
        return Unit(of_a, (0, -2), by=(0,)), Unit(of_sides, (2, 2))

    def operation(self) -> Compiled:
        return LeastSquaresCalls(self.given, _factorize)

    def rescaled_for(self, flat: Sequence[Array]) -> Rule:
        """Return the rule itself inside a derivative, which has the units of its solution."""
        return self if self.in_derivative else super().rescaled_for(flat)

    def kernel(self, *args: Tree) -> Arrays:
        a, b, c = args[0], *self._sides(args[1:])
        require_finite("b", *args[1:])
        f = _factorize(a)
        # Q^H B - T^-H C
        inside = minus(
            None if b is None else adjoint(f.q) @ b, None if c is None else f.solve(c, "H")
        )
        # R = B - Q (Q^H B - T^-H C),  X = T^-1 (Q^H B - T^-H C)
        return minus(b, f.q @ nonzero(inside)), f.solve(nonzero(inside), "N")

    def _sides(self, given: Sequence[Any]) -> tuple[Any, Any]:
        """B and C, or what belongs to them; None for one that is not given."""
        found = dict(zip(self.given, given, strict=True))
        return found.get("b"), found.get("c")

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        a, da, (db, dc), (r, x) = args[0], tangents[0], self._sides(tangents[1:]), out
        # K (dR, dX) = (dB - dA X, dC - dA^H R)
        right, below = (db, dc) if da is None else (minus(db, da @ x), minus(dc, adjoint(da) @ r))
        return _bound(a, right, below, r, x)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        a, (r_bar, x_bar), (r, x) = args[0], cotangents, out
        # K is Hermitian: K (B_bar, C_bar) = (R_bar, X_bar)
        b_bar, c_bar = bars = (
            self._transposed(need, a, r_bar, x_bar) if r is None else _bound(a, r_bar, x_bar, r, x)
        )
        # A_bar = -B_bar X^H - R C_bar^H
        a_bar = -(b_bar @ adjoint(x) + r @ adjoint(c_bar)) if need[0] else None
        of_sides = (bars["bc".index(side)] for side in self.given)
        return a_bar, *(bar if n else None for bar, n in zip(of_sides, need[1:], strict=True))

    def _transposed(
        self, need: Trees, a: Array, r_bar: Array | None, x_bar: Array | None
    ) -> Arrays:
        """(B_bar, C_bar) without R and X, in units of their own: the one that is not needed may
        overflow.
        """
        sides = {side: y for side, y in (("b", r_bar), ("c", x_bar)) if y is not None}
        wanted = {side for side, n in zip(self.given, need[1:], strict=True) if n}
        rule = LeastSquares("".join(sides), tuple(side not in wanted for side in "bc"))
        return bind(rule, a, *sides.values())[:2]


def _bound(a: Array, b: Array | None, c: Array | None, r: Array, x: Array) -> Arrays:
    """(R, X) of the right-hand sides (b, c), where None is zero, and NaN where r and x are."""
    rule = LeastSquares(in_derivative=True)
    return bind(rule, a, r * 0 if b is None else b, x * 0 if c is None else c)


def _qr(a: Array) -> _QR:
    """The factors, after the check that the columns are independent."""
    # NumPy's takes single precision to double
    made = computed(QRCalls(), (a,)) if type(a) is np.ndarray else None
    q, t = frontend_of(a).dense.qr(a) if made is None else made[0]
    require_full_rank(t)
    return _QR(q, t)


class _QR:
    """A = Q T."""

    core = (2, 2)

    def __init__(self, q: Array, t: Array) -> None:
        self.arrays = self.q, self.t = q, t
        self.nbytes = q.nbytes + t.nbytes

    @property
    def remake(self) -> type[_QR]:
        return _QR

    def solve(self, b: Array, op: str) -> Array:
        """T^-1 b, or T^-H b."""
        t = self.t if op == "N" else adjoint(self.t)
        return (
            frontend_of(b).dense.solve_triangular(t, b, op == "H")
            if 0 not in b.shape
            else plus(b, None)
        )


def _factorize(a: Array) -> _QR:
    """The factors of these values: from the cache, or new."""
    if 0 in a.shape:
        require_finite("A", a)
        return _qr(a)
    key = Key((__name__, singular_state(), namespace(a), a.dtype, device_of(a)))
    found: _QR
    if is_opaque(a):
        found = in_trace(key, (a,), partial(_qr, a))
    else:
        found = cached_factor(key, (a,), lambda: (_qr(a), (namespace(a).asarray(a, copy=True),)))
    return found


def cases(structures: Any, draw: Any) -> Cases:
    a, b, c = draw(4, 3), draw(4, 2), draw(3, 2)
    yield LeastSquares(), (a, b, c)
    yield LeastSquares("b"), (a, b)
    yield LeastSquares("c"), (a, c)
    yield LeastSquares(), (draw(2, 4, 2), draw(4, 1), draw(2, 1))
    yield LeastSquares(), (draw(1, 4, 4), draw(4, 1), draw(4, 1))
