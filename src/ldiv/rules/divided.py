"""T H - s H T = N for a diagonal H: T = N o R,  R_ji = 1 / (h_i - s h_j), and 0 where R is 0.

tangent      the same equation for N = dN - T dH + s dH T
cotangent    N_bar solves it for H^H and T_bar;   H_bar = s N_bar T^H - T^H N_bar
cost         k^2; a derivative with a dH two or three products of k x k
reference    Giles (2008), section 3.1: the products with R in derivatives of eigenvectors

H is diagonal where a derivative is taken, and dH need not be. Inside a cluster of equal eigenvalues
dH holds what moves them, in any basis of their vectors. The sign s is 1, -1 or 0.
With s = 0 the equation asks for N H^-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, common_batch, conj, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule, Traits, bind
from ldiv.core.rules.structure import minus, plus


@dataclass(frozen=True)
class Divided(Rule):
    """Arguments H (*batch, k, k), N (*batch, m, k), R (*batch, m, k), a constant; output T."""

    sign: int = 1

    core = (2, 2, 2)
    traits = Traits(on_host=True, only_refuses=True)

    def kernel(self, *args: Tree) -> Arrays:
        _, n, r = args
        return (spread(n * r, common_batch(self.core, args)),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (dh, dn, _), (t,), (h, _, r) = tangents, out, args
        # dT H - s H dT = dN - T dH + s dH T
        moved = dn if dh is None else minus(dn, t @ dh)
        if dh is not None and self.sign:
            moved = plus(moved, self.sign * (dh @ t))
        return (None if moved is None else bind(self, h, moved, r)[0],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (t_bar,), (t,), (h, _, r) = cotangents, out, args
        # N_bar = T_bar o conj(R),  H_bar = s N_bar T^H - T^H N_bar
        (n_bar,) = bind(self, adjoint(h), t_bar, conj(r))
        h_bar = None
        if need[0]:
            h_bar = -(adjoint(t) @ n_bar)
            h_bar = h_bar + self.sign * (n_bar @ adjoint(t)) if self.sign else h_bar
        return h_bar, n_bar if need[1] else None, None


def divided(h: Array, n: Array, r: Array, sign: int = 1) -> Any:
    """T, with r as a constant in the derivatives."""
    return bind(Divided(sign), h, n, r)[0]
