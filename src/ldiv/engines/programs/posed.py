"""A program as solvers take it: numbers near 1, bounds as rows, and each row's place among ours."""

from __future__ import annotations

from collections.abc import Iterator
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


def posed(system: Optimality, data: Data) -> list[Posed]:
    """The programs of a batch (N, .). Finite bounds are rows of G, those that meet are rows of A;
    inequalities that say nothing, with zeros or an infinite side, are left out.
    """
    data, units = _in_units(system, data)
    lb, ub = data.lb, data.ub
    meet = lb == ub
    kinds = np.concatenate([meet, np.isfinite(ub) & ~meet, np.isfinite(lb) & ~meet], -1)
    alike: dict[bytes, list[int]] = {}
    for i, kind in enumerate(kinds):
        alike.setdefault(kind.tobytes(), []).append(i)
    found: dict[int, Posed] = {}
    for some in alike.values():
        own = Data(*(x if len(some) == len(kinds) else x[some] for x in data))
        parts = [np.flatnonzero(x) for x in np.split(kinds[some[0]], 3)]
        found |= zip(some, _of_one_kind(system, own, parts, units[some]), strict=True)
    return [found[i] for i in range(len(kinds))]


def _of_one_kind(
    system: Optimality, data: Data, parts: list[Values], units_of_x: Values
) -> Iterator[Posed]:
    """Programs with the same unknowns fixed, and the same finite bounds, above and below."""
    (P, q, A, b, G, h, lb, ub), (fixed, upper, lower) = data, parts
    m, w = system.sizes[2:]
    places = np.concatenate([np.arange(m), m + upper, m + w + lower])
    sides = np.concatenate([b, ub[:, fixed], h, ub[:, upper], -lb[:, lower]], 1)
    k = b.shape[1] + len(fixed)
    for p, i in np.argwhere(lb > ub)[:1].tolist():
        y = np.zeros(sides.shape[1])
        y[k + np.searchsorted(places, [m + i, m + w + i])] = 1.0
        low, high = np.ldexp([lb[p, i], ub[p, i]], units_of_x[p])
        raise infeasible(y, f"lb[{i}] = {low} is larger than ub[{i}] = {high}.")
    patterns = system.kept("posed", parts, lambda: _patterns(system, *parts))
    on_diagonal = system.P.entries.rows == system.P.entries.cols
    one = np.ones((len(q), system.sizes[0]))
    of_bounds = one[:, : len(upper)], -one[:, : len(lower)]
    entries = np.concatenate([A, one[:, : len(fixed)], G, *of_bounds], 1)
    largest = largest_of_rows(patterns.rows, abs(entries))
    _require_no_zeros(largest, sides, k)
    units = exponents(largest)
    if units.any():
        entries = np.ldexp(entries, -units[:, patterns.rows.rows])
        sides, largest = np.ldexp(sides, -units), np.ldexp(largest, -units)
    of_half, of_rows = (
        S.slot_values(x)
        for S, x in zip(patterns, (np.where(on_diagonal, P, P / 2), entries), strict=True)
    )
    says = np.isfinite(sides[:, k:]) & (largest[:, k:] > 0)
    far = sides[:, k:] >= largest[:, k:] * 2.0**NEAR
    for i, exponent in enumerate(units_of_x.tolist()):
        half, rows = patterns.upper.csc(of_half[i]), patterns.rows.csc(of_rows[i])
        program = Program(half, q[i], rows, sides[i], k, (upper, lower), units[i])
        if says[i].all():
            yield Posed(program, places, far[i], exponent)
        else:
            yield Posed(program.without(~says[i]), places[says[i]], far[i, says[i]], exponent)


def _require_no_zeros(largest: Values, sides: Values, equalities: int) -> None:
    """Rows of zeros whose side they cannot be."""
    off = np.where(np.arange(sides.shape[1]) < equalities, -abs(sides), sides)
    for place, i in np.argwhere((largest == 0) & (off < 0))[:1].tolist():
        y, side = np.zeros(sides.shape[1]), sides[place, i]
        y[i] = -np.sign(side)
        row = f"Row {i} of A" if i < equalities else f"Row {i - equalities} of G"
        raise infeasible(y, f"{row} is 0, and its side is {side:g}.")


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


def _in_units(system: Optimality, data: Data) -> tuple[Data, Values]:
    """(the same programs, s) with x and its objective in units, powers of two, in which numbers that are
    far from 1 are near it: solvers have absolute tolerances. Certificates are the same.

        x = 2^s x':    2^(2s - e) P,  2^(s - e) q,  2^-s (b, h, lb, ub)

    Where some rows make x larger than 1, and others smaller, it stays.
    """
    P, q, A, b, G, h, lb, ub = data = Data(*(np.asarray(x, np.float64) for x in data))
    sizes = np.concatenate([*terms(system, data), without_rows(data)[:, None]], -1)
    near = (sizes > 0) & np.isfinite(sizes)
    least, most = np.where(near, sizes, np.inf).min(-1), np.where(near, sizes, 0).max(-1)
    s = exponents(np.minimum(np.maximum(1.0, least), most))
    sizes = np.stack([_size(P), _size(q)])
    of_both = np.where(sizes > 0, exponents(sizes, np.stack([2 * s, s])), -np.inf).max(0)
    e = np.where(np.isfinite(of_both), of_both, 0).astype(s.dtype)
    if not (s.any() or e.any()):
        return data, s
    s, e = s[:, None], e[:, None]
    P, q = np.ldexp(P, 2 * s - e), np.ldexp(q, s - e)
    b, h, lb, ub = (np.ldexp(x, -s) for x in (b, h, lb, ub))
    return Data(P, q, A, b, G, h, lb, ub), s[:, 0]


def largest_of_rows(pattern: Pattern, sizes: Values) -> Values:
    """(*batch, rows)"""
    order, starts, rows = pattern.row_by_row
    found = np.zeros((*sizes.shape[:-1], pattern.shape[0]), sizes.dtype)
    found[..., rows] = np.maximum.reduceat(sizes.take(order, -1), starts, -1)
    return found


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
    """The largest absolute value (*batch,)."""
    found: Values = abs(x).max(-1, initial=0.0).astype(np.float64)
    return found


def exponents(size: Values, more: Values | int = 0) -> Values:
    """The exponent of size 2^more; 0 where it is near 1, or size is 0."""
    e = np.frexp(size)[1] + more
    return np.where((size > 0) & (abs(e) > NEAR), e, 0)
