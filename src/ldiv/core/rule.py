"""A rule is y = kernel(args) with its tangent and its cotangent, each written with other rules.

A rule is a small frozen object: its fields are the static arguments (structures, options), its
arguments are nested tuples of arrays. Inside `jvp` and `vjp` only rules and array operators are
used, so a derivative taken inside a derivative enters the framework again: every higher order and
every mode follows from the two methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from ldiv.core.dispatch import frontend_of
from ldiv.core.trees import Array, Tree, leaves


class Rule(ABC):
    """One operation. Subclasses are frozen dataclasses, hashable, one file each in `rules/`."""

    @property
    @abstractmethod
    def core(self) -> tuple[Tree, ...]:
        """For each argument, how many trailing axes are its own; the axes before them are batch
        axes and broadcast.
        """

    @abstractmethod
    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        """The outputs, on plain arrays of any namespace, no derivative in sight."""

    @abstractmethod
    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        """Tangents of the outputs; None means zero, coming in and going out."""

    @abstractmethod
    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        """Cotangents of the arguments that `need` asks for, in the broadcast shape; None means
        zero.
        """

    @property
    def public_name(self) -> str:
        """What errors call it."""
        return type(self).__name__

    @cached_property
    def cores(self) -> list[int]:
        """The own axes of each leaf of the arguments."""
        return leaves(self.core)

    differentiable: tuple[bool, ...] | None = None  # of each output; None: all of them
    # can NumPy arrays stand in for the arguments, in the kernel and in `vjp`? Not where a function
    # of the user is called
    on_host: bool = False
    may_overflow: bool = False  # as a product of the user's own may
    # does the kernel raise by itself? On the host it can, where a check in a trace keeps XLA from
    # splitting it
    sees_overflow: bool = False


def bind(rule: Rule, *args: Tree) -> tuple[Array, ...]:
    """Apply a rule to arrays of any framework, known to that framework's automatic
    differentiation.
    """
    flat = leaves(args)
    outputs: tuple[Array, ...] = frontend_of(*flat).bind(rule, flat)
    return outputs
