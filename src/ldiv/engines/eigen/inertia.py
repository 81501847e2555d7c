"""The signs of the eigenvalues of a Hermitian matrix, from a factor or from the eigenvalues.

    A = L D L^T  =>  as many positive, negative and zero eigenvalues as D has     (Sylvester)

A computed factor is that of A + E. Its signs are those of A if no matrix between the two is
singular, which |I - (A + E)^-1 A| < 1 guarantees. That norm is estimated by a few solves, as the
condition number is, and must be far below 1. A factor that fails is computed again with larger
pivots, which has less growth; the same test decides.
Rows without an entry other than zero have the eigenvalue zero, and are left out. Of the other
eigenvalues none may be zero to working precision. All is computed in double precision.
Reference: Sylvester, Philos. Mag. 4 (1852); Higham, Accuracy and Stability, chapter 11.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.equilibration import are_alike
from ldiv.engines.accuracy.limits import CAREFUL_PIVOT, SYMMETRIC_PIVOT
from ldiv.engines.accuracy.norm_estimate import one_norm
from ldiv.engines.accuracy.sparse_checked import missing
from ldiv.engines.accuracy.sparse_matrix import SparseMatrix
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.registry import engines
from ldiv.errors import EngineError, SingularMatrixError, expected_got, value_error
from ldiv.structures.composed import is_dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric, symmetric_part

CERTAIN = 0.01  # the largest |I - (A + E)^-1 A| that is taken for less than 1
COLUMNS, STEPS = 2, 2  # of the block that estimates it; there is a factor of 100 to spare
SCALINGS = 10
NAME = "L D L^H"
Count = tuple[int, int, int]


class Inertia(NamedTuple):
    """The numbers of positive, negative and zero eigenvalues: integers, or arrays of a batch."""

    n_positive: Any
    n_negative: Any
    n_zero: Any


def inertia(structure: Structure, p: Tree) -> Count:
    """The counts of one Hermitian matrix, by its structure, on the host."""
    base = structure.unview()[0]
    if isinstance(base, Diagonal):
        return _of_signs(leaves(p)[0])
    if is_dense(structure):
        whole = base.base if isinstance(base, Symmetric) else base  # not yet its Hermitian part
        return _of_dense(symmetric_part(whole.todense(p), "H"))
    if base.pattern is None:
        what = "a matrix whose entries are at hand"
        advice = "Make it dense or sparse."
        raise EngineError(expected_got("inertia", what, type(base).__name__, advice))
    return _of_sparse(base, base.slot_values(p))


def _of_signs(d: Any) -> Count:
    if d.dtype.kind == "c" and d.imag.any():
        what, advice = "a real diagonal", "Only Hermitian matrices have an inertia."
        raise value_error("A", what, "a complex one", advice)
    positive, negative = (int(np.count_nonzero(x > 0)) for x in (d.real, -d.real))
    return positive, negative, d.size - positive - negative


def _of_dense(a: Any) -> Count:
    """Count by eigenvalues, each certain to n eps of the largest, after scaling by a congruence."""
    # a row of zeros has the eigenvalue 0; the rest must be nonsingular
    kept = a.any(axis=-1)
    a = a[np.ix_(kept, kept)].astype(np.result_type(a, np.float64))
    if not len(a):
        return 0, 0, len(kept)
    # the congruence S A S has the inertia of A; it makes the largest entries of all columns alike
    for _ in range(SCALINGS):
        largest = np.abs(a).max(axis=0)
        if are_alike(largest.min(), largest.max()):
            break
        # powers of two, so that the scaling rounds nothing
        s = np.exp2(np.round(-0.5 * np.log2(largest)))
        a = s[:, None] * a * s
    lam = np.linalg.eigvalsh(a)
    size = np.abs(lam)
    # eigvalsh errs by about n eps max |lam|: no |lam| may be that small
    if not size.min() > len(a) * np.finfo(np.float64).eps / CERTAIN * size.max():
        raise _uncertain("eigvalsh")
    return int((lam > 0).sum()), int((lam < 0).sum()), int((~kept).sum())


def _of_sparse(structure: Any, slots: Any) -> Count:
    pattern: Pattern = structure.pattern
    n = pattern.shape[0]
    there = slots != 0
    # only diagonal entries: their signs are the inertia
    if (pattern.indices == pattern.columns)[there].all():
        positive, negative, _ = _of_signs(slots[there])
        return positive, negative, n - positive - negative
    # the mask of rows with a nonzero entry; other rows have the eigenvalue 0
    kept = np.zeros(n, bool)
    kept[pattern.indices[there]] = True
    if (why_not := missing()) is not None:
        raise EngineError(f"the inertia of a sparse matrix is counted by L D L^H, which {why_not}.")
    ldl = engines()["ldl"]
    if kept.all():
        fronts = symbolic(ldl, structure)
    else:
        # A[kept, kept]: place[i] is the row of the smaller matrix
        place = np.cumsum(kept) - 1
        rows, cols = pattern.indices, pattern.columns
        inside = kept[rows] & kept[cols]
        pattern = Pattern(place[rows[inside]], place[cols[inside]], (place[-1] + 1,) * 2)
        slots = pattern.slot_values(slots[inside])
        fronts = ldl.analyze(Symmetric(Sparse(pattern), "H"))
    positive, negative = _counted(ldl, fronts, slots.astype(np.result_type(slots, np.float64)))
    return positive, negative, n - int(kept.sum())


def _counted(ldl: Any, fronts: Any, slots: Any) -> tuple[int, int]:
    """Count by the first factor whose signs are certain."""
    is_real = slots.dtype.kind != "c"
    m = SparseMatrix(NAME, fronts, slots, symmetric=is_real)  # scaled by a congruence
    # larger pivots have less growth, so that A + E is closer to A
    for least in (SYMMETRIC_PIVOT, CAREFUL_PIVOT):
        try:
            factor = ldl.CompiledLdl(NAME, fronts, m.values, True, least)
        except SingularMatrixError:
            continue
        if _distance(m, factor) <= CERTAIN and (signs := factor.signs()) is not None:
            return signs
    raise _uncertain(NAME)


def _distance(m: Any, factor: Any) -> float:
    """|I - F^-1 M|_1 for a factor F of the Hermitian M, estimated."""

    def left(x: Any) -> Any:
        return x - factor.solve(m.product(x, "N"), "N")

    # (I - F^-1 M)^H = I - M F^-1, as F and M are Hermitian
    def right(x: Any) -> Any:
        return x - m.product(factor.solve(x, "N"), "N")

    with np.errstate(all="ignore"):
        found = one_norm(m.n, m.dtype, left, right, COLUMNS, STEPS)
    return found if np.isfinite(found) else np.inf


def _uncertain(engine: str) -> SingularMatrixError:
    return SingularMatrixError(engine, "eigenvalues that rounding cannot tell from zero")
