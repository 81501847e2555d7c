"""Lanczos with implicit restarts, by SciPy's ARPACK: on F = (A - sigma B)^-1 through our own factors, or on B^-1 A.

A few pairs more than were asked for, the guards, show whether the choice cuts through a cluster, and serve the derivative.
Reference: Lehoucq, Sorensen and Yang, ARPACK Users' Guide (1998).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse import linalg

from ldiv import pencil
from ldiv.arrays import alike, batch_of, broadcast, conj, numpy_dtype
from ldiv.assembled import assembled
from ldiv.eigenproblem import Task
from ldiv.errors import ConvergenceError, EngineError, NotPositiveDefiniteError
from ldiv.finite import require_finite
from ldiv.journal import note
from ldiv.probe import direction
from ldiv.rule import Array, Tree, asnumpy, leaves, namespace, on_host, rebuild, traced

RANK = 20
ON_HOST = True


def supports(task: Task, dtype: Any, device: str) -> str | None:
    if task.which == "index":
        return "finds pairs at an end of the spectrum or near sigma, not by index"
    if task.constraints:
        return "knows no constraints"
    if task.k + 1 >= task.n:
        return f"finds fewer than n - 1 = {task.n - 1} pairs"
    if task.sigma is None and not (task.standard or pencil.factors(task.B, task.B)):
        return "needs a factor of M, whose entries are not at hand: use lobpcg"
    if task.sigma is not None and not pencil.factors(task.A, task.B):
        return "needs a factor of A - sigma M, whose entries are not at hand: leave sigma out, or use lobpcg"
    return None


def others(task: Task) -> int:
    return max(min(task.guard, task.n - 2 - task.k), 0)


def pairs(task: Task, pA: Tree, pB: Tree, aids: tuple[Tree, ...]) -> tuple[Array, Array, Array]:
    """One problem of the batch after the other, on the host."""
    like = (task.A.core, task.B.core, task.aids_core)
    flat, cores = leaves((pA, pB, aids)), leaves(like)
    batch = broadcast(*(batch_of(x, c) for x, c in zip(flat, cores, strict=True)))
    m, dtype = task.k + others(task), np.result_type(*{numpy_dtype(x) for x in leaves((pA, pB))})
    real = np.finfo(dtype).dtype
    specs = (((*batch, m), real), ((*batch, task.n, m), dtype), ((*batch, m), real))
    if not task.A.on_host or not task.B.on_host:
        return _through_products(task, flat, like, batch)
    return on_host(partial(_each, task, like, batch, specs), specs, *flat)


def _each(task: Task, like: Any, batch: tuple[int, ...], specs: Any, *flat: Any) -> tuple[Any, ...]:
    if not batch:
        return _pairs(task, *rebuild(like, flat))
    out = tuple(np.empty(*spec) for spec in specs)
    flat = tuple(np.broadcast_to(x, (*batch, *x.shape[x.ndim - c :])) for x, c in zip(flat, leaves(like), strict=True))
    for i in np.ndindex(*batch):
        for y, one in zip(out, _pairs(task, *rebuild(like, [np.ascontiguousarray(x[i]) for x in flat])), strict=True):
            y[i] = one
    return out


def _through_products(task: Task, flat: list[Array], like: Any, batch: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """An operator is called in its own framework, a product at a time."""
    if any(map(traced, flat)) or batch:
        kind = "a trace (jit)" if any(map(traced, flat)) else f"a batch {batch}"
        raise EngineError(f"arpack calls an operator with numbers, one problem at a time, and got {kind}: use ldiv.lobpcg.")
    xp = namespace(flat[0])
    found = _pairs(task, *rebuild(like, flat))
    return tuple(xp.asarray(y, **(alike(flat[0]) | {"dtype": getattr(xp, y.dtype.name)})) for y in found)


def _pairs(task: Task, pA: Tree, pB: Tree, aids: tuple[Tree, ...]) -> tuple[Any, Any, Any]:
    for name, structure, p in (("A", task.A, pA), ("M", task.B, pB)):
        require_finite(name, *leaves(structure.read(p)))
    dtype = np.result_type(*{numpy_dtype(x) for x in leaves((pA, pB))})
    A, B = (_on_numpy(assembled(s, p), leaves(pA)[0]) for s, p in ((task.A, pA), (task.B, pB)))
    m = task.k + others(task)
    start = asnumpy(aids[1])[:, 0] if task.start else direction(task.n)[:, 0].astype(dtype)
    lam, x = _vectors(task, pA, pB, A, B, m, start, dtype)
    if dtype.kind == "c":
        lam, x = _ritz(task, pA, pB, A, B, x)
    order = task.order(lam)
    lam, x = lam[order], x[:, order]
    r = A(x) - B(x) * lam
    size, doubt = np.linalg.norm(x, axis=0), np.linalg.norm(r, axis=0)
    z = direction(task.n).astype(dtype)
    allowed = max(np.finfo(dtype).eps ** 0.5, 10 * task.tol) * (np.linalg.norm(A(z)) / np.linalg.norm(z) * size + np.linalg.norm(A(x), axis=0))
    if not (doubt <= allowed).all():
        worst = int(np.argmax(doubt / allowed))
        raise ConvergenceError("arpack", 1, float(doubt[worst]), float(allowed[worst]), f"eigenpair {worst} is none of the matrix")
    return lam, x, doubt * size + np.finfo(dtype).eps * np.abs(lam)


def _on_numpy(product: Any, like: Array) -> Any:
    if type(like) is np.ndarray:
        return product
    xp = namespace(like)

    def call(x: Any) -> Any:
        return asnumpy(product(xp.asarray(np.ascontiguousarray(x), **(alike(like) | {"dtype": getattr(xp, x.dtype.name)}))))

    return call


def _vectors(task: Task, pA: Tree, pB: Tree, A: Any, B: Any, m: int, start: Any, dtype: Any) -> tuple[Any, Any]:
    operator = partial(_operator, task.n, dtype)
    metric: dict[str, Any] = {} if task.standard else {"M": operator(B)}
    if task.sigma is not None:
        F = pencil.shift_inverse(task.A, task.B, pA, pB, task.sigma)
        metric |= {"sigma": task.sigma, "OPinv": operator(F)}
    elif not task.standard:
        metric["Minv"] = operator(pencil.inverse(task.B, pB))
    try:
        found = linalg.eigsh(operator(A), m, which=task.which, v0=start, ncv=task.ncv, maxiter=task.maxiter, tol=task.tol, **metric)
    except linalg.ArpackNoConvergence as error:
        done = error.eigenvalues.shape[0]
        raise ConvergenceError("arpack", task.maxiter or 10 * task.n, None, task.tol, f"{done} of {m} eigenpairs") from None
    note("arpack")
    return found  # type: ignore[no-any-return]


def _operator(n: int, dtype: Any, product: Any) -> linalg.LinearOperator:
    return linalg.LinearOperator((n, n), lambda x: product(x.reshape(n, -1)).reshape(x.shape), dtype=dtype)


def _ritz(task: Task, pA: Tree, pB: Tree, A: Any, B: Any, x: Any) -> tuple[Any, Any]:
    """B-orthonormal pairs on the span of x, where ARPACK took the matrix for a general one: of A, or of F as it was iterated with."""
    x = np.linalg.qr(x)[0]
    Bx = B(x)
    Sx = A(x) if task.sigma is None else B(pencil.shift_inverse(task.A, task.B, pA, pB, task.sigma)(Bx))
    g, h = conj(x).T @ Bx, conj(x).T @ Sx
    try:
        nu, y = scipy.linalg.eigh((h + conj(h).T) / 2, (g + conj(g).T) / 2)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError("arpack", "x^H M x <= 0 for a vector x") from None
    return nu if task.sigma is None else task.sigma + 1 / nu, x @ y
