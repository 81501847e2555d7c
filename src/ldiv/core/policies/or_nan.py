"""y = kernel(x), and NaN in the batch members that the kernel refuses: `errstate(singular="nan")`.

Where numbers are known the kernel runs on all members at once. If it raises, the refused members are
found by bisection. Then the kernel runs once more, with an accepted member in place of each refused
one, so that the other outputs are equal, to the last bit, to those of a batch without refusals. Only
errors that depend on numbers become NaN; a wrong shape or a missing engine raises.
The outputs of a refused member are NaN, integer and boolean outputs 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, common_batch, numpy_dtype, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Tree, leaves, rebuild
from ldiv.errors import EngineError, expected_got, is_of_numbers

X = TypeVar("X")  # arrays of one type
Kernel = Callable[[list[Array]], Arrays]


def members(kernel: Kernel, cores: Sequence[int], flat: list[Array]) -> Arrays:
    """Compute the outputs for arguments with `cores` own axes each; the axes before them are a
    batch.
    """
    if (found := unless_refused(kernel, flat)) is not None:
        return found
    batch = broadcast(*[batch_of(x, c) for x, c in zip(flat, cores, strict=True)])
    # the outputs of an empty batch, which is never refused, have the shapes and dtypes of a member
    none = kernel([_none(x, c) for x, c in zip(flat, cores, strict=True)])
    rows = [rows_of_batch(x, c, batch) for x, c in zip(flat, cores, strict=True)]
    parts, refused = zip(*_by_halves(kernel, cores, rows, none, 0, prod(batch)), strict=True)
    sizes = [len(ys[0]) for ys in parts]
    bad = np.repeat(np.array(refused), sizes).reshape(batch)
    if (found := without_refused(kernel, cores, flat, bad)) is not None:
        return found
    xp = namespace(none[0])
    return tuple(
        [
            xp.reshape(xp.concat(ys, axis=0), (*batch, *ys[0].shape[1:]))
            for ys in zip(none, *parts, strict=True)
        ]
    )


def without_refused(
    kernel: Callable[[list[Any]], tuple[Any, ...]],
    cores: Sequence[int],
    flat: Sequence[Any],
    bad: np.ndarray[Any, Any],
) -> tuple[Any, ...] | None:
    """Return the outputs with NaN in the refused members `bad` (*batch,); None if others are refused, too."""
    if bad.all():
        return None
    at = np.arange(bad.size)
    # the first accepted member takes the place of each refused one
    at[bad.ravel()] = np.argmin(bad.ravel())
    if (
        found := unless_refused(
            kernel, [_taken(x, c, at, bad.shape) for x, c in zip(flat, cores, strict=True)]
        )
    ) is None:
        return None
    return tuple([_or_nothing(y, bad) for y in found])


def _taken(x: Array, core: int, at: np.ndarray[Any, Any], batch: tuple[int, ...]) -> Array:
    """Select the members of x at these places; x itself if all members share it."""
    if prod(batch_of(x, core)) == 1:
        return x
    xp, rows = namespace(x), rows_of_batch(x, core, batch)
    taken = xp.take(rows, xp.asarray(at, **alike(x, np.dtype(np.int32))), axis=0)
    return xp.reshape(taken, (*batch, *rows.shape[1:]))


def _or_nothing(y: Array, bad: np.ndarray[Any, Any]) -> Array:
    xp = namespace(y)
    own = (1,) * (y.ndim - bad.ndim)
    there = xp.asarray(bad.reshape(*bad.shape, *own), **alike(y, np.dtype(bool)))
    return xp.where(there, xp.full(y.shape, nothing(y), **alike(y)), y)


def not_here(came: str) -> EngineError:
    """Return the error of an engine whose failed checks cannot become NaN."""
    return EngineError(
        expected_got(
            'errstate(singular="nan")',
            "a computation by LU, Cholesky, QR, eigh, SVD or triangles",
            came,
            'Say singular="raise" there, the default.',
        )
    )


def unless_refused(
    kernel: Callable[[list[X]], tuple[X, ...]], flat: list[X]
) -> tuple[X, ...] | None:
    try:
        return kernel(flat)
    except Exception as problem:
        if not is_of_numbers(problem):
            raise
        return None


def _none(x: Array, core: int) -> Array:
    return namespace(x).zeros((0, *x.shape[x.ndim - core :]), **alike(x))


def rows_of_batch(x: Array, core: int, batch: tuple[int, ...]) -> Array:
    """Reshape x to (members, *own axes); an array that all members share is one row."""
    xp, own = namespace(x), tuple(x.shape[x.ndim - core :])
    if prod(batch_of(x, core)) == 1:
        return xp.reshape(x, own)
    return xp.reshape(xp.broadcast_to(x, (*batch, *own)), (prod(batch), *own))


def varies(batch: Sequence[int], whole: Sequence[int]) -> list[bool]:
    """Return a flag for each axis of the whole batch: do members differ along it?"""
    sizes = [1] * (len(whole) - len(batch)) + list(batch)
    return [n == size and n != 1 for n, size in zip(sizes, whole, strict=True)]


def _by_halves(
    kernel: Kernel, cores: Sequence[int], rows: list[Array], none: Arrays, start: int, end: int
) -> Iterator[tuple[Arrays, bool]]:
    """Bisect: compute the outputs of these members, known to be refused together, in two halves."""
    if end - start <= 1:
        yield tuple([_refused(y, end - start) for y in none]), True
        return
    middle = (start + end) // 2
    for first, last in ((start, middle), (middle, end)):
        some = [x if x.ndim == c else x[first:last] for x, c in zip(rows, cores, strict=True)]
        if (found := unless_refused(kernel, some)) is not None:
            yield found, False
        else:
            yield from _by_halves(kernel, cores, rows, none, first, last)


def _refused(y: Array, count: int) -> Array:
    """Return `count` members of fill values, shaped as members of y."""
    return namespace(y).full((count, *y.shape[1:]), nothing(y), **alike(y))


def nothing(y: Any) -> complex:
    """The fill value of an output without an answer."""
    return {"f": float("nan"), "c": complex("nan+nanj")}.get(numpy_dtype(y).kind, 0)


# -- derivatives --------------------------------------------------------------


def finite_or_nan(rule: Any, f: Callable[..., Tree], *given: Tree) -> Tree:
    """f(*given), f the rule's jvp or vjp: NaN in the members that overflow."""
    results, count = f(*given), len(rule.core)
    before, args = given[:-count], given[-count:]
    depth = len(common_batch(rule.core, args))
    pulls = is_cotangent(rule, given)
    cores = rule.cores if pulls else [y.ndim - depth for y in before[-1]]
    flat = [
        y if y is None else _finite_or_nan(y, c)
        for y, c in zip(leaves(results), cores, strict=True)
    ]
    return rebuild(rule.core, flat) if pulls else tuple(flat)


def is_cotangent(rule: Any, given: Sequence[Tree]) -> bool:
    """True if `given` are the arguments of a vjp, which begin with need, cotangents and outputs."""
    return len(given) - len(rule.core) == 3


def _finite_or_nan(y: Array, core: int) -> Array:
    """Multiply non-finite members by NaN; by a product, so that derivatives are NaN, too."""
    xp = namespace(y)
    axes = tuple(range(-min(core, y.ndim), 0))
    finite = xp.all(xp.isfinite(y), axis=axes, keepdims=True) if axes else xp.isfinite(y)
    one = xp.ones_like(real(y))
    return xp.where(finite, one, float("nan") * one) * y
