"""How an iteration is to be run: SciPy's options, frozen, so that a rule may carry them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.engines.observers import Observer, Progress


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

    def tolerance(self, dtype: np.dtype[Any]) -> float:
        """eps^(2/3) unless the user says otherwise: 4e-11, or 2e-5 in single precision."""
        return float(np.finfo(dtype).eps ** (2 / 3)) if self.rtol is None else self.rtol

    @property
    def core(self) -> tuple[Tree, ...]:
        """The own axes of the aids."""
        return (*([] if self.M is None else [self.M.core]), *([2] if self.start else []))

    def named(self, auxiliaries: tuple[Tree, ...]) -> tuple[Tree, Any]:
        """(parameters of M, x0), either of them None where there is none."""
        return auxiliaries[0] if self.M is not None else None, auxiliaries[
            -1
        ] if self.start else None

    @property
    def from_zero(self) -> Options:
        """For a tangent: the same iteration, whose solution is not near x0; its iterates are
        none of x.
        """
        return replace(
            self, start=False, observers=tuple(o for o in self.observers if isinstance(o, Progress))
        )

    @property
    def adjoint(self) -> Options:
        """For a cotangent: M^H is near A^-H."""
        return replace(self.from_zero, M=None if self.M is None else self.M.H)
