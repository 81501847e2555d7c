"""LOBPCG as an engine: scaling, the starting block, and the check of convergence."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    alike,
    astype,
    common_batch,
    numpy_dtype,
    of_each,
    or_one,
    real,
    result_dtype,
    unit_columns,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace, on_host, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.units import magnitude
from ldiv.engines.accuracy.scaling import balanced_product
from ldiv.engines.eigen.lobpcg_iteration import iterate, rounding_of_residual, wanted
from ldiv.engines.eigen.task import EigenTask
from ldiv.engines.iterative.krylov import preconditioner
from ldiv.engines.iterative.matrix_product import assembled, require_hermitian
from ldiv.engines.solve_log import is_read, note
from ldiv.errors import OF_BLOCKS_OF_EIGENPAIRS, ConvergenceError

RANK = 30
ON_HOST = False
MOST = 500  # steps, unless `maxiter` is given
BEYOND = 1  # pairs that are iterated beyond those returned, which converge the faster for it


def supports(task: EigenTask, dtype: Any, device: str) -> str | None:
    if task.sigma is not None or task.which not in ("LA", "SA"):
        return "finds pairs at one end of the spectrum: which='LA' or 'SA', without sigma"
    if task.k + task.constraints > task.n:
        return f"finds at most n - {task.constraints} = {task.n - task.constraints} pairs"
    return None


def guard_pairs(task: EigenTask) -> int:
    return max(min(max(task.guard, 1), task.n - task.constraints - task.k), 0)


def pairs(
    task: EigenTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Array, Array, Array]:
    """The problems of a batch, one after the other.

    On the host if the matrix is sparse and the framework would otherwise trace every step.
    """
    args = pA, pB, auxiliaries
    flat, batch = leaves(args), common_batch(task.core, args)
    if (
        any(map(traced, flat))
        and task.A.unview()[0].pattern is not None
        and task.B.on_host
        and (task.M is None or task.M.on_host)
    ):
        dtype, m = result_dtype(pA, pB), task.k + guard_pairs(task)
        # lam and the error bounds (*batch, m), X (*batch, n, m)
        sizes = (*batch, m), np.finfo(dtype).dtype
        return on_host(
            lambda *flat: pairs(task, *rebuild(task.core, flat)),
            (sizes, ((*batch, task.n, m), dtype), sizes),
            *flat,
        )
    xp = namespace(flat[0])
    if 0 in batch:
        x = xp.zeros((*batch, task.n, task.k + guard_pairs(task)), **alike(flat[0]))
        return real(x[..., 0, :]), x, real(x[..., 0, :])
    return of_each(partial(_pairs, task), task.core, args)


def _pairs(
    task: EigenTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Array, Array, Array]:
    for name, structure, p in (("A", task.A, pA), ("B", task.B, pB)):
        require_finite(name, *leaves(structure.read(p)))
    near, start, Y, _ = auxiliaries
    require_finite("X, Y", *leaves((start, Y)))
    X = _start(task, leaves(pA)[0], result_dtype(pA, pB), start)
    A, B = assembled(task.A, pA), None if task.standard else assembled(task.B, pB)
    for structure, product in ((task.A, A), (task.B, B)):
        if product is not None:
            require_hermitian(structure, product, X)
    M = None if task.M is None else preconditioner(task.M, near)
    most, tol = MOST if task.maxiter is None else task.maxiter, task.tol or None
    xp = namespace(X)
    # columns with entries up to 1, of which no square overflows
    X = X / or_one(magnitude(X, axis=-2))
    # mu of (t^2 A) x = mu (s^2 B) x, with products near 1
    (A, t), (B, s) = (
        balanced_product(A, X, (-2, -1)),
        (B, xp.ones_like(real(X[:1, :1]))) if B is None else balanced_product(B, X, (-2, -1)),
    )
    lam, X, size, steps, enough = iterate(
        A,
        B,
        M,
        X,
        _cast(Y, numpy_dtype(X)) if task.constraints else None,
        tol,
        most,
        task.which == "LA",
        task.k + guard_pairs(task),
    )
    # the bound of the last recomputation, or that of the final pairs if it is larger
    enough = xp.maximum(enough, wanted(A, B, X, lam, tol, len(lam)))
    # the column that misses its bound by most
    at = xp.reshape(xp.argmax(size / or_one(enough)), (1,))
    check_or_raise(
        (size <= enough).all(),
        partial(_not_converged, len(lam)),
        steps,
        (size <= enough).sum(),
        xp.take(size, at, axis=0)[0],  # no device waits
        xp.take(enough, at, axis=0)[0],
    )
    if is_read() and not traced(X):
        note("lobpcg", int(steps), float(xp.max(size) / (xp.max(xp.abs(lam)) or 1)))
    order, error_bound = task.order(lam), size + rounding_of_residual(A, B, X, lam)
    # lam = mu s^2 / t^2, one factor at a time
    lam, error_bound = (y[order] / t[0] * s[0] / t[0] * s[0] for y in (lam, error_bound))
    return lam, X[:, order] * s, error_bound


def _start(task: EigenTask, like: Array, dtype: np.dtype[Any], start: Tree) -> Array:
    """The user's starting block, completed by random columns; the whole space where these fill it."""
    xp, most = namespace(like), task.n - task.constraints
    m = min(task.k + guard_pairs(task) + BEYOND, most)
    if m == task.n:  # any basis has the same span, and this one is orthonormal
        return astype(unit_columns(like, m, range(m)), dtype)
    given = start.shape[1] if task.start else 0
    # seeded by (n, m): the same start in each call
    more = xp.asarray(
        np.random.default_rng((task.n, m)).standard_normal((task.n, max(m - given, 0))),
        **alike(like, dtype),
    )
    return more if not given else xp.concat([_cast(start, dtype), more], axis=1)[:, :m]


def _cast(X: Array, dtype: Any) -> Array:
    """Columns with the same span in another precision, scaled so that they do not overflow."""
    return astype(X / or_one(magnitude(X, axis=-2)), dtype)


def _not_converged(k: int, steps: Any, done: Any, residual: Any, enough: Any) -> ConvergenceError:
    return ConvergenceError(
        "lobpcg",
        int(steps),
        float(residual),
        float(enough),
        f"{int(done)} of {k} eigenpairs",
        OF_BLOCKS_OF_EIGENPAIRS,
    )
