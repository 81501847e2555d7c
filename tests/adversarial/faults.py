"""A kind that fails in every way that there is, for the test of `fuzz`; not one of its KINDS."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from adversarial.case import Case, Wrong


def right() -> str:
    return "right"


def wrong(size: int) -> str:
    raise Wrong("larger than 3", size) if size > 3 else ValueError(f"{size} is not larger")


def abort() -> str:
    os._exit(3)


def hang() -> str:
    time.sleep(60)
    return "late"


def sized(size: int) -> Case:
    return Case(
        "wrong",
        size,
        partial(wrong, size),
        lambda: f"wrong({size})",
        lambda: map(sized, range(size - 1, 0, -1)),
    )


def cases(seed: int) -> Iterator[Case]:
    for check in (right, abort, right, hang, right):
        yield Case(check.__name__, 1, check, lambda name=check.__name__: f"{name}()")
    yield from map(sized, (9, 2, 7))
