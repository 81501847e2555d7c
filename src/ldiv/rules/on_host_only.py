"""Values of LAPACK, on the host, of factors that have no derivative of their own.

tangent      none: it raises
cotangent    none: it raises
cost         that of `f`
reference    none
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import common_batch, each_on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Rule
from ldiv.errors import NotDifferentiableError


@dataclass(frozen=True)
class OnHostOnly(Rule):
    """Arguments (*batch, m, n), called by `names`; outputs as `specs`, shapes and dtypes, say."""

    f: Callable[..., tuple[Any, ...]]  # of NumPy arrays, one matrix at a time
    specs: tuple[tuple[tuple[int, ...], Any], ...]
    names: tuple[str, ...]
    why_not: str  # what stands in the error, and what to do

    @property
    def core(self) -> Trees:
        return (2,) * len(self.names)

    def kernel(self, *args: Tree) -> Arrays:
        for name, x in zip(self.names, args, strict=True):
            require_finite(name, x)
        batch = common_batch(self.core, args)
        specs = tuple(((*batch, *shape), dtype) for shape, dtype in self.specs)
        return tuple(each_on_host(self._one, self.core, args, specs))

    def _one(self, *args: Any) -> tuple[Any, ...]:
        return (
            self.f(*args) if all(x.size for x in args) else tuple(np.empty(*s) for s in self.specs)
        )

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        raise NotDifferentiableError(f"no derivative: {self.why_not}")

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        raise NotDifferentiableError(f"no derivative: {self.why_not}")
