"""Y = X, a constant for derivatives: what an iteration starts from.

tangent      none
cotangent    none, so that a function that is linear in X can be transposed, which no framework does
             with a detached X
cost         a copy
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.rule import Traits
from ldiv.core.rules.unchanged import Passing


@dataclass(frozen=True)
class Constant(Passing):
    """Argument (*batch, m, n); output of the same shape."""

    core = (2,)
    passed = (None,)
    traits = Traits(differentiable=(False,), may_overflow=True, only_refuses=True)

    def kernel(self, x: Array) -> Arrays:
        return (x + 0,)  # frameworks tell outputs from arguments
