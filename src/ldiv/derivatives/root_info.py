"""The way to a root, and its quality, which `root(..., info=True)` returns beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant
from ldiv.linalg.systems.solve_info import Estimated


@dataclass(frozen=True)
class RootInfo:
    """The steps of Newton's method to a root, and how well the root is determined.

    Attributes
    ----------
    steps : int
        The number of Newton steps.
    residuals : NumPy array (steps + 1,)
        |f| at the start, and after each step. Near the root each is about the square of the one
        before.
    lengths : NumPy array (steps,)
        What part of the Newton step was taken, at most 1: less where |f| would not have decreased,
        where f is not finite, or where `stepmx` has limited it.
    condition : float or None
        An estimate of |J| |J^-1| in the 1-norm at the root, from the last factor, made when it is
        first asked for; None for an engine that iterates, and without unknowns.
    """

    steps: int
    residuals: NDArray[Any]
    lengths: NDArray[Any]
    _engine: str = field(repr=False)
    _jacobian: Estimated = field(repr=False)

    @cached_property
    def condition(self) -> float | None:
        """An estimate of |J|_1 |J^-1|_1."""
        return self._jacobian.condition(self._engine) if self._engine else None


@dataclass(eq=False)
class Path:
    """An observer that collects the steps, and the last Jacobian."""

    lengths: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    starts: int = 0
    J: Array | None = None

    def __call__(self, steps: Array, t: Array, size: Array, J: Array) -> None:
        if int(steps) < 0:
            self.starts += 1
        else:
            self.lengths.append(float(t))
        self.residuals.append(float(size))
        self.J = constant(J)

    def info(self, engine: str, jacobian: Estimated) -> RootInfo:
        return RootInfo(
            len(self.lengths), np.array(self.residuals), np.array(self.lengths), engine, jacobian
        )
