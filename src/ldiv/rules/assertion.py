"""Y = X, an array for which `check` has not raised: the place of a condition on which a derivative
exists.

tangent      dY = dX
cotangent    X_bar = Y_bar
cost         that of the check, and a copy
reference    none; a derivative may be traced, and only kernels see numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldiv.core.dispatch import check_or_raise
from ldiv.core.finite import all_finite
from ldiv.core.rule import Rule, bind
from ldiv.core.trees import Array, Tree
from ldiv.errors import overflowed


class Unchanged(Rule):
    """y = x, the first argument;  dy = dx;  x_bar = y_bar. What follows serves a check."""

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        return (tangents[0],)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        return (cotangents[0] if need[0] else None, *(None for _ in need[1:]))


@dataclass(frozen=True)
class Checked(Unchanged):
    """Argument (*batch, m, n). `check` is a function of plain arrays that raises, or insists."""

    check: Callable[[Array], None]

    may_overflow = True
    core = (2,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        self.check(args[0])
        return (args[0] + 0,)  # frameworks tell outputs from arguments


def checked(check: Callable[[Array], None], x: Array) -> Array:
    """x, or the error of the check, now or in the call that runs the trace."""
    return bind(Checked(check), x)[0]


@dataclass(frozen=True)
class Result(Unchanged):
    """Argument (*batch,), one number each: a result that is made of those of rules, and like
    theirs must be finite.
    """

    what: str

    core = (0,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        check_or_raise(all_finite(args[0]), partial(overflowed, self.what))
        return (args[0] + 0,)


def finite(what: str, x: Array) -> Array:
    """x, unless it overflowed."""
    return bind(Result(what), x)[0]


def _anything(x: Array) -> None:
    """No condition."""


def cases(structures: Any, draw: Any) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    yield Checked(_anything), (draw(3, 2),)
    yield Result("a result"), (draw(3),)
