"""Iterations whose steps are SciPy's, on the host, one column after the other.

Such an engine is a function `ITERATE` of scipy.sparse.linalg. As in `krylov`, b is scaled to 1, A
and M by their action on b, and the true residual decides: while it is too large, the iteration
starts again from where it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ldiv.core.arrays.shapes import alike, common_batch, each_on_host, numpy_dtype, result_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.iterative.matrix_product import HostProduct, assembled, on_numpy
from ldiv.engines.iterative.options import Options
from ldiv.engines.registry import name_of
from ldiv.engines.solve_log import is_read, note
from ldiv.errors import ConvergenceError, EngineError

ROUNDS = 8  # starts at most
SPARE = 30  # vectors of a cycle beyond those that span the space
PER_UNKNOWN = 10  # steps for each unknown, at most, as in SciPy
Pair = tuple[HostProduct, HostProduct]  # the products with a matrix and with its adjoint


def solve(
    engine: Any, structure: Structure, p: Tree, b: Array, options: Options, auxiliaries: Tree
) -> Array:
    """x with S(p) x = b."""
    args, like = (p, b, auxiliaries), (structure.core, 2, options.core)
    batch, dtype = common_batch(like, args), result_dtype(p, b)
    spec = ((*batch, *b.shape[-2:]), dtype)
    one = partial(_block, engine, structure, options, dtype)
    if structure.on_host and (options.M is None or options.M.on_host):
        return each_on_host(lambda *problem: (one(*problem),), like, args, (spec,))[0]
    if batch or any(map(traced, leaves(args))):
        raise EngineError(
            f"{name_of(engine)} is SciPy's: it calls an operator with numbers, one problem at a time. "
            "Under jit and vmap take gmres or bicgstab."
        )
    return namespace(b).asarray(one(*args), **alike(b, dtype))


def _block(
    engine: Any,
    structure: Structure,
    options: Options,
    dtype: Any,
    p: Tree,
    b: Array,
    auxiliaries: Tree,
) -> Any:
    require_finite("A", *leaves(structure.read(p)))
    require_finite("b", b)
    m, x0 = options.named(auxiliaries)
    A, M = products(structure, p, dtype), None
    if options.M is not None:
        M = products(options.M, m, dtype)
    every, x = np.asarray(b, dtype), np.zeros(b.shape, dtype)
    guess = x if x0 is None else np.asarray(x0, dtype)
    for j in range(x.shape[1]):
        if every[:, j].any():
            x[:, j] = _column(engine, A, M, every[:, j], guess[:, j], options)
    return x


def products(structure: Structure, p: Tree, dtype: Any) -> Pair:
    """x -> S(p) x and x -> S(p)^H x, for vectors of NumPy."""

    def product(s: Structure) -> HostProduct:
        f = assembled(s, p)
        on_host: HostProduct = on_numpy(f, leaves(p)[0]) if leaves(p) else f
        # vectors (n,) of SciPy as blocks (n, 1)
        return lambda y: on_host(y.reshape(-1, 1)).reshape(-1).astype(dtype)

    return product(structure), product(structure.H)


def _column(engine: Any, A: Pair, M: Pair | None, b: Any, x0: Any, options: Options) -> Any:
    scale = magnitude(b, 0)
    b = b / scale
    # (t A t) y = b / scale,  x = t scale t y, as in `krylov`
    t, A = scaled(A, b)
    # M is scaled by its own action on b
    near = None if M is None else _operator(scaled(M, b)[1], b)
    operator, product = _operator(A, b), A[0]
    x, size = x0 / t / scale / t, float(np.linalg.norm(b))
    # max(rtol |b|, atol) for the scaled b
    wanted = max(options.tolerance(numpy_dtype(b)) * size, options.atol / float(scale[0]))
    most = -(-PER_UNKNOWN * len(b) // engine.cycle(options.restart, len(b)))
    most, steps, left, last = options.maxiter or most, 0, np.inf, x
    options = replace(options, restart=min(options.restart, len(b) + SPARE))

    def after(iterate: Any) -> None:
        nonlocal steps, last
        if np.isfinite(iterate).all():  # after a breakdown it starts from here
            last = iterate.copy()
        for observe in options.observers:
            ratio = np.linalg.norm(b - product(iterate)) / wanted
            observe(name_of(engine), steps, (iterate * t * scale * t)[:, None], ratio)
        steps += 1

    for _ in range(ROUNDS):
        with np.errstate(all="ignore"):
            more = engine.arguments(near, options)
            # rtol=0: `wanted` has both bounds in it
            found = engine.ITERATE(
                operator, b, x, rtol=0, atol=wanted, maxiter=most - steps, callback=after, **more
            )[0]
            # after a breakdown SciPy 1.15's bicg returns one of its functions
            x = found if isinstance(found, np.ndarray) and np.isfinite(found).all() else last
            left = float(np.linalg.norm(b - product(x)))
        if left <= wanted or steps >= most:
            break
    if not left <= wanted:
        raise ConvergenceError(name_of(engine), steps, left / size, wanted / size)
    if is_read():
        note(name_of(engine), steps, left / size)
    return x * t * scale * t


def scaled(products: Pair, b: Any) -> tuple[Any, Pair]:
    """t, and t A t and its adjoint, such that t^2 A b is near 1."""
    t = balance(magnitude(products[0](b), 0))

    def inside(f: Callable[[Any], Any]) -> HostProduct:
        return lambda y: f(y * t) * t

    return t, (inside(products[0]), inside(products[1]))


def _operator(products: Pair, b: Any) -> LinearOperator:
    matvec, rmatvec = products
    return LinearOperator((len(b), len(b)), matvec, rmatvec=rmatvec, dtype=b.dtype)
