"""The types of public arguments and results, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar


class AnyArray(Protocol):
    """What arrays of NumPy, PyTorch, JAX and CuPy have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...


IndexLike: TypeAlias = Sequence[int] | AnyArray  # a vector of integers, of any framework
ParamsT = TypeVar("ParamsT")  # an array, or nested tuples, lists and dicts of arrays
# Arguments and results of this type are arrays of one framework.
ArrayT = TypeVar("ArrayT", bound=AnyArray)
