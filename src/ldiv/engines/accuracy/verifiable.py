"""The matrix M that an engine factors, as the verdict sees it: products, a norm, backward errors.

    error = |r| / (|M| |x| + |b|) in the max norm, column by column,   r = b - op(M) x
    row error = max_i |r|_i / (|M| |x| + |b|)_i,  which is the same in all units (Oettli, Prager)

M = R P A Q C, in units in which rows and columns are alike: otherwise the norm of A would hide its
small rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_opaque, namespace
from ldiv.core.frameworks.looks import assumed_true
from ldiv.engines.accuracy.limits import REFINED, limits

Scales = tuple[Array, Array] | None  # the diagonals of R and C
FEW = 512  # numbers up to which LAPACK's loops are faster than NumPy's functions


class Verifiable(ABC):
    """The interface of a matrix, or a batch of matrices, for the verdict."""

    arrays: tuple[Array, ...] = ()  # all arrays of the matrix, empty if unknown
    core: tuple[int, ...] = ()
    is_single = True  # one matrix of NumPy
    is_traced = False
    has_sizes = False

    def __init__(self, n: int, dtype: np.dtype[Any], nbytes: int) -> None:
        self.n, self.dtype, self.nbytes = n, dtype, nbytes
        self.limits = limits(dtype)
        self.enough = REFINED * self.limits.eps  # an error that refinement would not reduce

    @property
    def remake(self) -> Callable[..., Verifiable]:
        """arrays -> matrix."""
        return type(self)

    @abstractmethod
    def product(self, x: Array, op: str) -> Array:
        """op(M) x."""

    def residual(self, b: Array, x: Array, op: str) -> Array:
        """b - op(M) x."""
        return b - self.product(x, op)

    @abstractmethod
    def is_small(self, r: Array, x: Array, b: Array, op: str) -> bool:
        """True if the residual r is so small that x needs no refinement; False in a trace."""

    @abstractmethod
    def errors(self, r: Array, x: Array, b: Array, op: str) -> Array:
        """The backward error of every column, (*batch, 1, k)."""

    def sizes(self, x: Array, op: str) -> Array:
        """Return |op(M)| |x|, for a matrix whose entries are available."""
        raise NotImplementedError

    def row_sizes(self, x: Array, b: Array, op: str) -> Array:
        """Return |M| |x| + |b|, the denominators of row errors, for a matrix that has `sizes`."""
        # |M| (|x| + tiny) + |b| + tiny
        return self.sizes(self.rounded_sizes(x), op) + self.rounded_sizes(b)

    def rounded_sizes(self, x: Array) -> Array:
        """Return |x| + tiny; eps times this bounds the rounding of x, also of subnormal numbers."""
        return namespace(x).abs(x) + self.limits.tiny

    def checked_residual(self, b: Array, x: Array, op: str) -> tuple[Array, bool]:
        """Return the residual of x, and whether it is small."""
        r = self.residual(b, x, op)
        return r, self.is_small(r, x, b, op)

    def measured(self, b: Array, x: Array, op: str) -> tuple[Array, Array]:
        """The residual of x, and the backward error of every column."""
        r = self.residual(b, x, op)
        return r, self.errors(r, x, b, op)

    def direction(self, z: Any) -> Array:
        """The random direction z (n, 1), of NumPy, as an array like M."""
        return z

    def arranged(self, b: Any, op: str) -> Array:
        """b of op(A) x = b in the order of the rows of op(M), and in its dtype."""
        return b.astype(self.dtype, copy=False)

    def rearranged(self, x: Array, op: str) -> Array:
        """x from the order of the columns of op(M)."""
        return x


class Normed(Verifiable):
    """A matrix with a norm."""

    @abstractmethod
    def norm(self, op: str) -> Any:
        """|op(M)|, by row sums for N, else by column sums; (*batch, 1, 1), a float if it is single."""

    def bound(self) -> Any:
        """Return an upper bound of the largest column sum that costs less than the sum."""
        return self.norm("T")

    def is_small(self, r: Array, x: Array, b: Array, op: str) -> bool:
        """b could only make it smaller."""
        if not self.is_single and is_opaque(x):
            return False
        # |r| <= REFINED eps |M| |x|
        return every(largest(r) <= self.enough * self.norm(op) * largest(x))

    def errors(self, r: Array, x: Array, b: Array, op: str) -> Array:
        return self._error_of_sizes(largest(r), largest(x), largest(b), op)

    def _error_of_sizes(self, r: Any, x: Any, b: Any, op: str) -> Any:
        # |r| / (|M| (|x| + tiny) + |b| + tiny)
        tiny = self.limits.tiny
        errors = r / (self.norm(op) * (x + tiny) + b + tiny)
        # of NumPy's type, as callers ask for (error <= tolerance).all()
        return np.float64(errors) if type(errors) is float else errors


def largest(x: Array) -> Any:
    """|x|_inf of every column, (*batch, 1, k), a float for one of NumPy; NaN if x has NaN."""
    if type(x) is np.ndarray and x.shape[1:] == (1,):
        return lange(x.dtype)("M", x) if len(x) <= FEW else float(np.abs(x).max())
    xp = namespace(x)
    return xp.max(xp.abs(x), axis=-2, keepdims=True)


def sums(x: Array) -> Any:
    """|x|_1 of every column."""
    if type(x) is np.ndarray and x.shape[1:] == (1,):
        return lange(x.dtype)("1", x) if len(x) <= FEW else float(np.abs(x).sum())
    xp = namespace(x)
    return xp.sum(xp.abs(x), axis=-2, keepdims=True)


def every(ok: Any) -> bool:
    """True if a comparison of such sizes holds for all columns."""
    return ok if type(ok) is bool else assumed_true(ok.all())


@cache
def lange(dtype: np.dtype[Any]) -> Callable[[str, Array], float]:
    """LAPACK's norms of matrices."""
    return get_lapack_funcs("lange", dtype=dtype)
