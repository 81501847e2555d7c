"""Banded: P A = L U by LAPACK's gbtrf; n l (l + u) operations, (2 l + u + 1) n numbers.

A matrix that is promised to be positive definite: A = L L^H by pbtrf; n l^2 operations, (l + 1) n numbers.
Three diagonals: gttrf and pttrf, which take a third of the time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.equilibration import are_alike, equilibrated
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.registry import where_not_cpu
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.banded import Banded

RANK = 15
ON_HOST = True
REMEMBERED = True
NAME = "gbtrf"
SHORT = 128  # rows: the residuals of many such columns are found together


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Banded):
        return "factors banded matrices only"
    return where_not_cpu(device, "make the matrix dense, or move the values")


def factor(symbolic: None, structure: Banded, p: Tree, assume_a: str) -> Factor:
    layout = BandLayout(structure)
    m, scales = equilibrated(layout, structure.read(p))
    is_tridiagonal = structure.l == structure.u == 1 and structure.n > 2
    factored: Callable[[BandLayout, Any], Factor]
    if assume_a == "pos":
        name, factored = "pbtrf", TridiagonalCholesky if is_tridiagonal else BandCholesky
    else:
        name, factored = NAME, TridiagonalLU if is_tridiagonal else BandLU
    return Verified(name, BandMatrix(layout, m), factored(layout, m), scales)


class BandLayout:
    """Row and column maxima and scaling in the diagonal-ordered form."""

    def __init__(self, structure: Banded) -> None:
        self.structure = structure
        self.l, self.u, self.height = structure.l, structure.u, structure.n

    def is_balanced_by_diagonal(self, size: Any) -> bool:
        """Whether min |a_ii| and max |a_ij| are alike; all row and column maxima lie between them."""
        return bool(are_alike(size[self.u].min(), size.max()))

    def largest(self, size: Any) -> Any:
        """The row maxima, then the column maxima."""
        return np.concatenate([self.over_rows(np.maximum, size), size.max(0)])

    def over_rows(self, by: np.ufunc, size: Any) -> Any:
        """The numbers of each row of A combined, those outside of the matrix being zero."""
        n, found = self.height, np.zeros(self.height, size.dtype)
        # entry (i, j) is in row u + i - j at place j
        for d, diagonal in enumerate(size, -self.u):
            if abs(d) < n:
                row = found[max(d, 0) : n + min(d, 0)]
                by(row, diagonal[max(-d, 0) : n - max(d, 0)], out=row)
        return found

    def scaled(self, p: Any, r: Any, c: Any) -> Any:
        # p[d, j] is a_ij with i = j + d - u: each entry becomes r_i a_ij c_j
        return p * np.stack([np.roll(r, self.u - d) for d in range(len(p))]) * c


class BandFactor(Factor):
    """A factor by LAPACK, which returns columns."""

    def solve(self, b: Any, op: str) -> Any:
        x = self._solve(b, op)
        # NumPy finds the sizes of many short columns row by row
        return np.ascontiguousarray(x) if len(x) < SHORT < x.shape[1] else x

    @abstractmethod
    def _solve(self, b: Any, op: str) -> Any:
        """op(M)^-1 b."""


class BandLU(BandFactor):
    """L and U of one matrix, in LAPACK's form."""

    def __init__(self, layout: BandLayout, p: Any) -> None:
        self._l, self._u = layout.l, layout.u
        gbtrf, self._gbtrs = scipy.linalg.get_lapack_funcs(("gbtrf", "gbtrs"), (p,))
        # l more rows on top: exchanges of rows widen U to l + u upper diagonals
        room = np.zeros((layout.l + len(p), layout.height), p.dtype, order="F")
        room[layout.l :] = p
        self._lu, self._pivots, info = gbtrf(room, layout.l, layout.u, overwrite_ab=True)
        self.nbytes = self._lu.nbytes + self._pivots.nbytes
        if info > 0:
            raise SingularMatrixError(NAME, "a pivot that is exactly zero")

    def _solve(self, b: Any, op: str) -> Any:
        # LAPACK's 0, 1, 2 are A, A^T, A^H
        return self._gbtrs(self._lu, self._l, self._u, b, self._pivots, trans="NTH".index(op))[0]

    def logabsdet(self) -> Any:
        # the diagonal of U is below its l + u upper diagonals; |det P| = |det L| = 1
        return np.log(np.abs(self._lu[self._l + self._u])).sum()


class TridiagonalLU(BandFactor):
    """L and U of one tridiagonal matrix, by loops for these three diagonals."""

    def __init__(self, layout: BandLayout, p: Any) -> None:
        gttrf, self._gttrs = scipy.linalg.get_lapack_funcs(("gttrf", "gttrs"), (p,))
        *self._lu, info = gttrf(p[2, :-1], p[1], p[0, 1:])
        self.nbytes = sum(part.nbytes for part in self._lu)
        if info > 0:
            raise SingularMatrixError(NAME, "a pivot that is exactly zero")

    def _solve(self, b: Any, op: str) -> Any:
        # "C" is LAPACK's name of A^H
        return self._gttrs(*self._lu, b, trans="C" if op == "H" else op)[0]

    def logabsdet(self) -> Any:
        return np.log(np.abs(self._lu[1])).sum()


class BandCholesky(BandFactor):
    """L of one Hermitian matrix, whose lower triangle is read."""

    def __init__(self, layout: BandLayout, p: Any) -> None:
        pbtrf, self._pbtrs = scipy.linalg.get_lapack_funcs(("pbtrf", "pbtrs"), (p,))
        self._l, info = pbtrf(p[layout.u :], lower=1)
        self.nbytes = self._l.nbytes
        if info > 0:
            raise NotPositiveDefiniteError(
                "pbtrf", f"a leading minor, of order {info}, that is not positive"
            )

    def _solve(self, b: Any, op: str) -> Any:
        # A^T = conj(A)
        if op == "T":
            return np.conj(self._pbtrs(self._l, np.conj(b), lower=1)[0])
        return self._pbtrs(self._l, b, lower=1)[0]

    def logabsdet(self) -> Any:
        return 2 * np.log(np.abs(self._l[0])).sum()


class TridiagonalCholesky(BandFactor):
    """L D L^H of one Hermitian tridiagonal matrix."""

    def __init__(self, layout: BandLayout, p: Any) -> None:
        pttrf, self._pttrs = scipy.linalg.get_lapack_funcs(("pttrf", "pttrs"), (p,))
        self._d, self._e, info = pttrf(p[1].real, p[2, :-1])
        self.nbytes = self._d.nbytes + self._e.nbytes
        if info > 0:
            raise NotPositiveDefiniteError(
                "pttrf", f"a leading minor, of order {info}, that is not positive"
            )

    def _solve(self, b: Any, op: str) -> Any:
        e = np.conj(self._e) if op == "T" else self._e
        return self._pttrs(self._d, e, b, **({"lower": 1} if e.dtype.kind == "c" else {}))[0]

    def logabsdet(self) -> Any:
        return np.log(self._d).sum()


class BandMatrix(Normed):
    """M in the diagonal-ordered form."""

    has_sizes = True

    def __init__(self, layout: BandLayout, m: Any) -> None:
        super().__init__(layout.height, m.dtype, m.nbytes)
        self._layout, self._m = layout, np.asfortranarray(m)
        self._gbmv = scipy.linalg.get_blas_funcs("gbmv", (m,))
        size = np.abs(m)
        # the largest column sum, and the largest row sum
        self._norms = float(size.sum(0).max()), float(layout.over_rows(np.add, size).max())

    def product(self, x: Any, op: str) -> Any:
        return self._layout.structure.apply(self._m, x, op)

    def residual(self, b: Any, x: Any, op: str) -> Any:
        n, l, u = self.n, self._layout.l, self._layout.u
        # SciPy's gbmv rejects bands wider than the matrix, and a call costs more than a short column
        if n <= l + u or n < SHORT < x.shape[1]:
            return super().residual(b, x, op)
        # r_j = b_j - op(M) x_j; gbmv takes one vector at a time
        r = np.empty_like(x, order="F")
        for j in range(x.shape[1]):
            r[:, j] = self._gbmv(
                n, n, l, u, -1, self._m, x[:, j], beta=1, y=b[:, j], trans="NTH".index(op)
            )
        return r

    def sizes(self, x: Any, op: str) -> Any:
        return self._layout.structure.apply(np.abs(self._m), np.abs(x), op)

    def norm(self, op: str) -> float:
        return self._norms[op == "N"]
