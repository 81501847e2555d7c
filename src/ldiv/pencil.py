"""(A - sigma B)^-1 on the host, by whatever engine factors it; its factor is remembered, and so serves the derivative too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ldiv import solver
from ldiv.errors import NotPositiveDefiniteError
from ldiv.pattern import Pattern
from ldiv.rule import Tree, leaves
from ldiv.structure import Structure
from ldiv.structures.composed import entries, entry_values, joined
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.identity import Identity
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


def shift_inverse(A: Structure, B: Structure, pA: Tree, pB: Tree, sigma: float) -> Callable[[Any], Any]:
    """Y -> (A - sigma B)^-1 Y."""
    structure, p = (A, pA) if sigma == 0 else _shifted(A, B, pA, pB, sigma)
    return partial(_solve, structure, p, "pos" if _is_definite(structure, p) else "gen")


_refuted: deque[int] = deque(maxlen=64)  # hashes of what was tried and is not definite; a wrong hit costs time, no digit


def _is_definite(structure: Structure, p: Tree) -> bool:
    """By structure; or by trial, where an engine gains from it and finds out soon that it is not so."""
    if structure.definite or not hasattr(structure, "pattern"):
        return structure.definite
    dtype = np.result_type(*leaves(p))
    if not hasattr(solver.choose(structure, dtype, "cpu", "pos", "direct"), "BY_CHOLESKY"):
        return False
    slots = structure.slot_values(p)  # type: ignore[attr-defined]
    at = structure.memo("on diagonal", lambda: np.flatnonzero(structure.pattern.indices == structure.pattern.columns))
    if len(at) < structure.shape[0] or not (slots[at].real > 0).all() or (tried := hash((structure, slots.tobytes()))) in _refuted:
        return False
    try:
        _solve(structure, p, "pos", np.empty((structure.shape[0], 0), dtype))
    except NotPositiveDefiniteError:
        _refuted.append(tried)
        return False
    return True


def inverse(B: Structure, pB: Tree) -> Callable[[Any], Any]:
    """Y -> B^-1 Y for a positive definite B."""
    return (lambda y: y) if isinstance(B, Identity) else partial(_solve, B, pB, "pos")


def _solve(structure: Structure, p: Tree, told: str, y: Any) -> Any:
    block = y if y.ndim == 2 else y[:, None]
    return solver.solve(structure, p, block, told, "direct").reshape(y.shape)


def factors(A: Structure, B: Structure) -> bool:
    """Have A and B entries, of which those of A - sigma B are made?"""
    return (_dense(A) and _dense(B)) or all(map(_has_entries, (A, B)))


def _dense(structure: Structure) -> bool:
    base = structure.unview()[0]
    return isinstance(base.base if isinstance(base, Symmetric) else base, Dense | Identity)


def _has_entries(structure: Structure) -> bool:
    base = structure.unview()[0]
    return isinstance(base, Identity | Diagonal) or hasattr(base, "pattern")


def _shifted(A: Structure, B: Structure, pA: Tree, pB: Tree, sigma: float) -> tuple[Structure, Tree]:
    """A - sigma B on one pattern, or as one dense array."""
    if _dense(A) and _dense(B):
        b = np.eye(B.shape[0]) if isinstance(B, Identity) else B.todense(pB)
        return Symmetric(Dense(*A.shape)), A.todense(pA) - sigma * b
    structure: Symmetric = A.memo(("pencil", B), lambda: Symmetric(Sparse(_both(A, B))))
    b = np.ones(B.shape[0]) if isinstance(B, Identity) else entry_values(B, pB)
    return structure, joined([entry_values(A, pA), -sigma * b])


def _both(A: Structure, B: Structure) -> Pattern:
    """The entries of A, then those of B, which add up."""
    diagonal = np.arange(B.shape[0])
    places = entries(A), (diagonal, diagonal) if isinstance(B, Identity) else entries(B)
    rows, cols = (np.concatenate(indices) for indices in zip(*places, strict=True))
    return Pattern(rows, cols, A.shape)
