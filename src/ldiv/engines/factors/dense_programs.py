"""S(p) x = b, S(p)^-1 and determinants of a dense S as calls of a compiled program, without Python:
one factors, others solve; and L^-1 B, A = L L^H, P A = L U. `ldiv.rules.careful` has what such a
call declines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import broadcast
from ldiv.core.rules.compiled import CompiledCall, CompiledFactor, told
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import CHOLESKY, DTYPES, HERMITIAN, LU, MOST
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors.dense_calls import NAME
from ldiv.engines.factors.triangle_calls import triangle_letters
from ldiv.engines.registry import name_of, on_host
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular

# a new number for every change of what they take, give or mean
CALL = "ldiv_dense_3"
OPERATION = "ldiv_operation_1"  # a row of the compiled table of operations


class DensePrograms(NamedTuple):
    """The calls of one structure: its kind of factor, and its view of the array."""

    kind: str
    op: str
    assume_a: str
    method: str

    def solve(self, vector: bool, singular: str, p: Any, b: Any) -> CompiledCall | None:
        """The call for x, if b has the dtype of p."""
        if b.dtype != p.dtype or 0 in b.shape:
            return None
        own = 1 if vector else 2
        shape = *broadcast(p.shape[:-2], b.shape[:-own]), *b.shape[b.ndim - own :]
        return self._call(
            "solve", "v" if vector else "m", singular, p, shape[:-own], (shape, p.dtype)
        )

    def inverse(self, singular: str, p: Any) -> CompiledCall | None:
        return self._call("inverse", "m", singular, p, p.shape[:-2], (p.shape, p.dtype))

    def slogdet(self, positive: bool, singular: str, p: Any) -> CompiledCall | None:
        """The call for det / |det| and log |det|; `positive`: the determinant must be positive."""
        batch, real = p.shape[:-2], np.finfo(p.dtype).dtype
        own = (batch, p.dtype), (batch, real)
        return self._call("slogdet", "p" if positive else "m", singular, p, batch, *own)

    def logabsdet(self, singular: str, p: Any) -> CompiledCall | None:
        batch, real = p.shape[:-2], np.finfo(p.dtype).dtype
        return self._call("logabsdet", "m", singular, p, batch, (batch, real))

    def _call(
        self, what: str, form: str, singular: str, p: Any, members: Any, *own: Any
    ) -> CompiledCall | None:
        if p.dtype not in DTYPES or 0 in p.shape or p.shape[-1] > MOST:
            return None
        factor = _factor(self.kind, p.shape[-1], p.dtype)
        record = told(
            what=what,
            kind=self.kind,
            op=self.op,
            form=form,
            assume_a=self.assume_a,
            method=self.method,
            singular=singular,
        )
        # a right-hand side is a direction of its own: solves need no probe
        constants = () if what == "solve" else factor.constants
        return CompiledCall(CALL, record, own, tuple(members), factor, constants)


def _factor(kind: str, n: int, dtype: Any) -> CompiledFactor:
    real = np.finfo(dtype).dtype
    own = ((n, n), dtype), ((n + 1,), np.dtype(np.int32)), ((2 * n + 2,), real)
    return CompiledFactor(
        CALL,
        told(what="factor", kind=kind, op="N", form="m"),
        own,
        2,
        (direction(n)[:, 0].astype(real),),
    )


def dense_programs(structure: Structure, assume_a: str, method: str) -> DensePrograms | None:
    """The calls in programs of a structure, if it has any."""
    base, op = structure.unview()
    part = base.base if isinstance(base, Symmetric) and base.op == "H" else base
    if not isinstance(part, Dense) or part.m != part.n:
        return None
    if name_of(on_host(base, assume_a, method)) != NAME:
        return None
    kind = LU if part is base else CHOLESKY if assume_a == "pos" else HERMITIAN
    return DensePrograms(kind, op, assume_a, method)


# -- triangles --------------------------------------------------------------------------------------


def triangular_solve(
    structure: Structure, assume_a: str, method: str, vector: bool, p: Any, b: Any
) -> CompiledCall | None:
    base, op = structure.unview()
    if not isinstance(base, Triangular) or base.diagonal == "zero" or not _fits(p):
        return None
    if b.dtype != p.dtype or 0 in b.shape:
        return None
    if name_of(on_host(base, assume_a, method)) != "substitution":
        return None
    own = 1 if vector else 2
    shape = *broadcast(p.shape[:-2], b.shape[:-own]), *b.shape[b.ndim - own :]
    letters = triangle_letters(base.lower, base.diagonal == "unit", op, vector)
    record = told(what="solve_triangular", options=letters, assume_a=assume_a, method=method)
    return CompiledCall(OPERATION, record, ((shape, p.dtype),), shape[:-own])


def cholesky(a: Any) -> CompiledCall | None:
    if not _fits(a):
        return None
    return CompiledCall(
        OPERATION, told(what="cholesky", options=""), ((a.shape, a.dtype),), tuple(a.shape[:-2])
    )


def lu(a: Any) -> CompiledCall | None:
    if not _fits(a):
        return None
    *batch, m, n = a.shape
    whole = np.dtype(np.int32)
    own = (a.shape, a.dtype), ((*batch, min(m, n)), whole), ((*batch, m), whole)
    return CompiledCall(OPERATION, told(what="lu", options=""), own, tuple(batch))


def _fits(a: Any) -> bool:
    return a.dtype in DTYPES and 0 not in a.shape and max(a.shape[-2:]) <= MOST
