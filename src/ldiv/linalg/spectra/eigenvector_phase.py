"""Eigenvectors in another gauge: X Q, with Q unitary inside each repeated eigenvalue.

X Q is as good an answer as X, and a loss that is a function of the problem is the same for both.
The checker tests this with the gauges that it sets. Nothing else sets a gauge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, is_complex
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, namespace, traced

Draw = Callable[[Any, bool], Any]  # (eigenvalues (k,), whether the vectors are complex) -> Q (k, k)
# The checker is given a closure, and cannot reach the eigensolvers that it calls: PyTorch's modes
# do not see autograd.Function, and NumPy has no modes. So the gauge is a variable of the context.
X = TypeVar("X")  # arrays of one type
_gauge: ContextVar[Draw | None] = ContextVar("gauge", default=None)


@contextmanager
def gauge(draw: Draw) -> Iterator[None]:
    """A context in which all eigenvectors are multiplied by the Q that `draw` returns."""
    token = _gauge.set(draw)
    try:
        yield
    finally:
        _gauge.reset(token)


def with_free_phase(w: Array, x: X) -> X:
    """X Q; X itself where no gauge is set."""
    vectors: Any = x
    q = _rotation(w, vectors)
    return x if q is None else vectors @ q


def regauged_space(x: X, h: X) -> tuple[X, X]:
    """X Q and Q^H H Q for any unitary Q: every basis of an invariant subspace is as good."""
    # Eigenvalues that are all 0 are one repeated eigenvalue.
    vectors: Any = x
    q: Any = _rotation(namespace(x).zeros_like(vectors[..., 0, :]), vectors)
    return (x, h) if q is None else (vectors @ q, adjoint(q) @ h @ q)


def _rotation(w: Array, x: Array) -> Array | None:
    """Q (*batch, k, k), or None where no gauge is set; a trace has no numbers to draw it from."""
    draw = _gauge.get()
    if draw is None or traced(w):
        return None
    values = asnumpy(w)
    k = values.shape[-1]
    each = [draw(row, is_complex(x)) for row in values.reshape(-1, k)]
    return namespace(x).asarray(np.reshape(each, (*values.shape, k)), **alike(x))
