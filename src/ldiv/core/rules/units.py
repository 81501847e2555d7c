"""f(t^a x) = t^b f(x): results whose units are known, and the powers of two that change units.

A unit t is a power of two, so that a change of units rounds nothing. It is counted in powers of
the square root of a scale, near |x|^(-1/2): so neither t nor 1 / t overflows, as 1 / |x| could,
and a Cholesky factor has a unit, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, reduce
from operator import mul
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, is_complex, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.rule import Unit
from ldiv.core.rules.structure import Structure

# of the exponents of a dtype: numbers whose sixth power is in range are in the middle
SHARE = 1 / 6


def of_matrix(
    structure: Structure, gives: tuple[int, ...], rest: int = 0, adds: tuple[int, ...] = ()
) -> tuple[Unit, ...]:
    """The unit of a matrix S(p), if it has one, of a rule of p and of so many other arguments."""
    if structure.unit_powers is None:
        return ()
    return (Unit((*leaves(structure.unit_powers), *(0,) * rest), gives, adds),)


def of_rest(structure: Structure, of: tuple[int, ...], gives: tuple[int, ...]) -> Unit:
    """Return a unit of the arguments after the parameters of S."""
    return Unit((*(0 for _ in leaves(structure.core)), *of), gives)


# -- how large numbers are ----------------------------------------------------


def magnitude(x: Array, axis: Any) -> Array:
    """The largest |Re x| or |Im x| along these axes, which are kept; 0 for no numbers.

    Not |x|, which may overflow.
    """
    xp = namespace(x)
    if 0 in x.shape:
        return xp.sum(xp.abs(x), axis=axis, keepdims=True)
    parts = (xp.real(x), xp.imag(x)) if is_complex(x) else (x,)
    sizes = [xp.max(xp.abs(part), axis=axis, keepdims=True) for part in parts]
    return xp.maximum(*sizes) if len(sizes) > 1 else sizes[0]


def balance(size: Array) -> Array:
    """t, a power of two with 1/4 <= size t^2 <= 1.

    Infinity and NaN count as the largest number, 0 as 1.
    """
    xp, most = namespace(size), float(np.finfo(numpy_dtype(size)).max)
    root = xp.sqrt(
        xp.where(
            size <= most, xp.where(size == 0, xp.ones_like(size), size), xp.full_like(size, most)
        )
    )
    return xp.frexp(root)[0] / root  # mantissa / number is a power of two, exactly


@cache
def middle(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the interval of sizes for which no intermediate result over- or underflows."""
    most = 2.0 ** int(np.finfo(dtype).maxexp * SHARE)
    return 1 / most, most


# -- the choice of a unit -----------------------------------------------------


def chosen(xs: Sequence[Array], cores: Sequence[int]) -> tuple[Array, Array]:
    """(t, size) by the largest of all these numbers, of each member of a batch, (*batch,).

    t is 1 where that is in the middle of the range, and where a number would be lost: one so much
    smaller than the largest that it has no place beside it.
    """
    xp, axes = namespace(xs[0]), [tuple(range(-core, 0)) for core in cores]
    sizes = [
        xp.reshape(magnitude(x, own), batch_of(x, core))
        for x, own, core in zip(xs, axes, cores, strict=True)
    ]
    size = reduce(xp.maximum, sizes)
    low, high = middle(numpy_dtype(size))
    t = _of_size(size)
    stays = (size == 0) | ((size >= low) & (size <= high))
    for x, own, core in zip(xs, axes, cores, strict=True):
        stays = stays | xp.any(_lost(x, in_units(x, core, [(t, 2)])), axis=own)
    return xp.where(stays, xp.ones_like(t), t), size


def unit_along(x: Array, axis: tuple[int, ...]) -> Array:
    """t by the largest number along these axes, which are kept, and 1 where a number would be
    lost: a constant, for formulas in which it cancels.
    """
    x = constant(x)
    xp, t = namespace(x), _of_size(magnitude(x, axis))
    return xp.where(xp.any(_lost(x, x * t * t), axis=axis, keepdims=True), xp.ones_like(t), t)


def log_sizes(x: Array) -> Array:
    """Return log |x|. Its derivatives are computed in units of each x, since powers of 1 / x may
    leave the range of the dtype.
    """
    xp, size = namespace(x), namespace(x).abs(constant(x))
    low, high = middle(numpy_dtype(size))
    t = xp.where((size >= low) & (size <= high), xp.ones_like(size), balance(size))
    return xp.log(xp.abs(x * t * t)) - 2 * xp.log(t)


def _of_size(size: Array) -> Array:
    """Return t whose square does not overflow, whatever number it multiplies; a subnormal size
    counts as the least normal one.
    """
    tiny = float(np.finfo(numpy_dtype(size)).tiny)
    return balance(namespace(size).where(size < tiny, namespace(size).full_like(size, tiny), size))


def _lost(x: Array, y: Array) -> Array:
    """A mask of the numbers of y, which is x in other units, that have become subnormal."""
    xp = namespace(x)
    if is_complex(x):
        return _lost(xp.real(x), xp.real(y)) | _lost(xp.imag(x), xp.imag(y))
    tiny = float(np.finfo(numpy_dtype(x)).tiny)
    return (xp.abs(y) < tiny) & (xp.abs(x) >= tiny)


def in_units(x: Array, own: int, powers: Iterable[tuple[Array, int]]) -> Array:
    """Return x times all t^power, for x with this many own axes; exact unless it over- or
    underflows.

    Each power is applied in two halves, neither of which overflows.
    """
    half: list[Array] = []
    rest: list[Array] = []
    for t, power in powers:
        factor = t if power > 0 else 1 / t
        half += [factor] * (abs(power) // 2)
        rest += [factor] * (abs(power) % 2)
    for factors in (half, half, rest):
        if factors:
            x = x * reduce(mul, factors)[(..., *(None,) * own)]
    return x
