"""A rule y = kernel(args) with its tangent and its cotangent, which are written with other rules.

A rule is a small frozen object: its fields are the static arguments (structures, options), its
array arguments are nested tuples. `jvp` and `vjp` use nothing but rules and array operators, so the
framework can differentiate them in turn: the two methods give derivatives of every order, in every
mode.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.compiled import CompiledCall, Operation

# The size of a matrix or vector up to which NumPy arrays cost less than arrays of a
# framework: SciPy's LAPACK is no slower than theirs, all around it takes less, and its BLAS wakes no
# threads beside those of the framework.
FEW = 128 * 128
ENGINE = 1 << 20  # for engines that work on NumPy arrays in any case
# entries of an iteration's matrix, whose vectors PyTorch does not share among threads
ITERATED = 1 << 17


@dataclass(frozen=True)
class Traits:
    """Declared properties of a rule.

    `name`: in error messages; that of the class if it is empty.
    `differentiable`: for each output; None if all are.
    `on_host`: the kernel and `vjp` may run on NumPy arrays instead. False if they call a
        function of the user.
    `few`: up to how many numbers of an argument NumPy arrays are preferred.
    `may_overflow`: a result may be infinite, as a product of the user's own may.
    `sees_overflow`: the kernel itself raises on overflow, on the host. A check in a trace would
        constrain XLA.
    `is_condition`: the checks must have passed before the outputs are used.
    `calls_user`: the kernel calls a function of the user, for which an array is what it was given.
    `only_refuses`: all checks of the kernel refuse. On a device, where a check is read later, none
        changes the control flow.
    """

    name: str = ""
    differentiable: tuple[bool, ...] | None = None
    on_host: bool = False
    few: int = FEW
    may_overflow: bool = False
    sees_overflow: bool = False
    is_condition: bool = False
    calls_user: bool = False
    only_refuses: bool = False


class Unit(NamedTuple):
    """A unit t: if the arguments are t^of_i x_i, the results are t^gives_j y_j.

    `adds`: the number of log t that are added to each result, if it is a logarithm. `of` counts the
    leaves of the arguments; `by` are the leaves that choose a unit, all with of_i = 2, and is empty
    if results need no other units than the user's. `name`: the users' name of these leaves.
    """

    of: tuple[int, ...]
    gives: tuple[int, ...]
    adds: tuple[int, ...] = ()
    by: tuple[int, ...] = ()
    name: str = "A"


@dataclass(frozen=True)
class Rule(ABC):
    """One operation. Subclasses are frozen dataclasses, hashable, one file each in `rules/`.

    policy: the `errstate` of the call, under which the kernel and the derivatives run, wherever they
        run. Under "nan" the outputs are NaN in the members of a batch that would be refused
        (`ldiv.core.policies.or_nan`).
    traits: its name in errors, and what front ends may take for granted of it.
    """

    policy: str = field(default="raise", kw_only=True)
    traits: ClassVar[Traits] = Traits()

    @property
    @abstractmethod
    def core(self) -> Trees:
        """The number of own trailing axes of each argument; the axes before are batch axes."""

    @abstractmethod
    def kernel(self, *args: Any, **_: Any) -> Arrays:
        """The outputs, from plain arrays of any namespace; never differentiated. Subclasses name
        their arguments.
        """

    @abstractmethod
    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        """Tangents of the outputs; None means zero, for inputs and outputs. Front ends ask along
        some tangent that is not None.
        """

    @abstractmethod
    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        """Cotangents of the arguments that `need` marks, in the broadcast shape; None is zero. Front
        ends give some cotangent, and need some argument.
        """

    @cached_property
    def cores(self) -> list[int]:
        """The number of own axes of each leaf of the arguments."""
        return leaves(self.core)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of results as functions of the units of arguments; empty if unknown."""
        return ()

    def rescaled_for(self, flat: Sequence[Array]) -> Rule:
        """Return the rule to apply to these numbers; its outputs begin with the outputs of this
        rule.
        """
        return self

    # A rule may define `operation(self)`, its compiled kernel and vjp, and `program(self, *flat)`, one
    # call of a compiled program, with `pullback(self, *of)`, that of its `Pullback`. A subclass
    # does not inherit them: its kernel may be another.

    @cached_property
    def compiled(self) -> Operation | None:
        """The compiled operation, or None."""
        found = vars(type(self)).get("operation")
        return found and found(self)


Run = Callable[[Rule, list[Any]], tuple[Any, ...]]
Cases = Iterator[tuple[Rule, Trees]]  # rules and their arguments, on which the laws are tested


@dataclass(frozen=True)
class Wrapper(Rule):
    """Base of rules that compute another rule in a different way."""

    rule: Rule

    @property
    def core(self) -> Trees:
        return self.rule.core

    @cached_property
    def traits(self) -> Traits:
        return around(self.rule)


def around(rule: Rule) -> Traits:
    """The traits of a rule that computes this one in a different way."""
    inner = rule.traits
    return Traits(
        name=name_of(rule),
        on_host=inner.on_host,
        sees_overflow=True,
        calls_user=inner.calls_user,
        only_refuses=inner.only_refuses,
    )


def name_of(rule: Rule) -> str:
    """The name of a rule in error messages."""
    return rule.traits.name or type(rule).__name__


def program_of(rule: Rule, *flat: Any) -> CompiledCall | None:
    """The call of a compiled program for leaves of such shapes and dtypes, or None: under "nan"
    programs are pure XLA.
    """
    found = None if rule.policy == "nan" else vars(type(rule)).get("program")
    return found and found(rule, *flat)


def depends_on_scale(rule: Rule) -> bool:
    """Whether `rescaled_for` may return another rule."""
    return type(rule).rescaled_for is not Rule.rescaled_for


def bind(rule: Rule, *args: Tree) -> tuple[Any, ...]:
    """Apply a rule to arrays of any framework, and register its derivatives with that framework.

    The outputs are arrays of that framework, a type that a type checker cannot know.
    """
    flat = leaves(args)
    return apply(in_state(rule), frontend_of(*flat).bind, flat)


def in_state(rule: Rule) -> Rule:
    """Return the rule under the present `errstate`."""
    policy = singular_state()
    return rule if rule.policy == policy else replace(rule, policy=policy)


def apply(rule: Rule, run: Run, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs of a rule under its policy, by the `bind` of a front end: its compiled operation, or
    where that declines what `rescaled_for` returns, which may have more.
    """
    outputs = run(rule, flat)
    is_more = depends_on_scale(rule) and rule.units
    return outputs[: len(rule.units[0].gives)] if is_more else outputs
