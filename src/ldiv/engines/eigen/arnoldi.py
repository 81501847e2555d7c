"""k pairs of any pencil A x = lam B x: Arnoldi with implicit restarts, by SciPy's ARPACK.

It iterates with (A - sigma B)^-1 B, by our own factor, whose eigenvalues are 1 / (lam - sigma), or
with B^-1 A. Small problems, and many of all pairs, are LAPACK's: all pairs, of which k are taken.
Reference: Lehoucq, Sorensen and Yang, ARPACK Users' Guide (1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse import linalg

from ldiv.core.arrays.shapes import alike, common_batch, each_on_host, eps, result_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure, matmul
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.eigen import shift_invert
from ldiv.engines.eigen.arpack_runs import checked_start, operator, require_pairs, run
from ldiv.engines.iterative.matrix_product import Product, assembled, on_numpy
from ldiv.errors import OF_INFINITE_EIGENVALUES, EngineError, SingularMatrixError, report
from ldiv.structures.identity import Identity

LARGEST = 200  # up to this size LAPACK finds all pairs
GUARD = 2  # pairs beyond those asked for: Arnoldi may find one before another that is wanted more
KEYS: dict[str, Callable[[Any], Any]] = {  # smaller is preferred
    "LM": lambda nu: -abs(nu),
    "SM": abs,
    "LR": lambda nu: -nu.real,
    "SR": lambda nu: nu.real,
    "LI": lambda nu: -nu.imag,
    "SI": lambda nu: nu.imag,
}


@dataclass(frozen=True)
class GeneralTask:
    """k pairs of A x = lam B x; `which` speaks of lam, or of 1 / (lam - sigma).

    The auxiliaries are a starting vector, and the unit in which sigma is an eigenvalue.
    """

    A: Structure
    B: Structure
    k: int
    which: str = "LM"
    sigma: complex | None = None
    method: str = "auto"
    tol: float = 0.0
    maxiter: int | None = None
    ncv: int | None = None
    start: bool = False

    @property
    def n(self) -> int:
        return self.A.order

    @property
    def on_host(self) -> bool:
        return self.A.on_host and self.B.on_host

    @property
    def standard(self) -> bool:
        return isinstance(self.B, Identity)

    @property
    def core(self) -> tuple[Tree, ...]:
        return self.A.core, self.B.core, (2 if self.start else (), () if self.sigma is None else 0)

    @property
    def all_pairs(self) -> bool:
        """Whether all pairs are computed: ARPACK finds fewer than n - 1."""
        many = self.k + 2 > self.n or self.n <= LARGEST or self.k > self.n // 4
        return self.method == "lapack" or (self.method == "auto" and many)

    def in_unit(self, unit: Any) -> GeneralTask:
        """Return the task with sigma in the unit of the eigenvalues, which is known."""
        return self if self.sigma is None else replace(self, sigma=self.sigma * float(unit))

    def order(self, lam: Any, real: bool) -> Any:
        """The indices of eigenvalues, those that are wanted most first; of a conjugate pair that
        with the positive imaginary part.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            # nu = 1 / (lam - sigma), in which ARPACK ranks; an infinite lam has nu = 0
            nu = (
                lam
                if self.sigma is None
                else np.where(lam == self.sigma, np.inf, 1 / (lam - self.sigma))
            )
            nu = np.where(np.isfinite(lam), nu, 0)
        if real:  # they are pairs, and ARPACK takes the size of their imaginary part
            nu = nu.real + 1j * abs(nu.imag)
        key = KEYS[self.which](nu)
        # by the key, then by the larger imaginary part: lexsort takes its last row first
        return np.lexsort((-lam.imag, _of_both(lam, key) if real else key))


def _of_both(lam: Any, key: Any) -> Any:
    """The same key for both of a conjugate pair, which rounding may tell apart."""
    up, down = np.flatnonzero(lam.imag > 0), np.flatnonzero(lam.imag < 0)
    if len(up) == 0:
        return key
    # the partner of each lam below the axis is the nearest conjugate above it
    distance = abs(lam[up, None] - lam[down].conj())
    partner = distance.argmin(axis=0)
    near = distance.min(axis=0) <= eps(lam) ** 0.5 * abs(lam[down])
    key = key.copy()
    key[down] = np.where(near, key[up[partner]], key[down])
    return key


def pairs(
    task: GeneralTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Array, Array]:
    """lam (*batch, k), X (*batch, n, k), complex, |x_j| = 1."""
    args = pA, pB, auxiliaries
    batch, dtype = common_batch(task.core, args), np.result_type(result_dtype(pA, pB), np.complex64)
    specs = (((*batch, task.k), dtype), ((*batch, task.n, task.k), dtype))
    if task.all_pairs:
        like = leaves(pA)[0]
        stored = (_dense(s, p, like) for s, p in ((task.A, pA), (task.B, pB))[: 2 - task.standard])
        unit = () if task.sigma is None else (auxiliaries[-1],)
        # the axes of each problem: two of A and of B, none of the unit
        core = (2,) * (2 - task.standard) + (0,) * len(unit)
        lam, x = each_on_host(partial(_by_lapack, task), core, (*stored, *unit), specs)
        return lam, x
    if task.on_host:
        lam, x = each_on_host(partial(_by_arpack, task), task.core, args, specs)
        return lam, x
    flat = leaves(args)
    if any(map(traced, flat)) or batch:
        raise EngineError(
            "arpack calls an operator with numbers, one problem at a time, and got "
            f"{'a batch' if batch else 'a trace (jit)'}: call eigs for each, outside of it."
        )
    lam, x = (
        namespace(flat[0]).asarray(y, **alike(flat[0], y.dtype)) for y in _by_arpack(task, *args)
    )
    return lam, x


def _dense(structure: Structure, p: Tree, like: Array) -> Array:
    """S(p), small."""
    require_finite("A", *leaves(structure.read(p)))
    return matmul(structure, p, namespace(like).eye(structure.shape[0], **alike(like)))


def _by_lapack(task: GeneralTask, a: Any, *rest: Any) -> tuple[Any, Any]:
    b = None if task.standard else rest[0]
    task = task if task.sigma is None else task.in_unit(rest[-1])
    # A X = B X Lam, U^H A = Lam U^H B
    lam, u, x = scipy.linalg.eig(a, b, left=True, check_finite=False)
    if task.sigma is None and not np.isfinite(lam).all():
        raise _infinite("LAPACK", "an infinite eigenvalue")
    best = task.order(lam, _is_real(task, a, *rest))[: task.k]
    lam, u, x = lam[best], u[:, best], x[:, best]
    # u_j^H B x_j with unit vectors: 1 / condition of lam_j
    _warn_of_conditions(lam, abs(np.sum(u.conj() * (x if b is None else b @ x), axis=0)), b)
    return lam, x


def _warn_of_conditions(lam: Any, angle: Any, b: Any) -> None:
    """|u_j^H B x_j| / |B| is 1 / condition: below eps^(2/3) an eigenvalue has a third of its digits."""
    size = 1.0 if b is None else np.linalg.norm(b)
    if len(poor := np.flatnonzero(angle <= eps(lam) ** (2 / 3) * size)):
        report(_far_from_normal(lam[poor[0]], angle[poor[0]] / size, poor[0]))


def _far_from_normal(value: Any, angle: Any, i: int) -> UserWarning:
    condition = 1 / angle if angle else np.inf
    return UserWarning(
        f"eigenvalue {i}, {value:.6g}, has the condition {condition:.0e}: it moves by so much more "
        "than the matrix, and rounding moves the matrix by eps |A|. The matrix is far from normal "
        "or the eigenvalue defective. Singular values (ldiv.svds) have condition 1, and what "
        "depends on the matrix smoothly does not need its eigenvalues: ldiv.expm_multiply, a solve."
    )


def _is_real(task: GeneralTask, *arrays: Any) -> bool:
    return np.result_type(*arrays).kind != "c" and not isinstance(task.sigma, complex)


def _by_arpack(
    task: GeneralTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Any, Any]:
    for name, structure, p in (("A", task.A, pA), ("M", task.B, pB)):
        require_finite(name, *leaves(structure.read(p)))
    task = task.in_unit(auxiliaries[-1])
    real = _is_real(task, result_dtype(pA, pB))
    dtype = result_dtype(pA, pB) if real else np.result_type(result_dtype(pA, pB), np.complex64)
    A, B = (on_numpy(assembled(s, p), leaves(pA)[0]) for s, p in ((task.A, pA), (task.B, pB)))
    product = _iterated(task, pA, pB, A, B)
    z = direction(task.n).astype(dtype)
    # ARPACK takes eigenvalues below eps^(2/3) for zero, and begins with a product, which removes the
    # null space: so the operator is scaled to size 1, and shifted a little
    size = np.linalg.norm(product(z)) / np.linalg.norm(z)
    # a power of two, so that the scaling rounds nothing
    unit = 2.0 ** -np.frexp(size or 1.0)[1]
    move = float(eps(z)) ** 0.75 if task.sigma is None else 0.0
    start = checked_start(asnumpy(auxiliaries[0]).astype(dtype) if task.start else z)
    start = start[:, 0] / np.abs(start).max()
    moved = operator(task.n, dtype, lambda y: product(y) * unit + move * y)
    # ARPACK finds at most n - 2 pairs
    k = min(task.k + GUARD, task.n - 2)
    nu, x = run(linalg.eigs, task, moved, k, task.which, start, task.tol)
    # nu of unit Op + move I, back to those of Op
    nu = (nu - move) / unit
    with np.errstate(divide="ignore"):
        lam = nu if task.sigma is None else task.sigma + 1 / nu
    x = x / np.linalg.norm(x, axis=0)
    Ax, size = A(x), np.linalg.norm(A(z)) / np.linalg.norm(z)
    # R = A X - B X Lam, |A| measured by its product with the random z
    residual = np.linalg.norm(Ax - B(x) * lam, axis=0)
    allowed = max(eps(z) ** 0.5, 10 * task.tol) * (size + np.linalg.norm(Ax, axis=0))
    require_pairs(residual, allowed)
    best = task.order(lam, real)[: task.k]
    return lam[best], x[:, best]


def _iterated(task: GeneralTask, pA: Tree, pB: Tree, A: Product, B: Product) -> Product:
    """y -> (A - sigma B)^-1 B y, or B^-1 A y."""
    if task.sigma is None:
        if task.standard:
            return A
        _require_factors(task.B, task.B, "M")
        # B need not be definite for B^-1 A
        try:
            inverse = shift_invert.inverse(task.B, pB, "gen")
        except SingularMatrixError as error:
            raise _infinite(error.engine, error.evidence) from error
        return lambda y: inverse(A(y))
    _require_factors(task.A, task.B, "A - sigma M")
    solve = shift_invert.shift_inverse(task.A, task.B, pA, pB, task.sigma, hermitian=False)
    return lambda y: solve(B(y))


def _infinite(engine: str, evidence: str) -> SingularMatrixError:
    return SingularMatrixError(engine, evidence, what="M", causes=OF_INFINITE_EIGENVALUES)


def _require_factors(A: Structure, B: Structure, what: str) -> None:
    if not (shift_invert.factors(A, B) and A.on_host and B.on_host):
        raise EngineError(
            f"eigs needs a factor of {what}, whose entries are not at hand: make them sparse."
        )
