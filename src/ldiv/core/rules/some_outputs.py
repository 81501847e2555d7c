"""y_i, y_j of (y_1, y_2, ...) = rule(x): without derivatives the other outputs are not needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.frameworks.trees import Arrays, Tree, leaves
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.rule import Rule, Run, Wrapper


class CallsOfSome(Compiled, Protocol):
    """Compiled operations that find some outputs of a rule at any scale, from Python and in programs."""

    def program(self, *flat: Any) -> CompiledCall | None:
        """The call of a compiled program, as a rule has it."""


@dataclass(frozen=True)
class SomeOutputs(Wrapper):
    """Outputs of a rule, whose derivatives are those of `whole`."""

    at: tuple[int, ...]
    calls: CallsOfSome

    @cached_property
    def whole(self) -> Rule:
        """The rule with all outputs, under the same policy."""
        return replace(self.rule, policy=self.policy)

    def operation(self) -> Compiled:
        return self.calls

    def program(self, *flat: Any) -> CompiledCall | None:
        return self.calls.program(*flat)

    def kernel(self, *args: Tree) -> Arrays:
        return self.of(self.whole.rescaled_for(leaves(args)).kernel(*args))

    def of(self, found: Any) -> tuple[Any, ...]:
        """Choose from all outputs, or from what belongs to them."""
        return tuple([found[i] for i in self.at])

    def jvp(self, *_: Any) -> Any:
        raise AssertionError("a derivative is that of all outputs")

    def vjp(self, *_: Any) -> Any:
        raise AssertionError("a derivative is that of all outputs")


def some_outputs(rule: Any, run: Run, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs of a `SomeOutputs`, by the `bind` of a front end: a use, as `plan` takes it."""
    if frontend_of(*flat).differentiates(*flat):
        return rule.of(run(rule.whole, flat))
    return run(rule, flat)
