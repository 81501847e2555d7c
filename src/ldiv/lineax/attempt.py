"""x = S(p)^-1 b, or NaN and the word that it was refused: frameworks that return a result do not
stop at an exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ldiv.core.arrays.shapes import common_batch, one_by_one, result_dtype
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.rules.rule import Traits
from ldiv.engines import solver
from ldiv.errors import EngineError, NotSymmetricError
from ldiv.rules.solve import Solve

REFUSALS = (np.linalg.LinAlgError, NotSymmetricError, EngineError)


@dataclass(frozen=True)
class Attempt(Solve):
    """(x, refused) with S(p) x = b; x is NaN if refused, in a batch for each matrix by itself."""

    @cached_property
    def traits(self) -> Traits:
        ours = Solve.traits.func(self)
        return replace(ours, differentiable=(True, False), may_overflow=True)

    def kernel(self, *args: Tree) -> Arrays:
        flat = leaves(args)
        x = (*common_batch(self.core, args), *flat[-1].shape[-2:]), result_dtype(args)
        return on_host(self._attempt, (x, (x[0][:-2], np.dtype(bool))), *flat)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return *super().jvp(tangents, out[:1], *args), None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return super().vjp(need, cotangents[:1], out[:1], *args)

    def _attempt(self, *flat: Array) -> tuple[Array, Array]:
        p, b = args = rebuild(self.core, flat)
        batch = common_batch(self.core, args)
        try:
            if all(np.isfinite(x).all() for x in flat):
                return solver.solve(self.structure, p, b, self.assume_a, self.method), np.zeros(
                    batch, bool
                )
        except REFUSALS:
            pass
        x = np.full((*batch, *b.shape[-2:]), np.nan, np.result_type(*flat))
        refused = np.ones(batch, bool)
        if batch:
            for i, one in zip(np.ndindex(batch), one_by_one(self.core, args), strict=True):
                x[i], refused[i] = self._attempt(*leaves(one))
        return x, refused
