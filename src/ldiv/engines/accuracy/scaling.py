"""Norms, and matrices in other units, by powers of two t with |x| t^2 near 1 (`ldiv.core.rules.units`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype, or_one
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_opaque, namespace, traced
from ldiv.core.frameworks.looks import assumed_true, stays_on_device
from ldiv.core.rules.units import balance, magnitude

PARTS = 4  # powers of two within the range, whose product is any quotient of three numbers


def norm(x: Array, axis: Any) -> Array:
    """Compute |x| along these axes, also if squares of its numbers over- or underflow."""
    limits = np.finfo(numpy_dtype(x))
    if type(x) is np.ndarray and x.ndim == 1 and x.dtype.kind == "f":
        square = x.dot(x)
        if limits.tiny / limits.eps < square < limits.max:  # no square over- or underflows
            return np.sqrt(square)
    xp, size = namespace(x), magnitude(x, axis)
    # |x| = |t x| / t with t = 2^(-5k), 1 or 2^(5k), of a range 2^(8k): 2^(-2k) <= max_i |t x_i| <= 2^(3k)
    k = float(limits.maxexp // 8)
    t = xp.where(size < 2 ** (-2 * k), 2 ** (5 * k), xp.ones_like(size))
    t = xp.where(size > 2 ** (3 * k), 2 ** (-5 * k), t)
    # XLA writes (t x)^2 of a constant t as t^2 x^2, infinity times 0, but not through a maximum
    tx = xp.maximum(xp.abs(x * t), 0 * t)
    return xp.linalg.vector_norm(tx, axis=axis) / xp.squeeze(t, axis=axis)


def root_of_powers(x: Array, p: float, axis: Any) -> Array:
    """(sum |x_i|^p)^(1/p) in units of the largest |x_i|, or for p < 0 of the smallest."""
    xp, size = namespace(x), namespace(x).abs(x)
    if p == 1:
        return xp.sum(size, axis=axis)
    first = (xp.max if p > 0 else xp.min)(size, axis=axis, keepdims=True)
    unit, first = xp.squeeze(first, axis=axis), or_one(first)
    ratio, tiny = size / first, float(np.finfo(numpy_dtype(x)).tiny)
    # a ratio below the range has a root, whose powers count for a small p
    root = xp.sqrt(or_one(size)) / xp.sqrt(first)
    powers = xp.where(ratio < tiny, root ** (2 * p), xp.where(ratio < tiny, root, ratio) ** p)
    powers = xp.where(size == 0, xp.zeros_like(size), powers)
    # the root overflows long before the norm does, its square root does not
    root = or_one(xp.sum(powers, axis=axis)) ** (0.5 / p)
    return root * unit * root


def balanced_product(
    product: Callable[[Array], Array], x: Array, axis: Any = -2
) -> tuple[Callable[[Array], Array], Array]:
    """(v -> t A (t v), t) such that t^2 A x is near 1 for this x (*batch, n, k), per column.

    `axis`: or per matrix, or other axes.
    """
    t = balance(magnitude(product(x), axis))
    return lambda v: product(v * t) * t, t


def balanced(a: Array) -> tuple[Array, Array | None]:
    """(t a t, t) if a is so small that reciprocals of pivots may overflow, else (a, None).

    Compilers flush such numbers to zero.
    """
    xp, size, limits = namespace(a), magnitude(a, axis=(-2, -1)), np.finfo(numpy_dtype(a))
    # pivots near eps |a| would be subnormal
    small = size < float(limits.tiny / limits.eps)
    if not stays_on_device(a) and (traced(a) or assumed_true(~xp.any(small))):
        return a, None
    t = xp.where(small, balance(size), xp.ones_like(size))
    return a * t * t, t


def unbalanced(x: Array, t: Array | None) -> Array:
    """Return x / t^2."""
    return x if t is None else x / t / t


def solve_in_units(solve: Callable[[Array], Array], b: Array, r: Array, c: Array) -> Array:
    """C solve(R b), column by column in units in which R b is far from both ends of the range.

    What leaves the range there is solved for in units of its own: rows of x may depend on it alone.
    """
    xp, limits = namespace(b), np.finfo(numpy_dtype(b))
    of_r, of_c = (xp.round(xp.log2(scale)) for scale in (r, c))
    e = xp.max(xp.log2(xp.abs(b)) + of_r, axis=-2, keepdims=True)
    # y = R b / 2^k, whose largest number is near the fourth root of the largest one; x = C solve(y) 2^k
    k = xp.round(xp.where(xp.isfinite(e), e, xp.zeros_like(e)) - limits.maxexp // 4)
    y = _times_powers(b, of_r, -k)
    size = xp.abs(y)
    fits = (b == 0) | ((size >= float(limits.tiny)) & (size <= float(limits.max)))
    x = _times_powers(solve(xp.where(fits, y, xp.zeros_like(y))), of_c, k)
    # a device that flushes subnormal numbers to zero may leave no column in range
    if is_opaque(b) or assumed_true(fits.all()) or not assumed_true((fits & (b != 0)).any()):
        return x
    return x + solve_in_units(solve, xp.where(fits, xp.zeros_like(b), b), r, c)


def _times_powers(x: Array, rows: Array, columns: Array) -> Array:
    """Compute x 2^(rows + columns) by powers of one sign: an intermediate number leaves the range
    only if the result does.
    """
    xp, most = namespace(x), float(np.finfo(numpy_dtype(x)).maxexp - 2)
    # in the layout of x, since the rounding of products with x depends on it
    e = xp.zeros_like(xp.abs(x)) + rows + columns
    for _ in range(PARTS):
        part = xp.maximum(xp.minimum(e, xp.full_like(e, most)), xp.full_like(e, -most))
        x, e = x * 2**part, e - part
    return x
