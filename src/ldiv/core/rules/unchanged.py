"""Y = X: rules that pass arguments on, and do something beside it when the program runs.

tangent      dY = dX
cotangent    X_bar = Y_bar
"""

from __future__ import annotations

from typing import ClassVar

from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule, Traits, Unit


class Passing(Rule):
    """A rule whose outputs are arguments, or have no derivative.

    `passed`: for each output the number of the argument that it is, or None.
    """

    passed: ClassVar[tuple[int | None, ...]]

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return tuple([None if i is None else tangents[i] for i in self.passed])

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        found = dict(zip(self.passed, cotangents, strict=True))
        return tuple([found.get(i) if needed else None for i, needed in enumerate(need)])


class Unchanged(Passing):
    """y = x, the first argument;  dy = dx;  x_bar = y_bar. All other arguments serve a check."""

    passed = (0,)
    traits = Traits(is_condition=True)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2, *(0,) * (len(self.cores) - 1)), (2,)),)
