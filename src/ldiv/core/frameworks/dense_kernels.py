"""Kernels on dense arrays of one framework: factorizations, triangular solves, products, sums by index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ldiv.core.frameworks.array_protocol import Array


class DenseKernels(Protocol):
    """Kernels for dense matrices. The first six have no default; autograd uses those of NumPy."""

    def scatter(self, x: Any, index: Any, size: int, /) -> Array:
        """y[..., i, :] = sum of x[..., e, :] over all e with index[e] = i."""

    def lu_factor(self, a: Array, /) -> tuple[Array, Array]:
        """L and U packed into one array, and row exchanges as `lu_solve` takes them."""

    def lu_solve(self, lu: Array, pivots: Array, b: Array, op: str, /) -> Array:
        """x with op(A) x = b."""

    def sign_of_rows(self, pivots: Array, /) -> Array:
        """The determinant of the row exchanges."""

    def cholesky(self, a: Array, /) -> tuple[Array, Any]:
        """L, and whether all of the batch is positive definite."""

    def solve_triangular(self, a: Array, b: Array, lower: bool, unit: bool = False, /) -> Array:
        """x with A x = b, of which the other triangle is not read."""

    def product(self, a: Array, x: Array, /) -> Array:
        """a @ x in the full precision of the dtype, whatever a device's default."""

    def unset_rows(self, x: Array, n: int, /) -> Array:
        """n rows beside those of x, of the same batch, whose numbers are yet to be written."""

    def add_rows(self, y: Array, index: Any, x: Array, /) -> Array:
        """y with x[..., e, :] added to y[..., index[e], :] for all e; y may be overwritten."""

    def minus_upper(self, y: Array, a: Array, x: Array, /) -> Array:
        """y - a^H x in the upper triangle, in place of y, which has zeros below it."""

    def minus_product(self, y: Array, a: Array, x: Array, /) -> Array:
        """y - a x, as `product` has it; y may be overwritten."""

    # -- kernels that may be better than the default ----------------------------------

    def cholesky_inverse(self, l: Array, /) -> Array:
        """(L L^H)^-1."""

    def qr(self, a: Array, mode: str = "reduced", /) -> tuple[Array, Array]:
        """Q and R, "reduced" or "complete", of each matrix of a batch."""

    def eigh(self, a: Array, /) -> tuple[Array, Array]:
        """The eigenvalues and eigenvectors of each."""

    def svd(self, a: Array, /) -> tuple[Array, Array, Array]:
        """The reduced decomposition of each."""

    def svdvals(self, a: Array, /) -> Array:
        """The singular values of each."""

    lu_pivoted: Callable[..., tuple[Array, Array]] | None  # L and U in one array, SciPy's exchanges

    def stream(self, x: Array, /) -> AbstractContextManager[int]:
        """A context in which libraries compute on the device of x; its value is the stream of the work
        there, 0 where there is but one.
        """

    def row_order(self, exchanges: Array, m: int, /) -> Array | None:
        """The order of m rows after these exchanges; None for the host's way."""
