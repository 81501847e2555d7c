"""The error of a batch names the first member that is refused: "member (252,): the matrix is singular".

The member is found by halves, so that a batch that is refused costs about one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast
from ldiv.core.frameworks.dispatch import asnumpy, traced
from ldiv.core.frameworks.looks import stays_on_device
from ldiv.core.policies.or_nan import rows_of_batch
from ldiv.errors import is_of_numbers

TEXTS = ("to_promise", "plain")  # of errors that have several


def named(
    problem: Exception, kernel: Callable[[list[Any]], Any], cores: Sequence[int], flat: list[Any]
) -> Exception:
    """Return the error of the first member that `kernel` refuses, with the position of the member
    in front.

    Return `problem` itself if no member is refused alone, or if an argument that all members share
    may be the cause.
    """
    if hasattr(problem, "member") or not is_of_numbers(problem):
        return problem
    batch = broadcast(*[batch_of(x, c) for x, c in zip(flat, cores, strict=True)])
    if not batch or not prod(batch) or any(traced(x) or stays_on_device(x) for x in flat):
        return problem
    # NumPy arrays first, which need no compilation; then the given ones, for functions of the user
    for arrays in ([asnumpy(x) for x in flat], flat):
        rows = [rows_of_batch(x, c, batch) for x, c in zip(arrays, cores, strict=True)]
        with suppress(Exception):
            found, place = _first(kernel, cores, rows, prod(batch))
            return problem if found is None else _at(found, np.unravel_index(place, batch))
    return problem


def _first(
    kernel: Callable[[list[Any]], Any], cores: Sequence[int], rows: list[Any], count: int
) -> tuple[Exception | None, int]:
    """Return the error and the position of the first member that is refused; None if none is
    refused alone.
    """

    def refused(start: int, end: int) -> Exception | None:
        some = [x if x.ndim == c else x[start:end] for x, c in zip(rows, cores, strict=True)]
        try:
            kernel(some)
        except Exception as error:
            if not is_of_numbers(error):
                raise
            return error
        return None

    start, end = 0, count
    is_shared = any(x.ndim == c for x, c in zip(rows, cores, strict=True) if prod(x.shape))
    if is_shared and refused(0, 1) and refused(end - 1, end):
        return None, 0  # the cause may be an argument that all members share
    while end - start > 1:
        middle = (start + end) // 2
        if refused(start, middle):
            end = middle
        elif refused(middle, end):
            start = middle
        else:
            return None, 0
    return refused(start, end), start


def _at(problem: Any, place: Sequence[Any]) -> Exception:
    """Prefix the message of an error with the position of its member."""
    problem.member = tuple(map(int, place))
    where = f"member {problem.member}: "
    problem.args = (where + str(problem),)
    for name in TEXTS:
        if hasattr(problem, name):
            setattr(problem, name, where + getattr(problem, name))
    found: Exception = problem.with_traceback(None)
    return found
