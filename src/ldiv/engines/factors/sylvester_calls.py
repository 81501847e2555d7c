"""A X + X B = Q and its cotangents, each in one compiled call. The factor is the Schur forms of A and B,
one of them made from the other where B = A^H. What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.owners.holder import owner
from ldiv.core.rules.compiled import Arrays, Need
from ldiv.core.rules.structure import Structure, compose, view_dense
from ldiv.engines import solve_log
from ldiv.engines.accuracy.accepted import MOST, compiled, is_taken, workers
from ldiv.engines.accuracy.operation_calls import is_like
from ldiv.engines.factors.cache import counts
from ldiv.engines.registry import name_of, on_host
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker_sum import KroneckerSum

NAME = "bartels_stewart"


@dataclass(frozen=True, slots=True)
class SylvesterCalls:
    """X (m, n), of which b and x of the rule are the one column, row by row. `ops`: how A and B are
    views of the parameters of the rule.
    """

    m: int
    n: int
    vector: bool
    ops: tuple[str, str] = ("N", "N")

    def taking(self, *flat: Array) -> SylvesterCalls | None:
        a, b, q = flat
        batch, own = a.shape[:-2], (self.m * self.n, *[1] * (not self.vector))
        fits = (
            a.dtype == b.dtype == q.dtype
            and b.shape[:-2] == batch
            and tuple(q.shape) == (*batch, *own)
            and max(self.m, self.n) <= MOST
            and is_taken(a)
            and is_taken(b)
        )
        return self if fits else None

    def forward(self, *flat: Any) -> Any:
        # an owner has the factor of the careful way, or keeps it for derivatives to come
        if (native := compiled()) is None or owner() is not None:
            return None
        (a, b), q, dtype = self._views(flat[:2]), flat[2], numpy_dtype(flat[0])
        x = np.empty(q.shape, dtype)
        # Schur forms: S and U of A^T, T and V of B^T
        forms = [np.empty(part.shape, dtype) for part in (a, a, b, b)]
        if not native.sylvester(a, b, self._block(q), self._block(x), *forms, workers(a.shape)):
            return None
        counts["factorizations"] += 1
        counts["solves"] += 1
        solve_log.note(NAME)
        return (x,), forms

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (x_bar,), (x,), native = cotangents, out, compiled()
        if factor is None or native is None or not is_like(x_bar, x):
            return None
        # A^H lam + lam B^H = X_bar; A_bar = -lam X^H, B_bar = -X^H lam, Q_bar = lam
        bars = [
            np.empty(factor[i].shape, factor[i].dtype) if need[i // 2] else None for i in (0, 2)
        ]
        q_bar = np.empty(tuple(x.shape), factor[0].dtype)
        of_x, threads = [self._block(y) for y in (x, x_bar, q_bar)], workers(factor[0].shape)
        if not native.sylvester_pullback(*factor, *of_x, *bars, threads):
            return None
        counts["solves"] += 1
        # A = op(p), so that p_bar = op(A_bar)
        return *self._views(bars), q_bar

    def _views(self, xs: Sequence[Any]) -> list[Any]:
        """op(x), row by row."""
        return [
            x if x is None or op == "N" else np.ascontiguousarray(view_dense(asnumpy(x), op))
            for x, op in zip(xs, self.ops, strict=True)
        ]

    def _block(self, x: Any) -> Any:
        """(*batch, m, n), of the numbers of a column."""
        return x.reshape(*x.shape[: x.ndim - (1 if self.vector else 2)], self.m, self.n)


def sylvester_calls(
    structure: Structure, assume_a: str, method: str, vector: bool
) -> SylvesterCalls | None:
    """The compiled calls of A x I + I x B^T for dense A and B, if this is one."""
    if not isinstance(structure, KroneckerSum):
        return None
    (first, of_a), (second, of_b) = (part.unview() for part in structure.parts)
    dense = isinstance(first, Dense) and isinstance(second, Dense)
    if not dense or name_of(on_host(structure, assume_a, method)) != NAME:
        return None
    return SylvesterCalls(first.shape[0], second.shape[0], vector, (of_a, compose(of_b, "T")))
