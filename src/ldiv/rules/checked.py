"""Y = X, an array for which `check` has not raised: the place of a condition on which a derivative exists.

tangent      dY = dX
cotangent    X_bar = Y_bar
cost         that of the check, and a copy
reference    none; a derivative may be traced, and only kernels see numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.rule import Array, Rule, Tree, bind


@dataclass(frozen=True)
class Checked(Rule):
    """Argument (*batch, m, n). `check` is a function of plain arrays that raises, or insists."""

    check: Callable[[Array], None]

    @property
    def core(self) -> tuple[Tree, ...]:
        return (2,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        self.check(args[0])
        return (args[0] + 0,)  # frameworks tell outputs from arguments

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        return (tangents[0],)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        return (cotangents[0] if need[0] else None,)


def checked(check: Callable[[Array], None], x: Array) -> Array:
    """x, or the error of the check, now or in the call that runs the trace."""
    return bind(Checked(check), x)[0]


def _anything(x: Array) -> None:
    """No condition."""


def cases(structures: Any, draw: Any) -> Iterator[tuple[Checked, tuple[Tree, ...]]]:
    yield Checked(_anything), (draw(3, 2),)
