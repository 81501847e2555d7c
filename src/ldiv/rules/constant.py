"""Y = X, a constant for derivatives: what an iteration starts from.

tangent      none
cotangent    none, so that a function that is linear in X can be transposed, which no framework does
             with a detached X
cost         a copy
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.structure import nothing
from ldiv.core.rules.traits import Traits


@dataclass(frozen=True)
class Constant(Rule):
    """Argument (*batch, m, n); output of the same shape."""

    core = (2,)
    traits = Traits(differentiable=(False,), may_overflow=True, only_refuses=True)

    def kernel(self, *args: Tree) -> Arrays:
        return (args[0] + 0,)  # frameworks tell outputs from arguments

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return (None,)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return tuple(map(nothing, need))
