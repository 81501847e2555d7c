"""exp(t A) of a small A, where it costs less than the steps of exp(t A) b.

    Y = exp(t A) B;    the cotangent of A is t D exp(t A^H)[C B^H]

Steps keep the digits of a Y that is much smaller than |exp(t A)| |B|; exp(t A) does not, and is not
used there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.trees import HostArray, Tree
from ldiv.core.rules.structure import Structure, outer
from ldiv.engines.functions.matrix_exponential import Exponential
from ldiv.errors import LinAlgOverflowError
from ldiv.structures.composed import entries

SMALL = 256  # order
WORTH = 80**3  # n^3 for which exp(t A) costs as much as one step
KEPT = 1e-3  # of |exp(t A)| |B|, which Y must be


def cheaper(structure: Structure, b: Any, count: Callable[[], Any]) -> bool:
    """Whether exp(t A) costs less than `count()` steps."""
    n = structure.shape[0]
    if type(b) is not np.ndarray or not 1 < n <= SMALL or entries(structure) is None:
        return False
    return n**3 <= WORTH or bool(n**3 <= WORTH * count())


def small_action(structure: Structure, p: Tree, b: Any, t: float) -> HostArray | None:
    """exp(t A) b, or None if digits are lost."""
    e = _each(t * _wide(structure.todense(p)))
    if e is None:
        return None
    # for each column of B: |Y| >= KEPT |exp(t A)| |B|
    y = e @ b
    kept = abs(y).max(-2) >= KEPT * abs(e).max((-2, -1))[..., None] * abs(b).max(-2)
    return y.astype(b.dtype) if kept.all() else None


def small_projection(
    structure: Structure, p: Tree, b: Any, c: Any, t: float, need: Tree
) -> Tree | None:
    """The cotangent of p from that of exp(t S(p)) b, or None if digits are lost."""
    a = adjoint(t * _wide(structure.todense(p)))
    # D exp(t A^H)[C B^H]
    found = _each(a, _wide(c @ adjoint(b)))
    if found is None:
        return None
    # A_bar = t D exp(t A^H)[C B^H], and p_bar = outer(A_bar, I)
    eye = np.eye(a.shape[-1], dtype=b.dtype)
    return outer(structure, p, (t * found).astype(c.dtype), eye, need)


def _wide(a: Any) -> HostArray:
    return a.astype(np.result_type(a.dtype, float), copy=False)


def _each(a: HostArray, *directions: HostArray) -> HostArray | None:
    """exp(A), or its derivative, of every member of a batch; None if one of them has no digits."""
    if not np.isfinite(a).all():  # t A overflows
        return None
    f = Exponential()
    batch = np.broadcast_shapes(*(x.shape for x in (a, *directions)))
    wide = [np.broadcast_to(x, batch) for x in (a, *directions)]
    out = np.empty(batch, np.result_type(*wide))
    for i in np.ndindex(*batch[:-2]):
        first, *es = (x[i] for x in wide)
        try:
            out[i] = f.derivative(first, es) if es else f.value(first)
        except LinAlgOverflowError:
            return None
    return out if np.isfinite(out).all() else None
