"""Detect where a Jacobian may be nonzero: by following f, or by products with all unit vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import alike
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import require_number
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, namespace, numbers
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.rules.pushforward import OnlyReverse
from ldiv.derivatives.function_arguments import (
    Function,
    output_size,
    require_function,
    require_vector,
)
from ldiv.derivatives.jacobian_values import cotangents, on_host, products, sparse_values
from ldiv.errors import type_error, value_error
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse

PROBES = 64  # products at a time


@public
def detect_pattern(
    f: Callable[[ArrayT], AnyArray], x: ArrayT, *, margin: float = 1e-2
) -> SparseArray:
    """Find where a Jacobian may be nonzero, by following what each value of f is computed from.

        pattern = all (i, j) for which d f_i / d x_j may be nonzero

    Parameters
    ----------
    f : callable
        As in `jacobian`.
    x : array (n,)
        A point where f may be evaluated; the pattern is verified there.
    margin : float, default 1e-2
        How far from x, relative and absolute, the two points lie at which J is evaluated if f does
        what cannot be followed.

    Returns
    -------
    P : SparseArray (m, n)
        Ones on the pattern.

    Raises
    ------
    ValueError
        Where f has no finite derivative at x. If f cannot be followed, also where it has none at the two
        points (choose a smaller margin), and where the pattern misses an entry at x.
    TypeError
        For a batch of points, in vmap.

    Notes
    -----
    The program of v -> J v (JAX) or u -> J^T u (PyTorch) is followed, one operation after another,
    with a set of indices for each number: JAX's jaxpr, PyTorch's ATen operations as they are
    called. The pattern holds for every x, and both branches of where, relu and abs are in it. It
    may have entries that are never nonzero: a solve, a sort, a maximum over a window, or an index
    that depends on x is taken for dense. In PyTorch a branch of Python (`if x[0] > 0`) is followed as it
    is taken at x. Where Python sees an integer that depends on x (`y[x.argmax()]`) all of J is taken for
    dense.
    A function that cannot be followed is differentiated in all directions at two points x (1 + margin t)
    + margin s with random t and s. It has operations that are in no table, numbers that leave the
    framework, or more than 2^24 entries. Entries that vanish at both, but not everywhere, are missed.
    Either way the pattern is verified at x, and `jacobian` verifies it where it is used.
    Not differentiable: the pattern does not depend on x continuously.

    Cost: a few evaluations of f and 1 Jacobian on the pattern; 2 n products, 64 at a time, where f
    cannot be followed. Once, for a pattern that is used many times.

    References
    ----------
    Griewank and Walther, Evaluating Derivatives, section 7.1.

    Examples
    --------
    >>> import ldiv, torch
    >>> P = ldiv.detect_pattern(lambda x: x[1:] * x[:-1], torch.ones(3))
    >>> P.to_scipy().toarray().astype(int)
    array([[1, 1, 0],
           [0, 1, 1]])
    """
    at, margin = require_vector("x", x), require_number("margin", margin, 0)
    if (values := numbers(at)) is not None and values.shape != tuple(at.shape):
        raise type_error(
            "x",
            "one point",
            "a batch of them (vmap)",
            "Detect the pattern at one point, outside of vmap: it holds for every x.",
        )
    require_function(f)
    shape = output_size(partial(frontend_of(at).user.compiled, f), at), at.shape[0]
    structure = _followed(f, at, shape) or _probed(f, at, shape, margin)
    ones = np.ones(structure.pattern.nnz)
    return SparseArray(structure, namespace(at).asarray(ones, **alike(at)))


def _followed(f: Function, x: Array, shape: tuple[int, int]) -> Sparse | None:
    """The pattern that the front end finds; None if it finds none, or one that is wrong at x."""
    if (sets := frontend_of(x).dependence(f, x)) is None:
        return None
    rows, cols = sets.tocoo().coords
    structure = Sparse(Pattern(rows, cols, shape))
    try:
        sparse_values(structure, "auto", f, x, on_host)
    except ValueError:  # a missing entry, or a derivative that is not finite: products tell which
        return None
    return structure


def _blocks(f: Function, x: Array, shape: tuple[int, int]) -> Iterator[tuple[int, int, Index]]:
    """Yield blocks of columns of J, or of rows if f has reverse mode alone: (row, column) where a
    block begins, and its values.
    """
    with suppress(OnlyReverse):
        for j in range(0, shape[1], PROBES):
            yield 0, j, asnumpy(products(f, x, _units(x, shape[1], j))).T
        return
    for i in range(0, shape[0], PROBES):
        yield i, 0, asnumpy(cotangents(f, x, _units(x, shape[0], i)))


def _units(x: Array, n: int, first: int) -> Array:
    return namespace(x).asarray(np.eye(min(PROBES, n - first), n, first), **alike(x))


def _probed(f: Function, x: Array, shape: tuple[int, int], margin: float) -> Sparse:
    """Detect the pattern by products with all unit vectors at two points near x."""
    n, xp, rng = shape[1], namespace(x), np.random.default_rng(0)
    found = [np.zeros(0, dtype=np.int64)]
    for _ in range(2):
        t, s = (xp.asarray(margin * rng.standard_normal(n), **alike(x)) for _ in range(2))
        at = x * (1 + t) + s
        for i, k, values in _blocks(f, at, shape):
            if not np.isfinite(values).all():
                advice = "Choose a smaller margin, or an x where f is smooth."
                raise value_error(
                    "f",
                    "finite derivatives near x",
                    f"NaN or infinity with margin {margin:g}",
                    advice,
                )
            rows, cols = np.nonzero(values)
            found.append((rows + i) * n + cols + k)
    places = distinct(np.concatenate(found))
    structure = Sparse(Pattern(places // max(n, 1), places % max(n, 1), shape))
    sparse_values(structure, "auto", f, x)  # raises where x itself has an entry outside the pattern
    return structure
