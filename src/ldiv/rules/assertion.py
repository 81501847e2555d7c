"""Y = X, and an error where `check` fails: a condition on which a derivative exists.

tangent      dY = dX
cotangent    X_bar = Y_bar
cost         the check and a copy
reference    none. A derivative may be traced, and only the kernel of a rule sees numbers: therefore
             the check is a rule
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Tree
from ldiv.core.rules.finite import Finite
from ldiv.core.rules.rule import Cases, Traits, bind
from ldiv.core.rules.unchanged import Unchanged


@dataclass(frozen=True)
class Assertion(Unchanged):
    """Arguments X (*batch, m, n) and `others`, which have two own axes, too. `check` takes them all as
    plain arrays and raises, by `check_or_raise`.
    """

    check: Callable[..., None]
    others: int = 0

    traits = Traits(on_host=True, may_overflow=True, is_condition=True, only_refuses=True)

    @property
    def core(self) -> tuple[Tree, ...]:
        return (2,) * (1 + self.others)

    def kernel(self, *args: Tree) -> Arrays:
        self.check(*args)
        return (args[0] + 0,)  # frameworks tell outputs from arguments


def checked(check: Callable[..., None], x: Any, *others: Any) -> Any:
    """x, or the error of the check: now, or when the traced program runs."""
    return bind(Assertion(check, len(others)), x, *others)[0]


def _anything(x: Array) -> None:
    """No condition."""


def cases(structures: Any, draw: Any) -> Cases:
    yield Assertion(_anything), (draw(3, 2),)
    yield Finite("a result"), (draw(3),)
