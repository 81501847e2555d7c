"""q = b / a, number by number: derivatives divide by a again, and never by its square.

tangent      dq = (db - q da) / a
cotangent    lam = q_bar / conj(a);   b_bar = lam,   a_bar = -lam conj(q)
cost         a division in each direction
reference    the quotient rule. Frameworks write it b da / a^2, which leaves the range of a dtype
             where q does not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import minus, nonzero


@dataclass(frozen=True)
class Quotient(Rule):
    """Arguments b and a, of any shapes that broadcast; output q. No a is zero."""

    traits = Traits(on_host=True, only_refuses=True)
    core = (0, 0)
    units = (Unit((2, 0), (2,)), Unit((0, 2), (-2,)))

    def kernel(self, b: Array, a: Array) -> Arrays:
        return (b / a,)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (db, da), (_, a), (q,) = tangents, args, out
        # dq = (db - q da) / a: no a^2, which may leave the range of the dtype
        moved = minus(db, None if da is None else q * da)
        return (quotient(nonzero(moved), a),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (q_bar,), (_, a), (q,) = cotangents, args, out
        # lam = q_bar / conj(a),  b_bar = lam,  a_bar = -lam conj(q)
        lam = quotient(q_bar, conj(a))
        return lam if need[0] else None, -lam * conj(q) if need[1] else None


def quotient(b: Array, a: Array) -> Array:
    """b / a."""
    return bind(Quotient(), b, a)[0]


def cases(structures: Any, draw: Any) -> Cases:
    yield Quotient(), (draw(2, 3), draw(3) + 3)
