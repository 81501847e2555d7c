"""S(p) x = b, det S(p) and their cotangents for a dense S, on plain arrays, in two compiled calls:
the factor, which is shared by equal values, and what is asked of it. What is declined goes the
careful way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.holder import Holder, owner
from ldiv.core.structure import Structure
from ldiv.core.trees import Array
from ldiv.engines import solve_log
from ldiv.engines.accuracy.accepted import (
    CHOLESKY,
    HERMITIAN,
    LU,
    compiled_factor,
    in_rows,
    is_there,
    workers,
)
from ldiv.engines.factors.cache import counts
from ldiv.engines.registry import choose, name_of
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric

NAME = "lapack"


class DenseCalls(NamedTuple):
    """What is compiled for one structure: its kind of factor, its view of the array, and the letter
    of its cotangent.
    """

    kind: str
    op: str
    form: str
    vector: bool

    def fit(self, p: Array, b: Array) -> bool:
        """Is there a right-hand side for each matrix, in numbers of the same kind?"""
        return (
            p.dtype == b.dtype
            and is_there()
            and tuple(b.shape if self.vector else b.shape[:-1]) == tuple(p.shape[:-1])
            and 0 not in b.shape
        )

    def solve(self, p: Array, b: Array) -> Array | None:
        """x, or None."""
        if not type(p) is type(b) is np.ndarray or not self.fit(p, b):
            return None
        if (factor := self._factor(p)) is None:
            return None
        x = np.empty_like(b, order="C")
        if not factor.solve(in_rows(b), x, self.op, workers(p)):
            return None
        counts["solves"] += 1
        return x

    def pullback(self, needs_p: bool, p: Array, x: Array, x_bar: Array) -> Any:
        """(p_bar, b_bar), or None."""
        if not type(p) is type(x) is type(x_bar) is np.ndarray or not self.fit(p, x):
            return None
        if x.shape != x_bar.shape or x.dtype != x_bar.dtype:
            return None
        if self.op == "T" and p.dtype.kind == "c":
            return None
        if (factor := self._factor(p)) is None:
            return None
        lam, p_bar = np.empty_like(x, order="C"), np.empty_like(p, order="C") if needs_p else None
        if not factor.pullback(
            in_rows(x_bar), in_rows(x), lam, p_bar, self.op, self.form, workers(p)
        ):
            return None
        counts["solves"] += 1
        return p_bar, lam

    def slogdet(self, p: Array) -> tuple[Array, Array] | None:
        """det A / |det A| and log |det A|, or None."""
        if type(p) is not np.ndarray or not p.size or (factor := self._factor(p)) is None:
            return None
        batch = p.shape[:-2]
        sign, size = np.empty(batch, p.dtype), np.empty(batch, np.finfo(p.dtype).dtype)
        return (sign, size) if factor.slogdet(sign, size) else None

    def determinant_cotangent(self, p: Array, weight: Array) -> Array | None:
        """w A^-H for weights w (*batch,), or None."""
        if type(p) is not np.ndarray or not p.size or (factor := self._factor(p)) is None:
            return None
        x = np.empty_like(p, order="C")
        if not factor.inverse(x, workers(p)):
            return None
        counts["solves"] += 1
        w = np.asarray(weight)[..., None, None]
        if self.form == "S":
            return np.asarray(w.real * x, p.dtype)
        return w * (np.conj(x) if p.dtype.kind == "c" else x).mT

    def _factor(self, p: np.ndarray[Any, Any]) -> Any:
        """Of these values, kept by the present owner; or None."""
        keeper = owner()
        if type(keeper) not in (Holder, type(None)) or solve_log.is_read():
            return None
        found, again = compiled_factor(self.kind, in_rows(p))
        if found is not None:
            counts["hits" if again else "factorizations"] += 1
            if keeper is not None:
                keeper.keep(found)
        return found


def dense_calls(
    structure: Structure, assume_a: str, method: str, vector: bool = False
) -> DenseCalls | None:
    """Those of a structure, if it has any."""
    base, op = structure.unview()
    part = base.base if isinstance(base, Symmetric) and base.op == "H" else base
    if not isinstance(part, Dense) or op not in (("N", "T") if part is base else "N"):
        return None
    engine = choose(base, np.dtype(float), "cpu", assume_a, method)
    if name_of(engine) != NAME:
        return None
    if part is base:
        return DenseCalls(LU, op, op, vector)
    return DenseCalls(CHOLESKY if assume_a == "pos" else HERMITIAN, "N", "S", vector)
