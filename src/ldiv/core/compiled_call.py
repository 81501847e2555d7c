"""A rule as one call of a compiled program: what is asked, by name, and what comes of it.

Whoever has compiled code offers its calls here, and a front end whose programs can call them takes
them up. A call reads the leaves of the rule's arguments, the first of them a matrix, and may make
a factor of that: arrays beside the results, which the calls of derivatives are given.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

Specs = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]  # shapes and dtypes


class CompiledCall(NamedTuple):
    """One call, for arguments of these shapes and dtypes."""

    name: str
    rule: str  # what it is told
    own: Specs  # its results
    key: Hashable = None  # what factors have in common that it can be given
    made: Specs = ()  # the arrays of its factor, if it makes one
    core: tuple[int, ...] = ()  # the own axes of each of them
    probe: np.ndarray[Any, Any] | None = None  # an argument of a call that makes a factor
    looks: bool = False  # or has one given, too
    # of a sparse matrix: rows and columns of its entries, an argument of every call
    pattern: np.ndarray[Any, Any] | None = None


offered: dict[str, Any] = {}  # what XLA calls, by name; nothing, where ldiv is not compiled
