"""A factored matrix: the result of every engine that factors.

Laws: solve(b, "T") is the solve with the transpose; equal patterns are analysed once; a singular
matrix raises, and never gives NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ldiv.core.arrays.shapes import unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.errors import EngineError


class OfAnotherKindError(Exception):
    """Raised if only factors of other engines have the requested method."""


class Factor(ABC):
    """A factored matrix.

    If `arrays` are all that it consists of, `remake(*arrays)` is the factor again, and `core` are
    the numbers of their own axes.
    """

    nbytes: int = 0
    arrays: tuple[Array, ...] = ()
    core: tuple[int, ...] = ()
    found_again = False  # is it one that was alive already, below Python?

    @property
    def remake(self) -> Callable[..., Factor]:
        """arrays -> factor; compared by content."""
        return type(self)

    @abstractmethod
    def solve(self, b: Array, op: str) -> Array:
        """x with op(A) x = b for b (*batch, n, k), op in N, T, H."""

    def logabsdet(self) -> Array:
        """log |det A|, of shape (*batch,)."""
        return self.slogdet()[1]

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|)."""
        raise EngineError(f"{type(self).__name__} does not know the sign of the determinant.")

    def inverse(self, a: Array) -> Array:
        """A^-1 of a dense A = a, the derivative of its determinant."""
        # A X = I
        return self.solve(unit_columns(a, a.shape[-1], range(a.shape[-1])), "N")

    def solve_unrefined(self, b: Array, op: str) -> Array:
        """The solve without refinement, for iterations that check residuals themselves."""
        return self.solve(b, op)

    def signs(self) -> tuple[int, int] | None:
        """The numbers of positive and negative eigenvalues of a Hermitian A, None if unknown."""
        return None

    def check_nonsingular(self) -> None:  # noqa: B027  (most engines check when they factor)
        """Raise now if A is singular; for engines that leave this to the first solve."""

    def check_by_solving(self) -> None:
        """Raise now what the solve of a random right-hand side would raise."""
        self.check_nonsingular()

    # -- what only factors know that are sparse triangles at hand

    def triangle(self) -> Array:
        """The values of L, on its pattern."""
        raise OfAnotherKindError

    def inverse_entries(self) -> Array:
        """The entries of A^-1 on the pattern of A^T."""
        raise OfAnotherKindError

    def inverse_tangent(self, e: Array) -> Array:
        """The tangents of these entries, -A^-1 dA A^-1, along the entries e of dA."""
        raise OfAnotherKindError
