"""The probe for numerical singularity of a factored M: solve M y = z for a random z, and refine.

    growth = |M| |y| / |z| <= cond(M), for a matrix with rows and columns scaled to 1,
    contraction = |M^-1 (z - M y)| / |y|, about eps cond(M)

One direction of ten thousand hides the growth: unless the growth is faint, a second one is tried.

A backward stable solve leaves a small residual even if M is singular, so the residual alone shows
nothing. The ratio of the largest to the smallest pivot is large for matrices that are only
badly scaled. If `growth` is suspicious, two steps of refinement decide, where the first residual is
a second random direction. This detects all of 3,840 random singular matrices of sizes 2 to 50; of
those with condition 1e14 all but one in a thousand pass, with condition 1e15 most.
All norms are sums: of columns of M, of the numbers of a vector. The right-hand sides of the first
solve are directions, too: one that grows is evidence, whatever the probe shows.
Cost: one column more in the first solve; one solve more where growth is not faint, as always in
single precision, and two only on suspicion. Reference: Higham,
Accuracy and Stability of Numerical Algorithms, ch. 12.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_opaque, namespace
from ldiv.core.frameworks.looks import assumed_true, is_elsewhere
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.policies.errstate import check_or_warn
from ldiv.core.rules.finite import unwarned
from ldiv.engines.accuracy.limits import CONTRACTS, FAINT, HOPELESS, SUSPICIOUS
from ldiv.engines.accuracy.verifiable import Normed, every, sums
from ldiv.engines.factor import Factor
from ldiv.errors import SingularMatrixError


@bounded_cache(16)
def direction(n: int, dtype: str = "d") -> np.ndarray[Any, Any]:
    """A fixed random vector (n, 1), read-only."""
    z = np.random.default_rng(n).standard_normal((n, 1)).astype(dtype)
    z.flags.writeable = False
    return z


@bounded_cache(16)
def direction_size(n: int) -> float:
    """The 1-norm of `direction(n)`."""
    return float(np.abs(direction(n)).sum())


def another(z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a direction of the same size; it is orthogonal to the first for an even number of
    rows.
    """
    turned = z[::-1].copy()
    turned[1::2] *= -1
    return turned


def first_solve(
    engine: str, m: Normed, factor: Factor, b: Any, op: str, y: Any = None
) -> tuple[Any, float]:
    """(op(M)^-1 b for one M and b (n, k), growth along the probe z); y = op(M)^-1 z, unless it is given.
    Raises if M appears singular. b is solved for alone, as by a factor that has been looked at: in a
    block with z its last bits would be others.
    """
    z, n = direction(m.n, m.dtype.char), m.n
    x: Any = factor.solve(b, op)
    y = factor.solve(z, op) if y is None else y
    # eps |M| |y| / |z| < SUSPICIOUS  <=>  |y| < calm |z|
    per_growth = 1 / (m.limits.eps * m.bound())
    calm, unit, grown = SUSPICIOUS * per_growth, direction_size(n), sums(y)
    # y has one column
    if FAINT * per_growth * unit <= grown < calm * unit:
        other = another(z)
        turned = factor.solve(other, op)
        # "not <=" instead of ">": a solution with NaN counts as growth
        if not (size := sums(turned)) <= grown:
            z, y, grown = other, turned, size
    # the columns of b are random directions, too
    if not (grown < calm * unit and every(sums(x) <= calm * sums(b))):
        with unwarned():
            growths = [*_growths(m, b, x), *_growths(m, z, y)]
        # a column of b whose norm overflows is no evidence
        growth = max(growths[-1], *filter(isfinite, growths), 0.0)
        _require_nonsingular(engine, m, factor, z, y, op, growth)
    return x, grown * m.bound() / unit


def require_regular(
    engine: str, m: Normed, factor: Factor, y: Array | None = None, strict: bool = False
) -> float | None:
    """Raise if a matrix of a batch appears singular by y = M^-1 z for the probe z.

    Return the growth along z, or None in a trace and on a device, from which no number is read.
    """
    given = direction(m.n, m.dtype.char)
    z = m.direction(given)
    # if the check is read later, both directions are solved for at once
    both = y is None and (m.is_traced or is_elsewhere(z))
    if both:
        z = namespace(z).concat([z, m.direction(another(given))], axis=-1)
    found: Array = factor.solve(z, "N") if y is None else y
    xp, unit = namespace(found), direction_size(m.n)

    def growth(norm: Any) -> Any:
        with unwarned():
            # the largest of all columns and batch members
            return xp.max(norm * sums(found)) / unit

    if both:
        z = spread(z, batch_of(found, 2))
    elif m.is_traced or is_elsewhere(found) or not bool(growth(m.bound()) * m.limits.eps < FAINT):
        other, batch = m.direction(another(given)), batch_of(found, 2)
        turned = factor.solve(other, "N")
        z = spread(xp.concat([z, other], axis=-1), batch)
        found = xp.concat([found, turned], axis=-1)
    if strict or m.is_traced or not assumed_true(growth(m.bound()) * m.limits.eps < SUSPICIOUS):
        _require_nonsingular(engine, m, factor, z, found, "N", growth(m.norm("T")), strict)
    return None if m.is_traced or is_elsewhere(found) else float(growth(m.bound()))


def is_suspicious(m: Normed, factor: Factor) -> Any:
    """True if M appears singular by the growth of one direction, or has pivots that are not finite."""
    found: Array = factor.solve(m.direction(direction(m.n, m.dtype.char)), "N")
    with unwarned():
        growth = m.norm("T") * sums(found) / direction_size(m.n)
    return ~(growth * m.limits.eps < SUSPICIOUS).all()


def _growths(m: Normed, b: Any, x: Any) -> list[float]:
    """Return |M| |x| / |b| of every nonzero column."""
    loads, sizes = (np.ravel(sums(v)).tolist() for v in (b, x))
    norm = float(m.norm("T"))
    return [norm * size / load for load, size in zip(loads, sizes, strict=True) if load]


def _require_nonsingular(
    engine: str,
    m: Normed,
    factor: Factor,
    z: Array,
    y: Array,
    op: str,
    growth: Any,
    strict: bool = False,
) -> None:
    """Raise unless growth is small, or refinement finds small numbers; with `strict` refinement is
    tried in any case.
    """
    eps = m.limits.eps
    growth = growth if is_opaque(growth) else float(growth)
    # growth eps >= SUSPICIOUS needs refinement; growth eps >= HOPELESS is singular
    calm, residual_growth, contraction = (
        (growth * eps < SUSPICIOUS) & (not strict),
        growth,
        growth * 0,
    )
    if calm is True:
        return
    look = partial(_second_look, m, factor, z, y, op)
    # in a trace both outcomes are branches of the program
    if is_opaque(growth):
        residual_growth, contraction = frontend_of(growth).either(
            calm, lambda: (residual_growth, contraction), look
        )
    elif not calm and growth * eps < HOPELESS:
        residual_growth, contraction = look()
    # with NaN every comparison is False: not certain
    certain = calm | (
        (growth * eps < HOPELESS) & (residual_growth * eps < HOPELESS) & (contraction < CONTRACTS)
    )
    check_or_warn(certain, partial(_singular, engine, eps), growth, residual_growth, contraction)


def _second_look(m: Normed, factor: Factor, z: Array, y: Array, op: str) -> tuple[Any, Any]:
    """Return (growth along the residual, the largest contraction of two refinements)."""
    xp, tiny = namespace(y), np.finfo(np.float32).tiny
    # corrections of two refinements: d = M^-1 (z - M y), e = M^-1 (r - M d)
    r = m.residual(z, y, op)
    d = factor.solve(r, op)
    e = factor.solve(m.residual(r, d, op), op)
    # + tiny: 0 / 0 would be NaN for a residual that is exactly zero
    growth = m.norm("T") * sums(d) / (sums(r) + tiny)
    contraction = xp.maximum(sums(d) / (sums(y) + tiny), sums(e) / (sums(d) + tiny))
    return xp.max(growth), xp.max(contraction)


def _singular(engine: str, eps: float, *seen: Any) -> SingularMatrixError:
    """Return the error, which names the evidence: the growth, or the contraction of refinement."""
    growth, residual_growth, contraction = map(float, seen)
    if not np.isfinite(growth + residual_growth + contraction):
        return SingularMatrixError(engine, "a solution that overflows")
    if max(growth, residual_growth) * eps < HOPELESS:
        return SingularMatrixError(
            engine,
            "a solution that a step of iterative refinement changes by "
            f"{contraction:.0e} of its size",
        )
    return SingularMatrixError(
        engine, f"a reciprocal condition number near {1 / max(growth, residual_growth):.0e}"
    )
