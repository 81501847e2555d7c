"""Rows of the compiled table of operations as calls of rules: no factor outlives them.
What is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.rules.compiled import Arrays, Need
from ldiv.engines.accuracy.accepted import MOST, is_taken
from ldiv.engines.libraries import native as library

# the letters of real and complex numbers of the precision of a dtype
REAL, COMPLEX = (dict(zip("fdFD", letters, strict=True)) for letters in ("fdfd", "FDFD"))


class OperationCalls:
    """An operation, by `found`, and its cotangents, by `pulled`; both return None where they decline."""

    found: Callable[..., Arrays | None]  # of the compiled module, and the arguments: the outputs

    def taking(self, *flat: Array) -> Self | None:
        return self if is_taken(flat[0]) and flat[0].shape[-2] <= MOST else None

    def forward(self, *flat: Array) -> Any:
        out = library.native and self.found(library.native, *flat)
        return out and (out, None)

    def backward(
        self, factor: None, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        if library.native is None or not are_like(cotangents, out):
            return None
        return self.pulled(library.native, cotangents, out, *flat)

    def pulled(self, native: Any, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        """The cotangents of the arguments."""
        return None


def is_like(bar: Any, y: Any) -> bool:
    """True if there is a cotangent, and it has the dtype and the shape of its output."""
    return bar is not None and bar.dtype == y.dtype and bar.shape == y.shape


def are_like(cotangents: Arrays, out: Arrays) -> bool:
    """True if there are cotangents, and each of them has the dtype and the shape of its output."""
    is_any = False
    for bar, y in zip(cotangents, out, strict=True):
        if bar is not None:
            if bar.dtype != y.dtype or bar.shape != y.shape:
                return False
            is_any = True
    return is_any
