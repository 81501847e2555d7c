"""Banded: P A = L U by LAPACK's gbtrf, n l (l + u) operations, in the (2 l + u + 1) n numbers that pivoting may fill."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ldiv.errors import SingularMatrixError
from ldiv.probe import direction, require_nonsingular, second_look
from ldiv.rule import Tree
from ldiv.solver import Factor
from ldiv.structure import Structure
from ldiv.structures.banded import Banded

RANK = 15
ON_HOST = True
REMEMBERED = True
NAME = "gbtrf"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not isinstance(structure, Banded):
        return "factors banded matrices only"
    return None if device == "cpu" else f"runs on the cpu, but the values are on {device}; make the matrix dense, or move the values"


def analyze(structure: Structure) -> None:
    """A band has no symbolic part."""


def factor(symbolic: None, structure: Banded, p: Tree, assume_a: str) -> Factor:
    return BandLU(structure, structure.read(p))


class BandLU(Factor):
    """L and U of one matrix, in LAPACK's form."""

    def __init__(self, structure: Banded, p: Any) -> None:
        self._structure = structure
        gbtrf, self._gbtrs = scipy.linalg.get_lapack_funcs(("gbtrf", "gbtrs"), (p,))
        room = np.concatenate([np.zeros((structure.l, structure.n), p.dtype), p])
        self._lu, self._pivots, info = gbtrf(room, structure.l, structure.u, overwrite_ab=True)
        self.nbytes = self._lu.nbytes + self._pivots.nbytes
        if info > 0:
            raise SingularMatrixError(NAME, "a pivot that is exactly zero")
        self._require_nonsingular(p)

    def solve(self, b: Any, op: str) -> Any:
        return self._gbtrs(self._lu, self._structure.l, self._structure.u, b, self._pivots, trans="NTH".index(op))[0]

    def logabsdet(self) -> Any:
        return np.log(np.abs(self._lu[self._structure.l + self._structure.u])).sum()

    def _require_nonsingular(self, p: Any) -> None:
        """The probe, in units in which rows of any scale weigh the same."""
        structure, sizes = self._structure, np.abs(p)
        rows = np.max([np.roll(one, r - structure.u) for r, one in enumerate(sizes)], axis=0)[:, None]
        z = (rows * direction(structure.n)).astype(p.dtype)
        y = self.solve(z, "N")

        def load(r: Any) -> float:
            return float((np.abs(r) / rows).sum())

        def size(x: Any) -> float:
            return load(structure.apply(sizes, np.abs(x), "N"))

        def look() -> tuple[float, float]:
            again, one, two = second_look(z, y, lambda x: structure.apply(p, x, "N"), lambda r: self.solve(r, "N"), size, load)
            return again, max(one, two)

        require_nonsingular(NAME, size(y) / load(z), float(np.finfo(p.dtype).eps), look)
