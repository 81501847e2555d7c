"""Toeplitz and Hankel matrices: Levinson's recursion, n^2 operations for each right-hand side.

The recursion solves with all leading blocks, one after the other. It fails if one of them is singular,
and loses digits if one nearly is. So each solution is checked, and the matrix is factored as a dense
one if a check fails, or if a determinant is requested.
Reference: Golub and Van Loan, section 4.7; Cybenko, SIAM J. Sci. Stat. Comput. 1 (1980).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import conj
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.direct.lapack import lu
from ldiv.engines.factor import Factor
from ldiv.engines.registry import where_not_cpu
from ldiv.errors import SingularMatrixError
from ldiv.structures.toeplitz import Hankel, Toeplitz, flipped

RANK = 14
ON_HOST = True
REMEMBERED = True
NAME = "Levinson"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Toeplitz):
        return "solves with Toeplitz and Hankel matrices only"
    return where_not_cpu(device)


def factor(symbolic: None, structure: Toeplitz, p: Tree, assume_a: str) -> Factor:
    return Verified(NAME, ToeplitzMatrix(structure, p), Levinson(structure, p))


def factor_carefully(symbolic: None, structure: Toeplitz, p: Tree, assume_a: str) -> Factor:
    return Verified("getrf", ToeplitzMatrix(structure, p), lu(structure.todense(p)), last=True)


class ToeplitzMatrix(Normed):
    """Products by FFT."""

    def __init__(self, structure: Toeplitz, p: Any) -> None:
        super().__init__(structure.n, p.dtype, p.nbytes)
        self._structure, self._p = structure, p
        size = np.abs(p)
        # a row of S, and a column, has n neighbors among its numbers
        total = np.concatenate([[0], np.cumsum(size)])
        self._norm = float((total[structure.n :] - total[: -structure.n]).max(initial=0))

    def product(self, x: Any, op: str) -> Any:
        return self._structure.apply(self._p, x, op)

    def norm(self, op: str) -> float:
        return self._norm


class Levinson(Factor):
    """The numbers themselves: nothing of the recursion serves another right-hand side."""

    def __init__(self, structure: Toeplitz, p: Any) -> None:
        self._structure, self._p, self.nbytes = structure, p, p.nbytes
        if structure.n and not p.any():
            raise SingularMatrixError(NAME, "a matrix of zeros", certain=True)

    def solve(self, b: Any, op: str) -> Any:
        if op == "H":
            # S^H x = b is S^T conj(x) = conj(b)
            return conj(self.solve(conj(b), "T"))
        p, n = self._p, self._structure.n
        # a Hankel matrix is T J, with a Toeplitz T and J that reverses rows; its transpose is J T^T
        reverses = isinstance(self._structure, Hankel)
        if op == "T":
            # T^T has the numbers of T in the other order; J T^T x = b is T^T x = J b
            p, b = p[::-1], flipped(b) if reverses else b
        if not b.shape[1]:
            return b
        try:
            # the first column is p[n - 1], ..., p[2 n - 2], the first row p[n - 1], ..., p[0]
            x = scipy.linalg.solve_toeplitz((p[n - 1 :], p[n - 1 :: -1]), b, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise SingularMatrixError(NAME, "a leading block that is singular") from error
        # T (J x) = b
        found: Any = flipped(x) if reverses and op == "N" else x
        return found.astype(b.dtype, copy=False)

    @cached_property
    def _dense(self) -> Factor:
        return lu(self._structure.todense(self._p))

    def logabsdet(self) -> Array:
        return self._dense.logabsdet()

    def slogdet(self) -> tuple[Array, Array]:
        return self._dense.slogdet()
