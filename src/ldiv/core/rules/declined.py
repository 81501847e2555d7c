"""y = f(x) of a batch that the compiled operation declined as a whole: it takes most members by
themselves, and the kernel in Python the others.

A declined part is divided until its members stand alone. So one member of a large condition among
10,000 costs some calls of compiled code, and not the careful way for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ldiv.core.arrays.shapes import batch_of
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.policies.or_nan import unless_refused
from ldiv.core.rules.compiled import Operation, computed
from ldiv.core.rules.rule import Rule

MANY = 32  # members: of fewer the careful way costs little more than one
PARTS = 16  # of a declined part
MOST = 1 / 4  # the share of declined members beyond which the kernel computes all members
Outputs: TypeAlias = tuple[Any, ...]


def beside_declined(
    rule: Rule, flat: list[Any], careful: Callable[[Rule, list[Any]], Outputs]
) -> Outputs | None:
    """Return the outputs of a large batch; None if the operation accepts too few members, or
    `careful` refuses one of the others.
    """
    if (operation := rule.compiled) is None or {*map(type, flat)} != {np.ndarray}:
        return None
    batch, *others = [batch_of(x, core) for x, core in zip(flat, rule.cores, strict=True)]
    if prod(batch) < MANY or any(own != batch for own in others) or not operation.taking(*flat):
        return None
    rows = [x.reshape(prod(batch), *x.shape[len(batch) :]) for x in flat]
    with holding(Holder()):  # the factors of a part are not needed
        found = _Members(operation, rows)
        if not found.take(0, prod(batch)) or not found.outputs:
            return None
    outputs, left = found.outputs, found.left
    if left:
        ys = unless_refused(partial(careful, rule), [x[left] for x in rows])
        if ys is None:  # its error would name a member by its position in the part
            return None
        if any(whole.dtype != y.dtype for whole, y in zip(outputs, ys, strict=True)):
            return None  # nothing may be cut off
        for whole, y in zip(outputs, ys, strict=True):
            whole[left] = y
    return tuple([y.reshape(*batch, *y.shape[1:]) for y in outputs])


class _Members:
    """The outputs of the members that the operation takes, and the others, which are `left`."""

    def __init__(self, operation: Operation, rows: list[HostArray]) -> None:
        self._operation, self._rows = operation, rows
        self.outputs: list[HostArray] = []
        self.left: list[int] = []

    def take(self, start: int, end: int) -> bool:
        """Divide a declined part; False if too many members are declined."""
        step = -(-(end - start) // PARTS)
        for first in range(start, end, step):
            last = min(first + step, end)
            if (made := computed(self._operation, [x[first:last] for x in self._rows])) is None:
                if last - first == 1:
                    self.left.append(first)
                if len(self.left) > MOST * len(self._rows[0]):
                    return False
                if last - first > 1 and not self.take(first, last):
                    return False
                continue
            if not self.outputs:
                count = len(self._rows[0])
                self.outputs = [np.empty((count, *y.shape[1:]), y.dtype) for y in made[0]]
            for whole, y in zip(self.outputs, made[0], strict=True):
                whole[first:last] = y
        return True
