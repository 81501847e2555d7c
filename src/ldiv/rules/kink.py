"""Y = X, at a point where no derivative exists: to ask for one is an error.

tangent      raises
cotangent    raises
cost         a copy
reference    none. A solution may exist where its derivative does not
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.rule import Rule
from ldiv.core.trees import Array, Tree
from ldiv.errors import NotDifferentiableError


@dataclass(frozen=True)
class Kink(Rule):
    """Argument (*batch,); `why` says what is missing."""

    why: str

    core = (0,)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return (args[0] + 0,)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        raise NotDifferentiableError(self.why)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        raise NotDifferentiableError(self.why)


def cases(structures: Any, draw: Any) -> Iterator[tuple[Kink, tuple[Tree, ...]]]:
    """None: there is nothing that laws could compare."""
    return iter(())
