"""Orthonormal columns that complete those of Q to a basis: one of many, so without a derivative.

tangent      NotDifferentiableError
cotangent    0, and NotDifferentiableError unless that of the result is 0
cost         1 factorization
reference    Golub and Van Loan, section 5.2
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule, Traits, bind
from ldiv.errors import NotDifferentiableError
from ldiv.rules.assertion import checked


@dataclass(frozen=True)
class Complement(Rule):
    """Argument (*batch, m, n), m > n; output (*batch, m, m - n)."""

    traits = Traits(on_host=True, only_refuses=True)
    core = (2,)

    def kernel(self, q: Array) -> Arrays:
        # q = [Q_1, Q_2] R with m columns in all: Q_2 spans what q leaves out
        return (frontend_of(q).dense.qr(q, "complete")[0][..., q.shape[-1] :],)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        raise _arbitrary()

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        nothing = checked(_require_zero, cotangents[0])
        return (0 * args[0] + 0 * namespace(nothing).sum(nothing),)


def _require_zero(bar: Array) -> None:
    check_or_raise((bar == 0).all(), _arbitrary)


def _arbitrary() -> NotDifferentiableError:
    return NotDifferentiableError(
        'no derivative: the other columns of Q of qr(mode="full") are one basis of many. Use '
        'mode="economic", or what does not depend on the choice.'
    )


def complement(q: Array) -> Array:
    """The other columns of a basis."""
    return bind(Complement(), q)[0]
