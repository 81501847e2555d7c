"""A rule y = kernel(args) with its tangent and its cotangent, which are written with other rules.

A rule is a small frozen object: its fields are the static arguments (structures, options), its
array arguments are nested tuples. `jvp` and `vjp` use nothing but rules and array operators, so the
framework can differentiate them in turn: the two methods give derivatives of every order, in every
mode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldiv.core.array_protocol import Array
from ldiv.core.cached_property import cached_property
from ldiv.core.compiled import Compiled, CompiledCall
from ldiv.core.dispatch import frontend_of
from ldiv.core.errstate import singular_state, under
from ldiv.core.trees import Tree, leaves
from ldiv.core.units import Unit


class Rule(ABC):
    """One operation. Subclasses are frozen dataclasses, hashable, one file each in `rules/`."""

    @property
    @abstractmethod
    def core(self) -> tuple[Tree, ...]:
        """For each argument the number of its own trailing axes; the axes before are batch axes."""

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
        """In which units results are, if those of the arguments change; none where it is unknown."""
        return ()

    def at_scale(self, flat: list[Array]) -> Rule:
        """The rule that is applied to these numbers, whose outputs begin with those of this one."""
        return self

    # A rule may define `operation(self)`, its compiled kernel and vjp, and `program(self, *flat)`, one
    # call of a compiled program. A subclass does not inherit them: its kernel may be another.

    @cached_property
    def compiled(self) -> Compiled | None:
        """The compiled operation, or None."""
        found = vars(type(self)).get("operation")
        return found and found(self)

    def compiled_call(self, *flat: Any) -> CompiledCall | None:
        """The call of a compiled program for leaves of such shapes and dtypes, or None."""
        found = vars(type(self)).get("program")
        return found and found(self, *flat)

    depends_on_scale: bool = False  # is `at_scale` more than the rule itself?
    differentiable: tuple[bool, ...] | None = None  # for each output; None: all of them
    # may the kernel and `vjp` run on NumPy arrays instead? Not if they call a function of the user
    on_host: bool = False
    # for how many numbers, of one matrix or vector each, that costs less than arrays of a framework:
    # SciPy's LAPACK is no slower than theirs, all around it takes less, and its BLAS wakes no
    # threads beside those of the framework
    few: int = 128 * 128
    may_overflow: bool = False  # as a product of the user's own may
    is_condition: bool = False  # must its checks have passed before its outputs are used?
    # does the kernel itself raise on overflow, on the host? A check in a trace would constrain XLA
    sees_overflow: bool = False
    # does its kernel call a function of the user, for which an array is what it was given?
    calls_user: bool = False
    # do all looks of its kernel refuse, and none decide how it goes on, on a device that nobody asks?
    only_refuses: bool = False


Run = Callable[[Rule, list[Any]], tuple[Any, ...]]


@dataclass(frozen=True)
class Wrapper(Rule):
    """Another rule, computed under other terms."""

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


@dataclass(frozen=True)
class OrNaN(Wrapper):
    """A rule whose outputs are NaN in the members of a batch which it would refuse: whoever runs the
    kernel sees to that (`ldiv.core.or_nan`). Its derivatives are made of rules like it.
    """

    may_overflow = True

    @property
    def differentiable(self) -> tuple[bool, ...] | None:  # type: ignore[override]
        return self.rule.differentiable

    @property
    def few(self) -> int:  # type: ignore[override]
        return self.rule.few

    def operation(self) -> Compiled | None:
        return self.rule.compiled

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return self.rule.kernel(*args)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        with under("nan"):
            return self.rule.jvp(tangents, out, *args)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        with under("nan"):
            return self.rule.vjp(need, cotangents, out, *args)


def bind(rule: Rule, *args: Tree) -> tuple[Any, ...]:
    """Apply a rule to arrays of any framework, and register its derivatives with that framework.

    The outputs are arrays of that framework, which type checkers cannot know.
    """
    flat = leaves(args)
    return apply(in_state(rule), frontend_of(*flat).bind, flat)


def in_state(rule: Rule) -> Rule:
    """The rule that `errstate` asks for now: under "nan" one that refuses nothing."""
    if rule.depends_on_scale or singular_state() != "nan" or type(rule) is OrNaN:
        return rule
    return OrNaN(rule)


def apply(rule: Rule, run: Run, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs of a rule in its state, by the `bind` of a front end."""
    if not rule.depends_on_scale:
        return run(rule, flat)
    applied = rule.at_scale(flat)
    outputs = run(OrNaN(applied) if singular_state() == "nan" else applied, flat)
    return outputs if applied is rule else outputs[: len(rule.units[0].gives)]
