"""A power of two t with |x| t t near 1: multiplied by t twice, numbers of any size lose no digit,
and their squares are numbers too.

t is a power of two of the square root, so that neither t nor 1 / t leaves the range of floating
point, as 1 / |x| would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays import is_complex, numpy_dtype
from ldiv.core.dispatch import namespace, traced
from ldiv.core.trees import Array


def magnitude(x: Array, axis: Any) -> Array:
    """The largest |Re x| or |Im x| along these axes, which are kept; the absolute value itself
    may overflow. 0 where there is no number.
    """
    xp = namespace(x)
    if 0 in x.shape:
        return xp.sum(xp.abs(x), axis=axis, keepdims=True)
    parts = (xp.real(x), xp.imag(x)) if is_complex(x) else (x,)
    sizes = [xp.max(xp.abs(part), axis=axis, keepdims=True) for part in parts]
    return xp.maximum(*sizes) if len(sizes) > 1 else sizes[0]


def balance(size: Array) -> Array:
    """t, a power of two with 1/4 <= size t t <= 1; that of the largest number where size is
    infinite or NaN, of 1 where it is 0.
    """
    xp, most = namespace(size), float(np.finfo(numpy_dtype(size)).max)
    root = xp.sqrt(
        xp.where(
            size <= most, xp.where(size == 0, xp.ones_like(size), size), xp.full_like(size, most)
        )
    )
    return xp.frexp(root)[0] / root  # the mantissa over the number: exact


def norm(x: Array, axis: Any) -> Array:
    """|x| along these axes, where squares may over- or underflow."""
    xp, size = namespace(x), magnitude(x, axis)
    unit = xp.where(size == 0, xp.ones_like(size), size)
    return xp.squeeze(unit, axis=axis) * xp.linalg.vector_norm(x / unit, axis=axis)


def balanced_product(
    product: Callable[[Array], Array], x: Array, axis: Any = -2
) -> tuple[Callable[[Array], Array], Array]:
    """(v -> t A (t v), t), with t so that A x is near 1 for this x (*batch, n, k), column by
    column or on more axes.
    """
    t = balance(magnitude(product(x), axis))
    return lambda v: product(v * t) * t, t


def balanced(a: Array) -> tuple[Array, Array | None]:
    """(t a t, t) for matrices so small that reciprocals of their pivots may overflow, else (a,
    None). Compilers flush such numbers to zero.
    """
    xp, size, limits = namespace(a), magnitude(a, axis=(-2, -1)), np.finfo(numpy_dtype(a))
    small = size < float(limits.tiny / limits.eps)
    if traced(a) or not bool(xp.any(small)):
        return a, None
    t = xp.where(small, balance(size), xp.ones_like(size))
    return a * t * t, t


def unbalanced(x: Array, t: Array | None) -> Array:
    """x / t^2."""
    return x if t is None else x / t / t
