"""A factored matrix: what every engine that factors returns.

Laws: solve(b, "T") is the solve with the transpose; an equal pattern is analysed once; singular
raises, never NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ldiv.core.trees import Array
from ldiv.errors import EngineError


class Factor(ABC):
    """A factored matrix. If `arrays` are all that it is made of, `remake(*arrays)` is the
    factor, and `core` says how many axes are their own.
    """

    nbytes: int = 0
    arrays: tuple[Array, ...] = ()
    core: tuple[int, ...] = ()

    @property
    def remake(self) -> Callable[..., Factor]:
        """The factor of its arrays, given one by one; compared by content."""
        return type(self)

    @abstractmethod
    def solve(self, b: Array, op: str) -> Array:
        """x with op(A) x = b for b (*batch, n, k), op in N, T, H."""

    @abstractmethod
    def logabsdet(self) -> Array:
        """log |det A|, of shape (*batch,)."""

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|)."""
        raise EngineError(f"{type(self).__name__} does not know the sign of the determinant.")

    def solve_unrefined(self, b: Array, op: str) -> Array:
        """The solve without a look at its residual, for iterations that look at their own."""
        return self.solve(b, op)

    def check_nonsingular(self) -> None:  # noqa: B027  (most engines have nothing left to look at)
        """Raise now if A is singular; for engines that leave this to the first solve."""
