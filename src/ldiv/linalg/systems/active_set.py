"""A quadratic program whose active rows are known is one symmetric indefinite system.

    [P  C^T] [x]   [-q]          C = [A; the active rows of G]
    [C   0 ] [y] = [ d],         d = (b, the active entries of h)

It polishes the solution of an iterative solver to rounding, and all derivatives are those of `solve`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import alike
from ldiv.core.dispatch import namespace
from ldiv.core.trees import Array
from ldiv.errors import SingularMatrixError
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.stacking import bmat, vstack

EXCHANGES = 20
OF_DEPENDENT_ROWS = (
    "(a) constraints that say the same, or bounds that meet, so that the active rows depend on each other, "
    "(b) a P that is singular along what the constraints leave free: then the solution is not unique. "
    "Leave rows out, or add a small multiple of the identity to P."
)


class Program(NamedTuple):
    """min x^T P x / 2 + q^T x with A x = b, G x <= h; all bounds are rows of G."""

    P: SparseArray
    q: Array
    A: SparseArray | None
    b: Array
    G: SparseArray | None
    h: Array


class Point(NamedTuple):
    """A solution of the system of its active rows."""

    x: Any
    of_equalities: Any
    multipliers: Any  # of the active rows
    active: np.ndarray[Any, Any]


def at(program: Program, active: Any, use: Any = None) -> Point:
    """The point of these active rows; `use(K, side)` solves the system."""
    P, q, A, b, G, h = program
    xp, n, m = namespace(q), q.shape[0], b.shape[0]
    rows = [
        part
        for part in (A, G[active] if G is not None and len(active) else None)
        if part is not None
    ]
    bounds = xp.concat([b, h[active]]) if len(active) else b
    C: Any = None if not rows else rows[0] if len(rows) == 1 else vstack(rows)
    K = P if C is None else bmat([[P, C.T], [C, None]])
    try:
        z = (use or _solve)(K, xp.concat([-q, bounds]))
    except SingularMatrixError as error:
        evidence = f"a singular system of {len(active)} active rows ({error.evidence})"
        raise SingularMatrixError(
            "solve_qp", evidence, causes=OF_DEPENDENT_ROWS, what="the optimality system"
        ) from error
    return Point(z[:n], z[n : n + m], z[n + m :], np.asarray(active))


def _solve(K: SparseArray, side: Array) -> Array:
    return solve(K, side, assume_a="sym")


class Polished(NamedTuple):
    """The active rows that pass all looks, the factor of their system, and what holds only just."""

    active: np.ndarray[Any, Any]
    weak: np.ndarray[Any, Any]
    kept: Any


def polished(program: Program, active: np.ndarray[Any, Any], rtol: float) -> Polished:
    """By exchanges from a guess: out goes the most negative multiplier, in the row that is most
    violated. On NumPy's values.
    """
    P, q, _, _, G, h = program
    kept: list[Any] = []

    def use(K: SparseArray, side: Array) -> Array:
        kept[:] = [factorized(K, assume_a="sym")]
        return kept[0].solve(side)

    rows = None if G is None else abs(G)
    for _ in range(EXCHANGES):
        point = at(program, active, use)
        if G is None or rows is None:
            return Polished(active, active[:0], kept)
        # rounding of x is that of its largest entries, also where x itself is 0
        floor = rtol**0.5 * abs(point.x).max(initial=0)
        size = rows @ (abs(point.x) + floor) + abs(h)
        slack = (h - G @ point.x) / np.where(size > 0, size, 1)
        force = np.abs(P @ point.x).max(initial=0) + np.abs(q).max(initial=0)
        heights = rows.toarray().max(1) if rows.shape[0] * rows.shape[1] < 10**6 else _heights(rows)
        pull = point.multipliers * heights[active] / (force if force > 0 else 1)
        inside = np.ones(len(h), bool)
        inside[active] = False
        out = int(pull.argmin()) if len(pull) else -1
        into = int(np.where(inside, slack, np.inf).argmin())
        if inside.any() and slack[into] < -rtol:
            active = np.sort(np.append(active, into))
        elif out >= 0 and pull[out] < -rtol:
            active = np.delete(active, out)
        else:
            only_just = np.concatenate(
                [active[np.abs(pull) <= rtol], np.flatnonzero(inside & (slack <= rtol))]
            )
            return Polished(active, np.sort(only_just), kept)
    raise SingularMatrixError(
        "solve_qp",
        f"no active rows that hold after {EXCHANGES} exchanges",
        causes=OF_DEPENDENT_ROWS,
        what="the optimality system",
        verdict="is not determined",
    )


def _heights(rows: SparseArray) -> Any:
    """The largest entry of each row."""
    found = np.zeros(rows.shape[0])
    np.maximum.at(found, rows.row, rows.data)
    return found


def zeros(count: int, like: Array) -> Array:
    return namespace(like).zeros((count,), **alike(like))
