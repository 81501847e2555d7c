"""A program as solvers take it: numbers near 1, bounds as rows, and each row's place among ours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ldiv.core.pattern import Pattern
from ldiv.engines.libraries.program import Program, Values, infeasible
from ldiv.engines.programs.optimality import Data, Optimality

NEAR = 20  # powers of two between which solvers are left the user's units


class Posed(NamedTuple):
    """The program, where its inequalities are among ours, which of them are far from any x of this size,
    and the exponent of its unit of x.
    """

    program: Program
    places: Values
    far: Values
    exponent: int


class Patterns(NamedTuple):
    """The patterns of the upper triangle of P, and of the rows of A, the fixed unknowns, G, ub and lb."""

    upper: Pattern
    rows: Pattern


def posed(system: Optimality, data: Data) -> Posed:
    """Finite bounds are rows of G, those that meet are rows of A; inequalities that say nothing, with
    zeros or an infinite side, are left out.
    """
    (P, q, A, b, G, h, lb, ub), exponent = _in_units(system, data)
    _, _, m, w = system.sizes
    meet = lb == ub
    upper, lower = (np.flatnonzero(np.isfinite(x) & ~meet) for x in (ub, lb))
    parts = [np.flatnonzero(meet), upper, lower] if w else [np.zeros(0, np.intp)] * 3
    fixed, upper, lower = parts
    places = np.concatenate([np.arange(m), m + upper, m + w + lower])
    sides = np.concatenate([b, ub[fixed], h, ub[upper], -lb[lower]])
    equalities = len(b) + len(fixed)
    for i in np.flatnonzero(lb > ub)[:1]:
        y = np.zeros(len(sides))
        y[equalities + np.searchsorted(places, [m + i, m + w + i])] = 1.0
        raise infeasible(y, f"lb[{i}] = {data.lb[i]} is larger than ub[{i}] = {data.ub[i]}.")
    patterns = system.kept("posed", parts, lambda: _patterns(system, *parts))
    on_diagonal = system.P.entries.rows == system.P.entries.cols
    entries = np.concatenate([A, np.ones(len(fixed)), G, np.ones(len(upper)), -np.ones(len(lower))])
    largest = largest_of_rows(patterns.rows, abs(entries))
    _require_no_zeros(largest, sides, equalities)
    units = _units(largest)
    entries, sides = np.ldexp(entries, -units[patterns.rows.rows]), np.ldexp(sides, -units)
    values = np.where(on_diagonal, P, P / 2), entries
    half, rows = (S.csc(S.slot_values(x)) for S, x in zip(patterns, values, strict=True))
    program = Program(half, q, rows, sides, equalities, (upper, lower), units)
    slack, largest = sides[equalities:], np.ldexp(largest, -units)[equalities:]
    says = np.isfinite(slack) & (largest > 0)
    far = slack >= largest * 2.0**NEAR
    return Posed(program.without(~says), places[says], far[says], exponent)


def _require_no_zeros(largest: Values, sides: Values, equalities: int) -> None:
    """Rows of zeros whose side they cannot be."""
    off = np.where(np.arange(len(sides)) < equalities, -abs(sides), sides)
    for i in np.flatnonzero((largest == 0) & (off < 0))[:1]:
        y = np.zeros(len(sides))
        y[i] = -np.sign(sides[i])
        row = f"Row {i} of A" if i < equalities else f"Row {i - equalities} of G"
        raise infeasible(y, f"{row} is 0, and its side is {sides[i]:g}.")


def _patterns(system: Optimality, fixed: Values, upper: Values, lower: Values) -> Patterns:
    (n, k, m, _), P, A, G = system.sizes, system.P.entries, system.A.entries, system.G.entries
    starts = np.cumsum([k, len(fixed), m, len(upper), len(lower)])
    own = [
        at + np.arange(len(x))
        for at, x in zip(starts[[0, 2, 3]], (fixed, upper, lower), strict=True)
    ]
    rows = np.concatenate([A.rows, own[0], starts[1] + G.rows, own[1], own[2]])
    cols = np.concatenate([A.cols, fixed, G.cols, upper, lower])
    half = Pattern(np.minimum(P.rows, P.cols), np.maximum(P.rows, P.cols), (n, n))
    return Patterns(half, Pattern(rows, cols, (int(starts[4]), n)))


def _in_units(system: Optimality, data: Data) -> tuple[Data, int]:
    """(the same program, s) with x and its objective in units, powers of two, in which numbers that are far
    from 1 are near it: solvers have absolute tolerances. Certificates are the same.

        x = 2^s x':    2^(2s - e) P,  2^(s - e) q,  2^-s (b, h, lb, ub)

    Where some rows make x larger than 1, and others smaller, it stays.
    """
    P, q, A, b, G, h, lb, ub = data = Data(*(np.asarray(x, np.float64) for x in data))
    sizes = np.concatenate([*terms(system, data), without_rows(data)[None]])
    near = sizes[(sizes > 0) & np.isfinite(sizes)]
    s = _exponent(float(np.clip(1.0, near.min(), near.max()))) if len(near) else 0
    largest = [(float(_size(x)), k) for x, k in ((P, 2 * s), (q, s))]
    e = max((_exponent(size, k) for size, k in largest if size), default=0)
    P, q = np.ldexp(P, 2 * s - e), np.ldexp(q, s - e)
    b, h, lb, ub = (np.ldexp(x, -s) for x in (b, h, lb, ub))
    return Data(P, q, A, b, G, h, lb, ub), s


def _units(largest: Values) -> Values:
    """The exponent of the unit of each row; 0 where its largest entry is near 1."""
    exponents = np.frexp(largest)[1]
    return np.where(abs(exponents) > NEAR, exponents, 0)


def largest_of_rows(pattern: Pattern, sizes: Values) -> Values:
    """(*batch, rows)"""
    if sizes.ndim == 1:
        found = np.zeros(pattern.shape[0], sizes.dtype)
        np.maximum.at(found, pattern.rows, sizes)
        return found
    largest = np.zeros((pattern.shape[0], *sizes.shape[:-1]), sizes.dtype)
    np.maximum.at(largest, pattern.places[0], np.moveaxis(sizes, -1, 0))
    return np.moveaxis(largest, 0, -1)


def terms(system: Optimality, data: Data) -> list[Values]:
    """The side of each row of A, G, ub and lb over its largest entry: how large it makes x. 0 where a
    row is 0, or a bound infinite.
    """
    with np.errstate(all="ignore"):
        found = [
            abs(side) / largest_of_rows(M.entries, abs(x))
            for M, x, side in ((system.A, data.A, data.b), (system.G, data.G, data.h))
        ]
    found += [abs(x) for x in (data.ub, data.lb)[: 2 * system.bounds]]
    return [np.where(np.isfinite(x), x, 0) for x in found]


def without_rows(data: Data) -> Values:
    """The size of x (*batch,) that q over P gives it; infinite where they do not."""
    P, q = _size(data.P), _size(data.q)
    with np.errstate(all="ignore"):
        return np.where((P > 0) & (q > 0), q / P, np.inf)


def _size(x: Values) -> Values:
    """The largest finite number (*batch,)."""
    return np.where(np.isfinite(x), abs(x), 0).astype(np.float64).max(-1, initial=0.0)


def _exponent(size: float, more: int = 0) -> int:
    """The exponent of size 2^more; 0 where it is near 1."""
    exponent = int(np.frexp(size)[1]) + more
    return exponent if abs(exponent) > NEAR else 0
