"""A sparse matrix of another library as it is stored there; nothing of it has been checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ldiv.core.array_protocol import Array


class Parts(NamedTuple):
    """Its format under SciPy's name, or under the library's own where SciPy has none; its values,
    and their places: (rows, columns) for coo, (indices, indptr) for csr, csc and bsr.
    """

    format: str
    values: Array
    at: tuple[Any, Any]
    shape: tuple[int, ...]
    # the same with each entry once, where the library adds up duplicates, and does so blindly
    merged: Callable[[], Parts] | None = None
