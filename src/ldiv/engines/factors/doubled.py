"""b - A x in twice the digits of its numbers, or in as many as the machine has: on the host.

Double precision becomes NumPy's long double, of 64 or 113 bits where the machine has it, and else
stays what it is.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import rebuild
from ldiv.core.rules.compiled import in_rows
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.accuracy.accepted import MOST, compiled, is_taken, workers
from ldiv.engines.factors.factorize import batch_axes, each_matrix
from ldiv.structures.dense import Dense

WIDER = {"f": np.float64, "d": np.longdouble, "F": np.complex128, "D": np.clongdouble}


def residual(structure: Structure, *flat: Any) -> Any:
    """b - S(p) x from the leaves of p, x (*batch, n, k), b (*batch, m, k), for an S with entries."""
    base, op = structure.unview()
    *own, x, b = flat
    if isinstance(base, Dense) and op == "N":
        return _of_dense(own[0], x, b)
    p = rebuild(base.core, own)
    batch = np.broadcast_shapes(*(y.shape[:-2] for y in (x, b)), batch_axes(base, p))
    count = prod(batch)
    rows = [
        np.broadcast_to(y, (*batch, *y.shape[-2:])).reshape(count, *y.shape[-2:]) for y in (x, b)
    ]
    members = zip(each_matrix(base, own, batch), *rows, strict=True)
    found = [_of_one(base, op, *member) for member in members]
    return np.reshape(np.array(found, b.dtype), (*batch, *b.shape[-2:])) if count else b * 0


def _of_dense(p: Any, x: Any, b: Any) -> Any:
    batch = np.broadcast_shapes(*(y.shape[:-2] for y in (p, x, b)))
    found = np.empty((*batch, *b.shape[-2:]), b.dtype)
    is_double = p.dtype == x.dtype == b.dtype and b.dtype.char in "dD"  # BLAS has double for single
    if is_double and is_taken(p) and found.size and max(b.shape[-2:]) <= MOST:
        compiled().residual(*map(in_rows, (p, x, b)), found, "m", workers(p.shape))
        return found
    with np.errstate(all="ignore"):
        # one rounding to the dtype of b, after the difference
        found[...] = _wide(b) - _wide(p) @ _wide(x)
    return found


def _of_one(base: Structure, op: str, p: Any, x: Any, b: Any) -> Any:
    assert base.pattern is not None
    A = base.pattern.csc(_wide(base.slot_values(p)))
    transposed, conjugated = VIEWS[op]
    A = A.T if transposed else A
    with np.errstate(all="ignore"):
        # conj(A) x = conj(A conj(x)): the conjugate of A is not formed
        y = np.conj(A @ np.conj(_wide(x))) if conjugated else A @ _wide(x)
        return (_wide(b) - y).astype(b.dtype)


def _wide(x: Any) -> Any:
    return x.astype(WIDER[x.dtype.char])
