"""A rule y = kernel(args) with its tangent and its cotangent, which are written with other rules.

A rule is a small frozen object: its fields are the static arguments (structures, options), its
array arguments are nested tuples. `jvp` and `vjp` use nothing but rules and array operators, so the
framework can differentiate them in turn: the two methods give derivatives of every order, in every
mode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.units import Unit


@dataclass(frozen=True)
class Rule(ABC):
    """One operation. Subclasses are frozen dataclasses, hashable, one file each in `rules/`.

    policy: the `errstate` of the call, under which the kernel and the derivatives run, wherever they
        run. Under "nan" the outputs are NaN in the members of a batch that would be refused
        (`ldiv.core.policies.or_nan`).
    """

    policy: str = field(default="raise", kw_only=True)

    @property
    @abstractmethod
    def core(self) -> tuple[Tree, ...]:
        """The number of own trailing axes of each argument; the axes before are batch axes."""

    @abstractmethod
    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        """The outputs, from plain arrays of any namespace; never differentiated."""

    @abstractmethod
    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        """Tangents of the outputs; None means zero, for inputs and outputs."""

    @abstractmethod
    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        """Cotangents of the arguments that `need` marks, in the broadcast shape; None is zero."""

    @property
    def public_name(self) -> str:
        """The name in error messages."""
        return type(self).__name__

    @cached_property
    def cores(self) -> list[int]:
        """The number of own axes of each leaf of the arguments."""
        return leaves(self.core)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of results as functions of the units of arguments; empty if unknown."""
        return ()

    def at_scale(self, flat: list[Array]) -> Rule:
        """Return the rule to apply to these numbers, whose outputs begin with those of this one."""
        return self

    # A rule may define `operation(self)`, its compiled kernel and vjp, and `program(self, *flat)`, one
    # call of a compiled program. A subclass does not inherit them: its kernel may be another.

    @cached_property
    def compiled(self) -> Compiled | None:
        """The compiled operation, or None."""
        found = vars(type(self)).get("operation")
        return found and found(self)

    def compiled_call(self, *flat: Any) -> CompiledCall | None:
        """The call of a compiled program for leaves of such shapes and dtypes, or None: under "nan"
        programs are pure XLA.
        """
        found = None if self.policy == "nan" else vars(type(self)).get("program")
        return found and found(self, *flat)

    depends_on_scale: ClassVar[bool] = False  # is `at_scale` more than the rule itself?
    differentiable: ClassVar[tuple[bool, ...] | None] = None  # for each output; None: all of them
    # may the kernel and `vjp` run on NumPy arrays instead? Not if they call a function of the user
    on_host: ClassVar[bool] = False
    # for how many numbers, of one matrix or vector each, that costs less than arrays of a framework:
    # SciPy's LAPACK is no slower than theirs, all around it takes less, and its BLAS wakes no
    # threads beside those of the framework
    few: ClassVar[int] = 128 * 128
    may_overflow: ClassVar[bool] = False  # as a product of the user's own may
    is_condition: ClassVar[bool] = False  # must its checks have passed before its outputs are used?
    # does the kernel itself raise on overflow, on the host? A check in a trace would constrain XLA
    sees_overflow: ClassVar[bool] = False
    # does its kernel call a function of the user, for which an array is what it was given?
    calls_user: ClassVar[bool] = False
    # do all looks of its kernel refuse, and none decide how it goes on, on a device that nobody asks?
    only_refuses: ClassVar[bool] = False


Run = Callable[[Rule, list[Any]], tuple[Any, ...]]


@dataclass(frozen=True)
class Wrapper(Rule):
    """Base of rules that compute another rule in a different way."""

    rule: Rule

    sees_overflow = True

    @property
    def core(self) -> tuple[Tree, ...]:
        return self.rule.core

    @property
    def public_name(self) -> str:
        return self.rule.public_name

    @property
    def on_host(self) -> bool:  # type: ignore[override]
        return self.rule.on_host

    @property
    def only_refuses(self) -> bool:  # type: ignore[override]
        return self.rule.only_refuses

    @property
    def calls_user(self) -> bool:  # type: ignore[override]
        return self.rule.calls_user


def bind(rule: Rule, *args: Tree) -> tuple[Any, ...]:
    """Apply a rule to arrays of any framework, and register its derivatives with that framework.

    The outputs are arrays of that framework, which type checkers cannot know.
    """
    flat = leaves(args)
    return apply(in_state(rule), frontend_of(*flat).bind, flat)


def in_state(rule: Rule) -> Rule:
    """The rule under the present policy."""
    policy = singular_state()
    return rule if rule.policy == policy else replace(rule, policy=policy)


def apply(rule: Rule, run: Run, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs of a rule under its policy, by the `bind` of a front end."""
    applied = rule.at_scale(flat) if rule.depends_on_scale else rule
    outputs = run(applied, flat)
    return outputs if applied is rule else outputs[: len(rule.units[0].gives)]
