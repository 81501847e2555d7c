"""The columns of A in the order in which QR with pivoting takes them: the largest remainder first.

Integers: no derivative.
cost         1 factorization, on the host
reference    LAPACK, geqp3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import each_on_host
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Passing


@dataclass(frozen=True)
class ColumnOrder(Passing):
    """Argument (*batch, m, n); output (*batch, n)."""

    traits = Traits(differentiable=(False,), on_host=True)
    core = (2,)
    passed = (None,)

    def kernel(self, a: Array) -> Arrays:
        require_finite("A", a)
        shape = (*a.shape[:-2], a.shape[-1])
        return each_on_host(_order, self.core, (a,), ((shape, np.dtype(np.int32)),))


def _order(a: Any) -> tuple[Any]:
    if 0 in a.shape:
        return (np.arange(a.shape[-1]),)
    return (scipy.linalg.qr(a, mode="r", pivoting=True, check_finite=False)[1],)


def column_order(a: Array) -> Array:
    """`order` with the columns A[:, order], in the framework's own kind of index."""
    # argsort of argsort is the order itself: only its index dtype changes
    inverse = namespace(a).argsort(bind(ColumnOrder(), a)[0], axis=-1)
    return namespace(a).argsort(inverse, axis=-1)
