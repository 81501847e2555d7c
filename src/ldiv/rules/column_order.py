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

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, on_host
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
        return on_host(_ordered, ((shape, np.dtype(np.int32)),), a)


def _ordered(a: Any) -> tuple[Any]:
    order = np.empty((*a.shape[:-2], a.shape[-1]), np.int32)
    for i in np.ndindex(*a.shape[:-2]):
        if 0 in a.shape:
            order[i] = np.arange(a.shape[-1])
        else:
            order[i] = scipy.linalg.qr(a[i], mode="r", pivoting=True, check_finite=False)[1]
    return (order,)


def column_order(a: Array) -> Array:
    """`order` with the columns A[:, order], in the framework's own kind of index."""
    # argsort of argsort is the order itself: only its index dtype changes
    inverse = namespace(a).argsort(bind(ColumnOrder(), a)[0], axis=-1)
    return namespace(a).argsort(inverse, axis=-1)
