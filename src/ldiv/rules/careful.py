"""What the call of a compiled program declined (`ldiv.engines.factors.dense_programs`): the same rule
of NumPy arrays, which answers or raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ldiv.core.holder import holding, store
from ldiv.core.rule import Rule, bind
from ldiv.engines.accuracy.accepted import LU
from ldiv.rules.inverse import Inverse
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import Symmetric


def answer(
    text: str, letter: str, n: int, count: int, k: int, arrays: Sequence[bytes]
) -> tuple[np.ndarray[Any, Any], ...]:
    """The outputs for `count` matrices of n rows, with k right-hand sides each, row by row; `text`
    is what the program was told.
    """
    shapes = [(n, n), (n, k)][: len(arrays)]
    batch = (count,) if count > 1 else ()
    flat = [
        np.frombuffer(x, np.dtype(letter)).reshape(*batch, *shape)
        for x, shape in zip(arrays, shapes, strict=True)
    ]
    with holding(store):  # which finds the factor again for the derivative
        return tuple(map(np.ascontiguousarray, bind(_rule(text, n), *flat)))


def _rule(text: str, n: int) -> Rule:
    what, kind, op, _, assume_a, method, singular, _ = text.split(" ")
    base = dense(n, n)
    structure = (base if kind == LU else Symmetric(base)).view(op)
    if what == "solve":
        return Solve(structure, assume_a, method, singular=singular)
    if what == "slogdet":
        return SLogDet(structure, singular=singular)
    return {"inverse": Inverse, "logabsdet": LogAbsDet}[what](
        structure, assume_a, method, singular=singular
    )
