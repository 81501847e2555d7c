"""The options of an iteration, as in SciPy; frozen, so that rules may have them as fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.observers import Observer, Progress


@dataclass(frozen=True)
class Options:
    """Stop when |b - A x| <= max(rtol |b|, atol) in every column.

    `M` is the structure of a matrix near A^-1, and `start` says that there is an x0; the parameters
    of M and x0 are arrays, and so arguments of the rule (`auxiliaries`), not options.
    """

    rtol: float | None = None
    atol: float = 0.0
    maxiter: int | None = None
    restart: int = 20
    M: Structure | None = None
    start: bool = False
    observers: tuple[Observer, ...] = ()
    is_adjoint: bool = False  # for the cotangent of a solve

    def tolerance(self, dtype: np.dtype[Any]) -> float:
        """rtol, by default eps^(2/3): 4e-11 in double and 2e-5 in single precision."""
        return float(np.finfo(dtype).eps ** (2 / 3)) if self.rtol is None else self.rtol

    @property
    def on_host(self) -> bool:
        """Whether the arrays may be NumPy arrays; a callback is shown those of the user."""
        return not self.observers and (self.M is None or self.M.on_host)

    @property
    def core(self) -> tuple[Tree, ...]:
        """The own axes of the auxiliaries."""
        return (*([] if self.M is None else [self.M.core]), *([2] if self.start else []))

    def named(self, auxiliaries: tuple[Tree, ...]) -> tuple[Tree, Any]:
        """(parameters of M, x0); None for what is not given."""
        return auxiliaries[0] if self.M is not None else None, auxiliaries[
            -1
        ] if self.start else None

    @property
    def from_zero(self) -> Options:
        """The options for a tangent: without x0, which is not near its solution.

        Callbacks are left out, since its iterates are not approximations of x.
        """
        return replace(
            self, start=False, observers=tuple(o for o in self.observers if isinstance(o, Progress))
        )

    @property
    def adjoint(self) -> Options:
        """The options for a cotangent, with M^H, which is near A^-H."""
        M = None if self.M is None else self.M.H
        return replace(self.from_zero, M=M, is_adjoint=not self.is_adjoint)
