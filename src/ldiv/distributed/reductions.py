"""y = sum over processes of x, and y = x, where one number of the whole meets the parts.

tangent      dy = sum dx,      dy = dx
cotangent    x_bar = y_bar,    x_bar = sum y_bar: each rule is the adjoint of the other, since the
             cotangent of a number of the whole is equal everywhere, and counts once
cost         one reduction, in one of both directions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.space import Together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Rule, Traits, bind


@dataclass(frozen=True)
class Sum(Rule):
    """Argument of `axes` own axes; `adjoint` is the identity, whose cotangent is summed."""

    processes: Any
    axes: int
    adjoint: bool = False

    traits = Traits(may_overflow=True)

    @property
    def core(self) -> Trees:
        return (self.axes,)

    def kernel(self, x: Array) -> Arrays:
        if self.adjoint:
            return (x + 0,)  # frameworks tell outputs from arguments
        spec = (tuple(x.shape), numpy_dtype(x))
        return on_host(Together(self._sum), (spec,), x)

    def _sum(self, x: Any) -> tuple[Any, ...]:
        self.processes.agree(f"a sum of an array {x.shape} of {x.dtype}")
        return (np.asarray(self.processes.total(x)),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return bind(self, tangents[0])

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return bind(Sum(self.processes, self.axes, not self.adjoint), cotangents[0])
