"""L^-1 B, A = L L^H and P A = L U as calls of a compiled program, as `dense_programs`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import broadcast
from ldiv.core.compiled_call import CompiledCall
from ldiv.core.structure import Structure
from ldiv.engines.accuracy.accepted import DTYPES, MOST
from ldiv.engines.registry import choose, name_of
from ldiv.structures.triangular import Triangular

CALL = "ldiv_triangles_1"  # a new number for every change of what it takes, gives or means


def triangular_solve(
    structure: Structure, assume_a: str, method: str, vector: bool, p: Any, b: Any
) -> CompiledCall | None:
    base, op = structure.unview()
    if not isinstance(base, Triangular) or base.diagonal == "zero" or not _fits(p):
        return None
    if b.dtype != p.dtype or 0 in b.shape:
        return None
    if name_of(choose(base, np.dtype(float), "cpu", assume_a, method)) != "substitution":
        return None
    own = 1 if vector else 2
    shape = *broadcast(p.shape[:-2], b.shape[:-own]), *b.shape[b.ndim - own :]
    uplo, diag = "L" if base.lower else "U", "U" if base.diagonal == "unit" else "N"
    rule = f"triangular {uplo} {op} {diag} {'v' if vector else 'm'} {assume_a} {method}"
    return CompiledCall(CALL, rule, ((shape, p.dtype),))


def cholesky(a: Any) -> CompiledCall | None:
    return CompiledCall(CALL, "cholesky", ((a.shape, a.dtype),)) if _fits(a) else None


def lu(a: Any) -> CompiledCall | None:
    if not _fits(a):
        return None
    *batch, m, n = a.shape
    whole = np.dtype(np.int32)
    own = (a.shape, a.dtype), ((*batch, min(m, n)), whole), ((*batch, m), whole)
    return CompiledCall(CALL, "lu", own)


def _fits(a: Any) -> bool:
    return a.dtype in DTYPES and 0 not in a.shape and max(a.shape[-2:]) <= MOST
