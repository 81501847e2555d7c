"""X Q in place of eigenvectors X, with Q unitary inside each repeated eigenvalue: as good an answer
as the first.

What is a function of the problem does not change. The checker asks for other gauges, and looks;
nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ldiv.core.arrays import adjoint, alike, is_complex
from ldiv.core.dispatch import asnumpy, namespace, traced
from ldiv.core.trees import Array

Draw = Callable[[Any, bool], Any]  # (eigenvalues (k,), whether the vectors are complex) -> Q (k, k)
# The checker knows of a closure only. What eigensolvers return inside of it could be changed from
# outside in JAX's traces; but PyTorch's modes do not see autograd.Function, and NumPy has no modes:
# so the checker says it here, in its own context alone.
_gauge: ContextVar[Draw | None] = ContextVar("gauge", default=None)


@contextmanager
def gauge(draw: Draw) -> Iterator[None]:
    """Inside, all eigenvectors are in this gauge."""
    token = _gauge.set(draw)
    try:
        yield
    finally:
        _gauge.reset(token)


def with_free_phase(w: Array, x: Array) -> Array:
    """X Q, which is X unless somebody asked."""
    q = _rotation(w, x)
    return x if q is None else x @ q


def regauged_space(x: Array, h: Array) -> tuple[Array, Array]:
    """X Q and Q^H H Q, where every basis of the subspace is as good."""
    q = _rotation(namespace(x).zeros_like(x[..., 0, :]), x)
    return (x, h) if q is None else (x @ q, adjoint(q) @ h @ q)


def _rotation(w: Array, x: Array) -> Array | None:
    draw = _gauge.get()
    if draw is None or traced(w):
        return None
    values = asnumpy(w)
    k = values.shape[-1]
    each = [draw(row, is_complex(x)) for row in values.reshape(-1, k)]
    return namespace(x).asarray(np.reshape(each, (*values.shape, k)), **alike(x))
