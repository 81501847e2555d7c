"""The order of m rows after LAPACK's exchanges: for i = 0, 1, ... rows i and exchanges[i] swap.

Integers: no derivative.
cost         m
reference    LAPACK, laswp
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import alike, batch_of, each_on_host
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Passing
from ldiv.errors import value_error


@dataclass(frozen=True)
class RowOrder(Passing):
    """Argument exchanges (*batch, k); output (*batch, m)."""

    m: int
    traits = Traits(differentiable=(False,), may_overflow=True, only_refuses=True, on_host=True)

    core = (1,)
    passed = (None,)

    def kernel(self, exchanges: Array) -> Arrays:
        at = namespace(exchanges).arange(exchanges.shape[-1], **alike(exchanges))
        check_or_raise(((exchanges >= at) & (exchanges < self.m)).all(), _not_exchanges)
        if (order := frontend_of(exchanges).dense.row_order(exchanges, self.m)) is not None:
            return (order,)
        shape = (*batch_of(exchanges, 1), self.m)
        spec = shape, np.dtype(np.int64)
        return each_on_host(partial(_order, self.m), self.core, (exchanges,), (spec,))


def row_order(exchanges: Array, m: int) -> Array:
    """`order` with A[order] = L U."""
    return bind(RowOrder(m), exchanges)[0]


def _not_exchanges() -> ValueError:
    advice = "torch.linalg.lu_factor and LAPACK count from 1: subtract 1."
    return value_error(
        "piv", "row exchanges i <= piv[i] < n, counted from 0 as in SciPy", "others", advice
    )


def _order(m: int, exchanges: Any) -> tuple[Any]:
    """LAPACK's laswp moves floating-point numbers; float64 holds the indices exactly."""
    # the rows 0, 1, .. of one column, exchanged as LAPACK exchanges those of A
    start = np.arange(m, dtype=float)[:, None]
    return (scipy.linalg.lapack.dlaswp(start, exchanges)[:, 0] if len(exchanges) else start[:, 0],)
