"""R = W^(1/2) of weights w >= 0; a row of weight 0 does not count.

tangent      dR = dW / (2 R)
cotangent    W_bar = R_bar / (2 R); both raise NotDifferentiableError where w = 0
cost         a square root each
reference    Bjorck, Numerical Methods for Least Squares Problems (1996), section 4.4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.errors import NotDifferentiableError, value_error
from ldiv.rules.assertion import checked


@dataclass(frozen=True)
class RootOfWeights(Rule):
    """Argument (*batch, m, 1), real; output of the same shape."""

    core = (2,)
    traits = Traits(name="weights", on_host=True, only_refuses=True)
    units = (Unit((2,), (1,)),)

    def kernel(self, w: Array) -> Arrays:
        if 0 not in w.shape:
            check_or_raise((w >= 0).all(), _negative, namespace(w).min(w))
        return (namespace(w).sqrt(w),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return (tangents[0] / (2 * checked(_require_positive, out[0])),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return (cotangents[0] / (2 * checked(_require_positive, out[0])),)


def _negative(least: Any) -> ValueError:
    advice = "A row of weight 0 does not count."
    return value_error("weights", "numbers that are not negative", f"{float(least):g}", advice)


def _require_positive(r: Array) -> None:
    check_or_raise((r > 0).all(), _at_zero)


def _at_zero() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative in a weight of 0: rows are scaled by its root. Leave the row out, or detach "
        "the weights."
    )


def cases(structures: Any, draw: Any) -> Cases:
    w = draw(3, 1)
    yield RootOfWeights(), ((w * w.conj()).real + 0.5,)
