"""op(A) x = b for dense A in compiled code: factor, checks and solves, each in one call.

`ldiv._native` makes the checks of `verified` with the same bounds, and accepts an answer only if all
pass at once: balanced rows and columns, a probe without growth, a small residual. It declines all
other matrices; then the careful way factors the matrix again, and its verdict counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, numpy_dtype
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host_values, on_host
from ldiv.core.rules.compiled import in_rows
from ldiv.engines.factor import Factor
from ldiv.engines.libraries import native
from ldiv.engines.libraries.threads import threads

LU, CHOLESKY, HERMITIAN = (
    "L",
    "C",
    "H",
)  # the last one: LU of a matrix that must be Hermitian, exactly
MOST = 4096  # rows; for larger matrices the overhead around LAPACK is negligible
DTYPES = frozenset(map(np.dtype, "fdFD"))
SMALL = 1 << 20  # operations below which starting threads takes longer


def accepted(kind: str, a: Array, careful: Callable[[], Factor]) -> Factor:
    """Return the factor of A (*batch, n, n): a compiled one if it was accepted, else that of
    `careful()`.
    """
    if (values := host_values(a)) is None or not is_taken(values):
        return careful()
    values = in_rows(values)
    found, again = native.native.factor(values, kind, workers(values.shape))
    return careful() if found is None else Accepted(found, again, values, a, careful)


def compiled() -> Any:
    """The compiled module, None if there is none."""
    return native.native


def is_taken(a: Array) -> bool:
    """True if compiled code accepts dense matrices of this dtype and size, of any framework."""
    shape = a.shape
    return (
        native.native is not None
        and numpy_dtype(a) in DTYPES
        and shape[-1] <= MOST
        and 0 not in shape
    )


def live_factors() -> tuple[int, int]:
    """The number of live factors in compiled code, and their bytes."""
    if native.native is None:
        return 0, 0
    dense, of_dense = native.native.live_factors()
    sparse, of_sparse = native.native.live_sparse_factors()
    return dense + sparse, of_dense + of_sparse


def workers(shape: Sequence[int]) -> int:
    """The number of threads that share the matrices (*batch, n, n) of a batch."""
    # n^3 operations for each matrix
    return 1 if len(shape) == 2 or prod(shape) * shape[-1] < SMALL else threads()


class Accepted(Factor):
    """A compiled factor of A, with the values from which it was made.

    found_again: the factor existed already, and nothing was factored.
    """

    def __init__(
        self,
        found: Any,
        found_again: bool,
        values: np.ndarray[Any, Any],
        a: Array,
        careful: Callable[[], Factor],
    ) -> None:
        self._found, self.found_again = found, found_again
        self._values, self._a, self._make = values, a, careful
        self.nbytes = found.nbytes
        found.is_wrapped = True

    @cached_property
    def _careful(self) -> Factor:
        """Return the factor that solves if the compiled solution is declined."""
        return self._make()

    def solve(self, b: Array, op: str) -> Array:
        given, a = host_values(b), self._values
        # compiled code does not broadcast: it takes one block for each matrix, of the same dtype
        if given is not None and given.dtype == a.dtype and batch_of(given, 2) == batch_of(a, 2):
            x = np.empty(given.shape, a.dtype)
            if x.size and self._found.solve(in_rows(given), x, op, workers(a.shape)):
                return self._like(x)
        return self._careful.solve(b, op)

    def inverse(self, a: Array) -> Array:
        x = np.empty_like(self._values)
        is_found = self._found.inverse(x, workers(x.shape))
        return self._like(x) if is_found else self._careful.inverse(self._a)

    def slogdet(self) -> tuple[Array, Array]:
        sign, size = self._determinants()
        return self._careful.slogdet() if size is None else (self._like(sign), self._like(size))

    def logabsdet(self) -> Array:
        # not every careful factor knows the sign
        _, size = self._determinants()
        return self._careful.logabsdet() if size is None else self._like(size)

    def _determinants(self) -> tuple[Any, Any]:
        """det / |det| and log |det| of all matrices, or None and None."""
        batch, dtype = batch_of(self._values, 2), self._values.dtype
        sign, size = np.empty(batch, dtype), np.empty(batch, np.finfo(dtype).dtype)
        return (sign, size) if self._found.slogdet(sign, size) else (None, None)

    def _like(self, x: np.ndarray[Any, Any]) -> Array:
        """Move x to the framework and device of A."""
        return on_host(lambda _: (x,), ((x.shape, x.dtype),), self._a)[0]
