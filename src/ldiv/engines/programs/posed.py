"""A program as solvers take it: numbers near 1, bounds as rows, and each row's place among ours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.accuracy.limits import PLAIN_UNITS
from ldiv.engines.libraries.program import Program, Values, infeasible
from ldiv.engines.programs.numbers import Numbers, exponents, whole
from ldiv.engines.programs.optimality import Optimality
from ldiv.structures.sparse import Sparse


class Posed(NamedTuple):
    """A program; which inequalities of its kind say something, and which of these are far from any x of
    this size; None for all of them, and for none.
    """

    program: Program
    says: Values | None
    far: Values | None


class Alike(NamedTuple):
    """Programs of one kind, their places in the batch, where their inequalities are among all rows, and
    the exponents (N, 1) of their units of x.
    """

    programs: Iterator[Posed]
    members: list[int]
    places: Values
    exponents: Values


class Kind(NamedTuple):
    """The common part of programs that fix the same unknowns; some of them may bound others.

    The patterns are `upper`, of half of P, and `rows`, of A, the fixed unknowns, G, ub and lb. The index
    `order` says where these rows are among those of A, G, ub and lb; the first ones are `equalities`.
    A mask `triangle` has the places of the upper one, if half of all entries are there, bounds apart.
    """

    upper: Pattern
    rows: Pattern
    order: Values
    equalities: int
    bounds: tuple[Values, Values]
    triangle: Values | None


def posed(numbers: Numbers) -> Iterator[Alike]:
    """Generate the programs of a batch (N, .). Finite bounds are rows of G, those that meet are rows of A;
    inequalities that say nothing, with zeros or an infinite side, are left out.
    """
    system, (*_, lb, ub) = numbers.system, numbers.data
    meet, scaled, members = lb == ub, _in_units(numbers), dict[bytes, list[int]]()
    # programs that fix the same unknowns share their patterns
    for i, some in enumerate(meet):
        members.setdefault(some.tobytes(), []).append(i)
    for at in members.values():
        free = ~meet[at[0]]
        parts = ~free, *(np.isfinite(x[at]).any(0) & free for x in (ub, lb))
        kind = system.kept("kind", parts, partial(_kind, system, *parts))
        places, programs = kind.order[kind.equalities :], _of_one_kind(numbers, scaled, kind, at)
        yield Alike(programs, at, places, scaled[-1][at])


def _of_one_kind(
    numbers: Numbers, scaled: tuple[Values, ...], kind: Kind, members: list[int]
) -> Iterator[Posed]:
    arrays = *scaled[:3], numbers.C, numbers.heights
    P, q, sides, C, largest = (x if len(members) == len(x) else x[members] for x in arrays)
    sides, largest, k = sides[:, kind.order], largest[:, kind.order], kind.equalities
    _require_order(numbers, kind, members)
    _require_no_zeros(largest, sides, k)
    entries, units = _entries(numbers.system, kind, C.astype(np.float64)), exponents(largest)
    # each row over its largest entry, rounded to a power of two
    if units.any():
        entries = np.ldexp(entries, -units[:, kind.rows.rows])
        sides, largest = np.ldexp(sides, -units), np.ldexp(largest, -units)
    upper, rows = _matrices(numbers.system.P, kind, P, entries)
    # a row of zeros, or with an infinite side, says nothing
    says = np.isfinite(sides[:, k:]) & (largest[:, k:] > 0)
    # an x near 1 does not reach a side so much larger than the entries
    far = says & (sides[:, k:] >= largest[:, k:] * 2.0**PLAIN_UNITS)
    looks = np.stack([P.any(1), says.all(1), far.any(1)], 1).tolist()
    for i, (has_P, all_say, is_far) in enumerate(looks):
        own = Program(upper[i], q[i], rows[i], sides[i], k, kind.bounds, units[i], not has_P)
        there = None if all_say else says[i]
        own_far = None if not is_far else far[i] if there is None else far[i, there]
        yield Posed(own if there is None else own.without(~there), there, own_far)


def _entries(system: Optimality, kind: Kind, C: Values) -> Values:
    """The entries (N, .) of the rows of a kind."""
    if kind.rows.nnz == C.shape[1]:
        return C
    count, one = system.A.entries.nnz, np.ones((len(C), system.sizes[0]))
    upper, lower = map(len, kind.bounds)
    fixed = kind.rows.nnz - C.shape[1] - upper - lower
    # the rows of A, the fixed unknowns, G, ub and lb
    parts = C[:, :count], one[:, :fixed], C[:, count:], one[:, :upper], -one[:, :lower]
    return np.concatenate(parts, 1)


def _matrices(P: Sparse, kind: Kind, of_P: Values, of_rows: Values) -> tuple[Any, Any]:
    """Half of P, and the rows, of each program: as arrays, or as SciPy's CSC."""
    if kind.triangle is not None:
        of_P = whole(P, of_P)
        return (of_P + of_P.mT) / 2 * kind.triangle, whole(Sparse(kind.rows), of_rows)
    # entry (i, j) and its mirror image meet in the upper triangle, where each counts half
    half = np.where(P.entries.rows == P.entries.cols, of_P, of_P / 2)
    pairs = (kind.upper, half), (kind.rows, of_rows)
    upper, rows = (list(map(M.csc, M.slot_values(x))) for M, x in pairs)
    return upper, rows


def _require_order(numbers: Numbers, kind: Kind, members: list[int]) -> None:
    """lb <= ub."""
    (*_, lb, ub), (_, k, m, w) = numbers.data, numbers.system.sizes
    for p, i in np.argwhere(lb[members] > ub[members])[:1].tolist() if w else ():
        # x_i <= ub_i and -x_i <= -lb_i add up to 0 <= ub_i - lb_i < 0
        y = np.isin(kind.order, [k + m + i, k + m + w + i]).astype(np.float64)
        low, high = float(lb[members[p], i]), float(ub[members[p], i])
        raise infeasible(y, f"lb[{i}] = {low} is larger than ub[{i}] = {high}.")


def _require_no_zeros(largest: Values, sides: Values, equalities: int) -> None:
    """Rows of zeros whose side they cannot be."""
    if largest.all():
        return
    # 0 = b for equalities, 0 <= h for inequalities
    off = np.where(np.arange(sides.shape[1]) < equalities, -abs(sides), sides)
    for place, i in np.argwhere((largest == 0) & (off < 0))[:1].tolist():
        y, side = np.zeros(sides.shape[1]), sides[place, i]
        y[i] = -np.sign(side)
        row = f"Row {i} of A" if i < equalities else f"Row {i - equalities} of G"
        raise infeasible(y, f"{row} is 0, and its side is {side:g}.")


def _kind(system: Optimality, *parts: Values) -> Kind:
    fixed, upper, lower = map(np.flatnonzero, parts)
    (n, k, m, w), P, A, G = system.sizes, system.P.entries, system.A.entries, system.G.entries
    # where the fixed unknowns, G, ub and lb begin, and the number of rows
    starts = np.cumsum([k, len(fixed), m, len(upper), len(lower)])
    own = [
        at + np.arange(len(x))
        for at, x in zip(starts[[0, 2, 3]], (fixed, upper, lower), strict=True)
    ]
    rows = np.concatenate([A.rows, own[0], starts[1] + G.rows, own[1], own[2]])
    cols = np.concatenate([A.cols, fixed, G.cols, upper, lower])
    half = Pattern(np.minimum(P.rows, P.cols), np.maximum(P.rows, P.cols), (n, n))
    at = np.arange(k), k + m + fixed, k + np.arange(m), k + m + upper, k + m + w + lower
    all_rows, bounds = Pattern(rows, cols, (int(starts[4]), n)), len(upper) + len(lower)
    is_dense = 2 * (half.slots + all_rows.slots - bounds) >= n * (n + 1) // 2 + n * starts[2]
    triangle = np.tri(n, dtype=bool).T if is_dense else None
    return Kind(half, all_rows, np.concatenate(at), k + len(fixed), (upper, lower), triangle)


def _in_units(numbers: Numbers) -> tuple[Values, Values, Values, Values]:
    """(P, q, limits, s) in double precision, with x and its objective in units, powers of two, in which
    numbers that are far from 1 are near it: solvers have absolute tolerances. Certificates are the same.

        x = 2^s x':    2^(2s - e) P,  2^(s - e) q,  2^-s (b, h, ub, -lb)

    Where some rows make x larger than 1, and others smaller, it stays.
    """
    P, q, limits = (x.astype(np.float64) for x in (numbers.data.P, numbers.data.q, numbers.limits))
    of_data = np.concatenate([numbers.size_of_P, numbers.size_of_q], -1).astype(np.float64)
    of_x = np.concatenate([numbers.terms, numbers.without_rows], -1).astype(np.float64)
    if not exponents(of_data).any() and not exponents(of_x[np.isfinite(of_x)]).any():
        return P, q, limits, np.zeros((len(q), 1), int)
    there = (of_x > 0) & np.isfinite(of_x)
    # the sizes of x that rows and q / P imply
    least = np.where(there, of_x, np.inf).min(-1, keepdims=True)
    most = np.where(there, of_x, 0).max(-1, keepdims=True)
    # 2^s is 1 where these sizes reach across 1, else the end that is nearer to it
    s = exponents(np.minimum(np.maximum(1.0, least), most))
    # 2^e: the larger one of 2^(2s) |P| and 2^s |q|
    more = exponents(of_data, np.concatenate([2 * s, s], -1))
    of_both = np.where(of_data > 0, more, -np.inf).max(-1, keepdims=True)
    e = np.where(np.isfinite(of_both), of_both, 0).astype(s.dtype)
    return np.ldexp(P, 2 * s - e), np.ldexp(q, s - e), np.ldexp(limits, -s), s
