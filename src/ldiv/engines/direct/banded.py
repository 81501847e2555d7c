"""Banded: P A = L U by LAPACK's gbtrf; n l (l + u) operations, (2 l + u + 1) n numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.engines.backward_error import Verified
from ldiv.engines.equilibration import are_alike, equilibrated
from ldiv.engines.factor import Factor
from ldiv.engines.singularity_check import direction, require_nonsingular, second_look
from ldiv.errors import SingularMatrixError
from ldiv.structures.banded import Banded

RANK = 15
ON_HOST = True
REMEMBERED = True
NAME = "gbtrf"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Banded):
        return "factors banded matrices only"
    return (
        None
        if device == "cpu"
        else f"runs on the cpu, but the values are on {device}; "
        "make the matrix dense, or move the values"
    )


def factor(symbolic: None, structure: Banded, p: Tree, assume_a: str) -> Factor:
    layout = BandLayout(structure)
    m, scales = equilibrated(layout, structure.read(p))
    return Checked(layout, m, scales)


class BandLayout:
    """Row and column maxima and scaling in the diagonal-ordered form."""

    def __init__(self, structure: Banded) -> None:
        self.l, self.u, self.height = structure.l, structure.u, structure.n

    def is_balanced_by_diagonal(self, size: Any) -> bool:
        """Are min |a_ii| and max |a_ij|, between which all row and column maxima lie, alike?"""
        return bool(are_alike(size[self.u].min(), size.max()))

    def largest(self, size: Any) -> Any:
        """The row maxima, then the column maxima."""
        return np.concatenate([self.by_rows(size).max(0), size.max(0)])

    def by_rows(self, x: Any) -> Any:
        """The diagonals, shifted so that entries of one row of A form a column.

        Entries outside of the matrix are left where they are.
        """
        return np.stack([np.roll(diagonal, r - self.u) for r, diagonal in enumerate(x)])

    def scaled(self, p: Any, r: Any, c: Any) -> Any:
        return p * np.stack([np.roll(r, self.u - d) for d in range(len(p))]) * c


class BandLU(Factor):
    """L and U of one matrix, in LAPACK's form."""

    def __init__(self, layout: BandLayout, p: Any) -> None:
        self._l, self._u = layout.l, layout.u
        gbtrf, self._gbtrs = scipy.linalg.get_lapack_funcs(("gbtrf", "gbtrs"), (p,))
        room = np.concatenate([np.zeros((layout.l, layout.height), p.dtype), p])
        self._lu, self._pivots, info = gbtrf(room, layout.l, layout.u, overwrite_ab=True)
        self.nbytes = self._lu.nbytes + self._pivots.nbytes
        if info > 0:
            raise SingularMatrixError(NAME, "a pivot that is exactly zero")

    def solve(self, b: Any, op: str) -> Any:
        return self._gbtrs(self._lu, self._l, self._u, b, self._pivots, trans="NTH".index(op))[0]

    def logabsdet(self) -> Any:
        return np.log(np.abs(self._lu[self._l + self._u])).sum()


class Checked(Verified):
    """A band M with its LU factors and scales."""

    def __init__(self, layout: BandLayout, m: Any, scales: Any) -> None:
        self._layout = layout
        super().__init__(NAME, np.asfortranarray(m), BandLU(layout, m), scales)
        self._gbmv = scipy.linalg.get_blas_funcs("gbmv", (m,))
        self._require_nonsingular()

    def _residual(self, b: Any, x: Any, op: str) -> Any:
        n, l, u = self._layout.height, self._layout.l, self._layout.u
        if n <= l + u:  # SciPy's gbmv rejects bands wider than the matrix
            return b - Banded(l, u, n).apply(self._m, x, op)
        r = np.empty_like(x, order="F")
        for j in range(x.shape[1]):
            r[:, j] = self._gbmv(
                n, n, l, u, -1, self._m, x[:, j], beta=1, y=b[:, j], trans="NTH".index(op)
            )
        return r

    def _norm(self, transposed: bool) -> float:
        size = np.abs(self._m)
        return float((size if transposed else self._layout.by_rows(size)).sum(0).max())

    def _require_nonsingular(self) -> None:
        """By the probe of `singularity_check`."""
        z = direction(self._layout.height).astype(self._m.dtype)
        y = self._factor.solve(z, "N")

        def load(r: Any) -> float:
            return float(np.abs(r).sum())

        def size(x: Any) -> float:
            return float(self._size("T")) * load(x)

        def look() -> tuple[float, float]:
            residual_growth, one, two = second_look(
                z,
                y,
                lambda x: -self._residual(np.zeros_like(x), x, "N"),
                lambda r: self._factor.solve(r, "N"),
                size,
                load,
            )
            return residual_growth, max(one, two)

        require_nonsingular(NAME, size(y) / load(z), self._eps, look)
