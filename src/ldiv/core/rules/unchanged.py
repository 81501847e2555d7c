"""Y = X: rules that change nothing, and do something beside it when the program runs.

tangent      dY = dX
cotangent    X_bar = Y_bar
"""

from __future__ import annotations

from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.traits import Traits
from ldiv.core.rules.units import Unit


class Unchanged(Rule):
    """y = x, the first argument;  dy = dx;  x_bar = y_bar. All other arguments serve a check."""

    traits = Traits(is_condition=True)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2, *(0,) * (len(self.cores) - 1)), (2,)),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return (tangents[0],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return (cotangents[0] if need[0] else None, *(None for _ in need[1:]))
