"""x = op(S(p))^-1 b by a factor that is held, asked directly: for NumPy's numbers, one matrix, and b of one
kind. Nothing is planned, and no factor of equal values is looked for; every look at the numbers is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.compiled import in_rows
from ldiv.core.dispatch import check_or_raise
from ldiv.core.errstate import singular_state
from ldiv.core.finite import all_finite, require_finite, unwarned
from ldiv.core.holder import Holder, holding
from ldiv.core.record import is_recording
from ldiv.core.structure import Structure
from ldiv.core.trees import HostArray
from ldiv.engines import solve_log
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.factorize import factorize
from ldiv.engines.factors.plan import planned
from ldiv.errors import overflowed

Held = Callable[[HostArray], HostArray | None]  # b -> x, None for what goes the long way


def held_solve(
    holder: Holder,
    structure: Structure,
    p: HostArray,
    b: HostArray,
    vector: bool,
    assume_a: str,
    method: str,
    factor_dtype: str | None,
) -> Held:
    """For vectors, or blocks, of the dtype of this b; the holder keeps the factor."""
    block = b[:, None] if vector else b
    plan = planned(structure, p, block, assume_a, method, factor_dtype)
    if not plan.single or plan.mixed or plan.op == "C" or plan.factors is None:
        return declined
    found: Any = None
    with holding(holder):
        if plan.calls is not None and plan.calls.fit(p, block):
            found = plan.calls.factor(p, block)
        if found is None:
            (made,) = factorize(plan.factors, p)
            solve: Held = partial(_solved, made, plan.op, vector)
        else:
            solve = partial(_accepted, found, plan.op, vector)
    return partial(_looked_at, solve, structure.shape[0], singular_state())


def declined(b: HostArray) -> None:
    """What is not solved so."""


def _looked_at(solve: Held, rows: int, state: str, b: HostArray) -> HostArray | None:
    """Unless anybody looks on, or b is none that was thought of."""
    if b.shape[0] != rows or not b.size or singular_state() != state:
        return None
    return None if is_recording() or solve_log.is_read() else solve(b)


def _accepted(factor: Any, op: str, vector: bool, b: HostArray) -> HostArray | None:
    """By what is compiled."""
    x = np.empty(b.shape, b.dtype)
    if not factor.solve(in_rows(b), x, op, vector, 1):
        return None
    _count()
    return x


def _solved(factor: Any, op: str, vector: bool, b: HostArray) -> HostArray:
    require_finite("b", b)
    with unwarned():
        x: HostArray = factor.solve(b[:, None] if vector else b, op)
    _count()
    check_or_raise(all_finite(x), partial(overflowed, "the solution"))
    return x[:, 0] if vector else x


def _count() -> None:
    counts["hits"] += 1
    counts["solves"] += 1
