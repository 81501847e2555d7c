"""The types of public arguments and results, for editors and type checkers."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class AnyArray(Protocol):
    """What arrays of NumPy, PyTorch, JAX and CuPy have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...


# the result is an array of the framework of this argument
ArrayT = TypeVar("ArrayT", bound=AnyArray)
