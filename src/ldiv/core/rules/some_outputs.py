"""y_i, y_j of (y_1, y_2, ...) = rule(x): without derivatives the other outputs are not needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.rule import Rule, Run, Wrapper, apply, in_state


@dataclass(frozen=True)
class SomeOutputs(Wrapper):
    """Outputs of a rule, of which nobody takes a derivative."""

    at: tuple[int, ...]
    calls: Compiled  # which find them alone, at any scale

    def operation(self) -> Compiled:
        return self.calls

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        found = self.rule.at_scale(leaves(args)).kernel(*args)
        return tuple([found[i] for i in self.at])

    def jvp(self, *_: Any) -> Any:
        raise AssertionError("nobody takes a derivative")

    def vjp(self, *_: Any) -> Any:
        raise AssertionError("nobody takes a derivative")


def some_outputs(
    at: tuple[int, ...], calls: Compiled, rule: Rule, run: Run, flat: list[Any]
) -> tuple[Any, ...]:
    """Outputs of a rule, by the `bind` of a front end: a use of the rule, as `plan` takes it."""
    if frontend_of(*flat).differentiates(*flat):
        found = apply(rule, run, flat)
        return tuple([found[i] for i in at])
    return run(in_state(SomeOutputs(rule, at, calls)), flat)
