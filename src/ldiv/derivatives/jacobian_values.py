"""The values of a Jacobian: dense, or on a sparsity pattern, where columns of one color share a product."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, namespace, traced
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.rules.pushforward import OnlyReverse
from ldiv.derivatives.coloring import compression
from ldiv.derivatives.function_arguments import Function
from ldiv.rules.verify_pattern import agreed
from ldiv.structures.sparse import Sparse


def products(f: Function, x: Array, seeds: Array) -> Array:
    """(J S)^T, (p, m), by one product for each row of S^T; OnlyReverse where there are none."""
    return frontend_of(x).user.pushed(f, x, seeds)


def cotangents(f: Function, x: Array, seeds: Array, pull: Any = None) -> Array:
    """R J, (q, n), by one product for each row of R."""
    user = frontend_of(x).user
    found: Array = user.rows(f, x, seeds) if pull is None else user.pulled(pull, seeds, f)[0]
    return found


def dense_values(f: Function, x: Array, size: int, mode: str) -> Array:
    xp = namespace(x)
    if mode == "auto" and frontend_of(x).user.prefers_rows(size, x):
        mode = "reverse"
    if mode != "reverse":
        with suppress(OnlyReverse):
            return products(f, x, xp.asarray(np.eye(x.shape[0]), **alike(x))).mT
    return cotangents(f, x, xp.asarray(np.eye(size), **alike(x)))


def sparse_values(
    structure: Sparse,
    mode: str,
    f: Function,
    x: Array,
    run: Callable[..., Array] | None = None,
    multiply: Callable[..., Array] | None = None,
    is_right: bool = False,
) -> Array:
    """The entries of the Jacobian of f at x, on a pattern that is checked; with `is_right` the caller checks it.

    The program of a traced f may prove the pattern for all x; else the entries must agree with a
    product with a random direction. `run(g, *xs)` is g(*xs) for the functions that call f;
    `multiply(f, x, seeds)` are the products that come first, `products` or for a symmetric Jacobian
    `cotangents`.
    """
    proven = is_right or (traced(x) and covers(structure, frontend_of(x).dependence(f, x)))
    run = run or (lambda g, *xs: g(*xs))
    with suppress(OnlyReverse):
        return _by_both(structure, mode, f, x, proven, run, multiply or products)
    return _by_rows(structure, f, x, proven, run)


def on_host(g: Callable[..., Array], *xs: Array) -> Array:
    """g(*xs) as one program, for NumPy."""
    values: Array = asnumpy(frontend_of(*xs).user.compiled(g, *xs))
    return values


def _by_both(
    structure: Sparse,
    mode: str,
    f: Function,
    x: Array,
    proven: bool,
    run: Callable[..., Array],
    multiply: Callable[..., Array],
) -> Array:
    """The Jacobian from the products that a mode takes; one of the first products is random."""
    how, xp = compression(structure, mode), namespace(x)
    every = structure.cached(
        ("seeds", mode, proven),
        lambda: how.forward.T if proven else _and_random(how.forward.T, structure),
    )
    # With constant seeds a compiler computes the products with the linear part of f beforehand. A
    # gradient has so small a linear part that reading the constants would cost more.
    is_made = proven and traced(x) and mode == "symmetric"
    seeds = how.seeds(how.by_column, how.p, x) if is_made else xp.asarray(every, **alike(x))
    tangents = run(partial(multiply, f), x, seeds)
    parts = [tangents[: how.p]]
    if how.q:
        parts.append(run(partial(cotangents, f), x, xp.asarray(how.reverse, **alike(x))))
    entries = how.entries(*parts)
    return entries if proven else _agreed(structure, entries, every[-1], tangents[-1])


def _by_rows(
    structure: Sparse, f: Function, x: Array, proven: bool, run: Callable[..., Array]
) -> Array:
    """The Jacobian from reverse products, of which one is random: S^T u = J^T u."""
    how, xp = compression(structure, "reverse"), namespace(x)
    seeds = how.reverse if proven else _and_random(how.reverse, structure)
    found = run(partial(cotangents, f), x, xp.asarray(seeds, **alike(x)))
    entries = how.entries(found[:0], found[: how.q])
    if proven:
        return entries
    turned = structure.cached("turned", lambda: _turned(structure.pattern))
    return _agreed(turned, entries, seeds[-1], found[-1])


def _agreed(structure: Sparse, entries: Array, v: Index, y: Array) -> Array:
    """The entries, or an error unless they agree with y = J v."""
    return agreed(structure, entries, namespace(y).asarray(v, **alike(y)), y)


def _and_random(seeds: Index, structure: Sparse) -> Index:
    """Append one random direction to the seeds."""
    rng = np.random.default_rng(structure.pattern.nnz)
    return np.vstack([seeds, rng.standard_normal(seeds.shape[1])])


def _turned(pattern: Pattern) -> Sparse:
    return Sparse(Pattern(*pattern.places[::-1], pattern.shape[::-1]))


def covers(structure: Sparse, sets: Any) -> bool:
    """True if the pattern contains every entry that may be nonzero."""
    if sets is None:
        return False
    n, (rows, cols), (i, j) = sets.shape[1], structure.pattern.places, sets.tocoo().coords
    return bool(np.isin(i.astype(np.int64) * n + j, rows * n + cols).all())
