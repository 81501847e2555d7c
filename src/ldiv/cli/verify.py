"""One derivative of L = Re c^H A^-1 b along a random (dA, db), twice: by the adjoint, and by a
complex step.

    adjoint         dL = Re <A_bar, dA> + Re <b_bar, db>,  with A_bar = -lam x^H on the pattern, b_bar = lam = A^-H c
    complex step    dL = Im L(A + ih dA, b + ih db) / h,   h = 1e-20: no difference is taken, so it is exact up to rounding

The error is relative to the size that dL has for a typical direction. An error is allowed if
rounding explains it, to first order. The residuals r of x and s of lam move dL by
Re(mu^H r + s^H dx), with dx = A^-1 (db - dA x) and mu = -A^-H dA^H lam. This bound feels the
condition of this derivative, and no scaling of rows and columns; cond(A) would excuse anything in a
badly scaled matrix. References: Squire and Trapp, SIAM Rev. 40 (1998); Becker and Rannacher, Acta
Numerica 10 (2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from ldiv.checker import findings
from ldiv.checker.outputs import largest
from ldiv.core.arrays.typing import Assumption
from ldiv.core.arrays.validate import common_precision
from ldiv.core.frameworks.trees import HostArray
from ldiv.derivatives.vjp_jvp import vjp
from ldiv.engines import registry
from ldiv.engines.accuracy.norm_estimate import one_norm
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.iterative.options import Options
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.assumptions import promised
from ldiv.matrices.construct import asarray
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray

R = TypeVar("R")
STEP = 1e-20
SAFETY = 10  # times the first-order bound: the complex step rounds too
UNCERTAIN = 0.1  # a check that allows more than this says nothing

# the matrix that a promise reads, linear in what is stored
PART: dict[str, Callable[[Any], Any]] = {
    "gen": lambda m: m,
    "tridiagonal": lambda m: m,
    "diagonal": lambda m: sp.diags_array(m.diagonal()),
    "sym": lambda m: 0.5 * (m + m.T),
    "her": lambda m: 0.5 * (m + m.conj().T),
    "pos": lambda m: 0.5 * (m + m.conj().T),
    "lower triangular": sp.tril,
    "upper triangular": sp.triu,
}


@dataclass(frozen=True)
class Findings:
    """The results of a check; times in seconds, errors and residuals relative."""

    n: int
    nnz: int
    columns: int
    dtype: str
    engine: str
    iterates: bool
    ordering: float
    factor: float
    solve: float
    adjoint: float
    error: float
    allowed: float
    residual: float
    asymmetry: float
    condition: float
    looks: str  # what the error looks like, if there is one

    @property
    def failure(self) -> str | None:
        """None, or the sentence that says why the gradient cannot be trusted."""
        if not self.allowed < UNCERTAIN:
            return f"rounding alone may change the gradient by {self.allowed:.1e} of its size: no digit of it is certain. Regularize the model."
        if not self.error <= self.allowed:
            words = f"the gradient is off by {self.error:.1e} of its size, and rounding explains {self.allowed:.1e} at the most"
            return words + f": {self.looks}" * bool(self.looks) + "."
        return None


def verify(A: Matrix, b: HostArray | None, assume_a: Assumption, method: str) -> Findings:
    """Solve A x = b, or with a random b, and check the gradient; one that underflows allows any
    error, and so fails.
    """
    with np.errstate(all="ignore"):
        return _verify(A, b, assume_a, method)


def _verify(A: Matrix, b: HostArray | None, assume_a: Assumption, method: str) -> Findings:
    rng = np.random.default_rng(0)
    p, b = common_precision(A.params, _normal(rng, A.shape[:1], A.params.dtype) if b is None else b)
    A = A.with_data(p) if isinstance(A, SparseArray) else Matrix(A.structure, p)
    dp = _normal(rng, p.shape, p.dtype) * _sizes(A)
    db = (_normal(rng, b.shape, b.dtype) * largest(b)).astype(b.dtype)
    c = _normal(rng, b.shape, np.result_type(p, b))

    engine, iterates, ordering = _order(A, assume_a, method)
    # What an iteration finds is judged with the factors of a direct engine, and may be off by its
    # tolerance.
    factorization, factor = _timed(
        lambda: factorized(A, assume_a=assume_a, method="direct" if iterates else method)
    )
    tolerance = Options().tolerance(np.result_type(p, b)) if iterates else 0.0
    (x, pullback), solving = _timed(
        lambda: vjp(partial(solve, assume_a=assume_a, method=method), A, b)
    )
    (A_bar, b_bar), adjoint = _timed(lambda: pullback(c))

    pair = ([A_bar.params, b_bar], [dp, db])
    size = np.linalg.norm(
        np.concatenate([(np.conj(g) * d).real.ravel() for g, d in zip(*pair, strict=True)])
    )
    M, dM = (PART[assume_a](_scipy(A, values)).tocsr() for values in (p, dp))
    slope = complex_step(M, dM, b, db, c, dense=not isinstance(A, SparseArray))
    allowed = max(
        np.finfo(p.dtype).eps ** 0.5,
        SAFETY * _rounding(factorization, M, dM, b, db, c, x, tolerance) / size,
    )
    judged = findings.found(
        "vjp", "A and b", [""], [pair], slope, allowed * size, size, 0.0, [A, b_bar]
    )
    return Findings(
        n=A.shape[0],
        nnz=p.size,
        columns=b.size // len(b),
        dtype=p.dtype.name,
        engine=engine,
        iterates=iterates,
        ordering=ordering,
        factor=factor,
        solve=solving,
        adjoint=adjoint,
        error=float(abs(judged.got[0] - slope) / size),
        allowed=allowed,
        residual=float(np.abs(b - M @ x).max() / largest(abs(M) @ np.abs(x) + np.abs(b))),
        asymmetry=0.0
        if assume_a.endswith(("triangular", "diagonal"))
        else float(2 * abs(M - _scipy(A, p)).max() / abs(M).max()),
        condition=_condition(factorization, M),
        looks=judged.looks,
    )


def complex_step(
    M: Any, dM: Any, b: HostArray, db: HostArray, c: HostArray, dense: bool = False
) -> float:
    """d/dh Re c^H (M + h dM)^-1 (b + h db) at h = 0, with a new factorization that makes use of no
    promise, in double precision.

    A complex system is solved as the real one of twice the size, [[Re, -Im], [Im, Re]]: then
    nothing is conjugated.
    """
    if any(np.iscomplexobj(a) for a in (M, b)):
        M, dM = (sp.block_array([[a.real, -a.imag], [a.imag, a.real]]) for a in (M, dM))
        b, db, c = (np.concatenate([a.real, a.imag]) for a in (b, db, c))
    stepped = (M.astype(np.complex128) + 1j * STEP * dM).tocsc()
    x = solve(stepped.toarray() if dense else asarray(stepped), b + 1j * STEP * db)
    return float((c * x.imag).sum() / STEP)


def _rounding(
    factorization: Factorized,
    M: Any,
    dM: Any,
    b: HostArray,
    db: HostArray,
    c: HostArray,
    x: HostArray,
    tolerance: float,
) -> float:
    """|mu|^T |r| + |s|^T |dx|, where each residual counts with the rounding of its own
    evaluation, and s with the tolerance of an iteration.
    """
    H, lam = M.conj().T, factorization.solve(c, "H")
    dx, mu = factorization.solve(db - dM @ x), factorization.solve(dM.conj().T @ lam, "H")
    eps = np.finfo(M.dtype).eps
    r = np.abs(b - M @ x) + eps * (abs(M) @ np.abs(x) + np.abs(b))
    s = (
        np.abs(c - H @ lam)
        + eps * (abs(H) @ np.abs(lam) + np.abs(c))
        + tolerance * np.linalg.norm(c, axis=0)
    )
    return float((np.abs(mu) * r).sum() + (s * np.abs(dx)).sum())


def _condition(factorization: Factorized, M: Any) -> float:
    """|M|_1 |M^-1|_1, the second estimated from a few solves."""
    return float(abs(M).sum(axis=0).max()) * one_norm(
        M.shape[0], M.dtype, factorization.solve, lambda v: factorization.solve(v, "H")
    )


def _order(A: Matrix, assume_a: str, method: str) -> tuple[str, bool, float]:
    """The engine's name, whether it iterates, and the seconds of its symbolic work, which is
    kept where `factorization` looks for it.
    """
    structure, p = promised(A, assume_a)
    base, _ = structure.unview()
    engine = registry.choose(base, p.dtype, "cpu", "pos" if assume_a == "pos" else "gen", method)
    name = engine.__name__.rpartition(".")[2]
    if registry.is_iterative(engine):
        return name, True, 0.0
    _, seconds = _timed(lambda: symbolic(engine, base))
    return name, False, seconds


def _timed(f: Callable[[], R]) -> tuple[R, float]:
    start = perf_counter()
    return f(), perf_counter() - start


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> HostArray:
    draw = rng.standard_normal(shape)
    return (draw + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else draw).astype(
        dtype
    )


def _positions(A: Matrix) -> Any:
    """The row and the column of every parameter."""
    return (A.row, A.col) if isinstance(A, SparseArray) else np.indices(A.shape)


def _scipy(A: Matrix, values: HostArray) -> Any:
    """The SciPy matrix that has these values where A has its parameters."""
    row, col = _positions(A)
    return sp.coo_array((values.ravel(), (row.ravel(), col.ravel())), shape=A.shape)


def _sizes(A: Matrix) -> HostArray:
    """The step of each entry: its own size, or for a stored zero the smaller one of the largest
    entries of its row and column.
    """
    size, (row, col) = np.abs(A.params), _positions(A)
    in_row, in_col = np.zeros((2, A.shape[0]), size.dtype)
    np.maximum.at(in_row, row, size)
    np.maximum.at(in_col, col, size)
    return np.where(size == 0, np.minimum(in_row[row], in_col[col]), size)
