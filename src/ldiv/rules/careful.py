"""What the call of a compiled program declined (`engines.factors.dense_programs`): the same rule
of NumPy arrays, which answers or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldiv.core.holder import holding, store
from ldiv.core.rule import Rule, bind
from ldiv.core.structure import Structure
from ldiv.engines.accuracy.accepted import LU as BY_LU
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.inverse import Inverse
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.lu import LU
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import triangular


def answer(
    text: str, letter: str, count: int, shapes: Sequence[tuple[int, int]], arrays: Sequence[bytes]
) -> tuple[np.ndarray[Any, Any], ...]:
    """The outputs for `count` members, matrices of these shapes row by row; `text` is what the
    program was told.
    """
    batch = (count,) if count > 1 else ()
    flat = [
        np.frombuffer(x, np.dtype(letter)).reshape(*batch, *shape)
        for x, shape in zip(arrays, shapes, strict=True)
    ]
    what, *told = text.split(" ")
    with holding(store):  # which finds the factor again for the derivative
        out = bind(RULES[what](shapes[0][0], *told), *flat)
    return tuple(np.ascontiguousarray(y, None if y.dtype.kind in "fc" else np.int32) for y in out)


def _structure(n: int, kind: str, op: str) -> Structure:
    base = dense(n, n)
    return (base if kind == BY_LU else Symmetric(base)).view(op)


def _solve(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, singular: str, __: str
) -> Rule:
    return Solve(_structure(n, kind, op), assume_a, method, singular=singular)


def _inverse(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, singular: str, __: str
) -> Rule:
    return Inverse(_structure(n, kind, op), assume_a, method, singular=singular)


def _logabsdet(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, singular: str, __: str
) -> Rule:
    return LogAbsDet(_structure(n, kind, op), assume_a, method, singular=singular)


def _slogdet(n: int, kind: str, op: str, *told: str) -> Rule:
    return SLogDet(_structure(n, kind, op), singular=told[3])


def _triangular(
    n: int, uplo: str, op: str, diag: str, _: str, assume_a: str, method: str, __: str
) -> Rule:
    base = triangular(n, uplo == "L", "unit" if diag == "U" else "own")
    return Solve(base.view(op), assume_a, method)


RULES: dict[str, Callable[..., Rule]] = {
    "solve": _solve,
    "inverse": _inverse,
    "logabsdet": _logabsdet,
    "slogdet": _slogdet,
    "triangular": _triangular,
    "cholesky": lambda *_: Cholesky(),
    "lu": lambda *_: LU(),
}
