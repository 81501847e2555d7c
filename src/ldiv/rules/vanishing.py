"""V = 0, a function of A whose derivatives vanish up to some order, and are not known above it.

tangent      dV = 0, by the same rule of one order less
cotangent    likewise; both raise NotDifferentiableError at order 0
cost         none
reference    Magnus and Neudecker, chapter 8: det(A + t E) = O(t^k), k the rank deficiency of A
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, bind
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.rules.assertion import checked


@dataclass(frozen=True)
class Vanishing(Rule):
    """Arguments A (*batch, n, n), and a number (*batch, 1, 1) for each batch member, which is 0 where V
    is not used; output like A. `order`: that of the highest derivative which is known to vanish.
    """

    order: int

    core = (2, 2)
    traits = Traits(name="the derivative of det", on_host=True, only_refuses=True)

    def kernel(self, a: Array, is_read: Array) -> Arrays:
        return (0 * a + 0 * is_read,)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return (out[0] * 0 if tangents[0] is None else self._derivative(*args) * tangents[0],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        a_bar = self._derivative(*args) * cotangents[0] if need[0] else None
        return (a_bar, 0 * args[1] if need[1] else None)

    def _derivative(self, a: Array, is_read: Array) -> Any:
        """A zero, whose derivatives vanish up to one order less."""
        if self.order == 0:
            return 0 * checked(_require_no_read, is_read)
        return bind(Vanishing(self.order - 1), a, is_read)[0]


def _require_no_read(is_read: Array) -> None:
    check_or_raise((is_read == 0).all(), _no_fourth)


def _no_fourth() -> NotDifferentiableError:
    what, wanted = "the order of a derivative of det", "at most 3"
    advice = "More than three singular values of the matrix vanish to rounding."
    return NotDifferentiableError(expected_got(what, wanted, "4 or more", advice))


def cases(structures: Any, draw: Any) -> Cases:
    yield Vanishing(2), (draw(2, 3, 3), 0 * draw(2, 1, 1))
