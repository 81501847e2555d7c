"""Runs of ARPACK, by SciPy's `eigsh` and `eigs`: how they start, what they raise, and what is accepted of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import linalg

from ldiv.engines.iterative.matrix_product import HostProduct
from ldiv.engines.solve_log import note
from ldiv.errors import ConvergenceError, value_error

# restarts are equal in each run, where this SciPy can have them so
EQUAL: dict[str, Any] = {"rng": 0} if "rng" in inspect.signature(linalg.eigs).parameters else {}


def run(
    find: Callable[..., Any],
    task: Any,
    A: linalg.LinearOperator,
    k: int,
    which: str,
    start: Any,
    tol: float,
    **metric: Any,
) -> tuple[Any, Any]:
    """k pairs of A by `find`, in a metric by SciPy's names of its operators."""
    ncv = None if task.ncv is None else min(max(task.ncv, k + 2), len(start))
    options = EQUAL | {"maxiter": task.maxiter, "ncv": ncv, "tol": tol}
    try:
        found: tuple[Any, Any] = find(A, k, which=which, v0=start, **options, **metric)
    except linalg.ArpackNoConvergence as error:
        done = f"{error.eigenvalues.shape[0]} of {k} eigenpairs"
        raise ConvergenceError("arpack", task.maxiter or 10 * task.n, None, tol, done) from None
    note("arpack")
    return found


def operator(n: int, dtype: Any, product: HostProduct) -> linalg.LinearOperator:
    """A product with blocks (n, k), which SciPy calls with vectors (n,), too."""
    return linalg.LinearOperator(
        (n, n), lambda x: product(x.reshape(n, -1)).reshape(x.shape), dtype=dtype
    )


def checked_start(start: Any) -> Any:
    """The starting vector (n,), if ARPACK can start from it."""
    if not (np.isfinite(start).all() and start.any()):
        advice = "Leave it out: a start is chosen."
        raise value_error("v0", "finite numbers that are not all zero", "others", advice)
    return start


def require_pairs(residual: Any, allowed: Any) -> None:
    """Raise for a pair whose residual |A x - lam B x| is no rounding error."""
    if not (residual <= allowed).all():
        worst = int(np.argmax(residual / np.where(allowed == 0, 1, allowed)))
        what = f"eigenpair {worst} is none of the matrix"
        raise ConvergenceError("arpack", 1, float(residual[worst]), float(allowed[worst]), what)
