"""Dense: A = X Lam X^-1 in full, by the array's own namespace.

With B = L L^H, the standard problem of L^-1 A L^-H, and X = L^-H Y. All n pairs are known, so that
the deflated systems of the derivative are solved in closed form.
Reference: Golub and Van Loan, sections 8.3 and 8.7.
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import alike, conj, eps, numpy_dtype, real, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure, matmul
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.eigen.task import EigenTask
from ldiv.errors import NotPositiveDefiniteError
from ldiv.structures.asymmetry import refuse_asymmetry, refuse_defect
from ldiv.structures.composed import is_dense
from ldiv.structures.symmetric import Symmetric

RANK = 10
ON_HOST = False
LARGEST = 200  # sparse matrices and operators up to this size are made dense
INSIDE = 1000  # the same, for pairs inside of the spectrum, which no other engine finds
DENSE = 1500  # dense matrices up to this size are preferred here if few of many pairs are wanted


def supports(task: EigenTask, dtype: Any, device: str) -> str | None:
    all_dense = is_dense(task.A) and (task.standard or is_dense(task.B))
    largest = DENSE if all_dense else INSIDE if task.which == "index" else LARGEST
    few = task.k + task.guard < task.n // 4  # of many the vectors alone are as large as the matrix
    if task.method == "lapack" or task.n <= largest or not few:
        return None
    return f"finds all pairs of a dense matrix; {task.n} is too large for a few of them"


def guard_pairs(task: EigenTask) -> int:
    return task.n - task.k


def pairs(
    task: EigenTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Array, Array, Array]:
    like = leaves(pA)[0]
    a = hermitian("A", task.A, pA, like, task.standard)
    b = None if task.standard else hermitian("M", task.B, pB, like, False)
    # t^2 A x = (lam t^2 / s^2) s^2 B x, with matrices whose entries are near 1
    t = balance(magnitude(a, axis=(-2, -1)))
    s = t / t if b is None else balance(magnitude(b, axis=(-2, -1)))
    a, b = a * t * t, None if b is None else b * s * s
    # (t^2 A) x = mu (s^2 B) x, so lam = mu s^2 / t^2: one factor at a time does not overflow
    lam, x = _standard(a) if b is None else _generalized(a, b)
    xp, t, q = namespace(a), t[..., 0], s[..., 0]
    if task.which != "index" or task.k < task.n:  # else all, which ascend
        unit = 1 if task.sigma is None else auxiliaries[-1][..., None]
        order = task.order(lam / t * q / t * q / unit)
        # the unit may have a batch of its own
        lam = xp.broadcast_to(lam, order.shape)
        x = xp.broadcast_to(x, (*order.shape[:-1], *x.shape[-2:]))
        lam = xp.take_along_axis(lam, order, axis=-1)
        x = xp.take_along_axis(x, order[..., None, :], axis=-1)
    lam, error_bound = (y / t * q / t * q for y in (lam, _error_bound(task, a, b, lam, x)))
    return lam, x * s, error_bound


def hermitian(name: str, structure: Structure, p: Tree, like: Array, standard: bool) -> Array:
    """S(p) as a dense array, which must be Hermitian up to rounding.

    That is rounding in each row and column, as those of a pencil may have units of their own; the
    eigenvalues of one matrix are uncertain by that of its largest entry in any case.
    """
    require_finite(name, *leaves(structure.read(p)))
    xp = namespace(like)
    # check the base: the Hermitian part would always pass
    given = structure.base if isinstance(structure, Symmetric) else structure
    if is_dense(structure):
        a = given.todense(p)
    else:  # small: column by column
        a = matmul(given, p, xp.eye(given.shape[0], **alike(like)))
    mirror = conj(transpose(a))
    if standard:
        refuse_defect(_largest(a - mirror), _largest(a), numpy_dtype(a), "H")
    else:
        refuse_asymmetry(a, mirror, "H")
    # (A + A^H) / 2, halved before the sum, which could overflow
    return a / 2 + mirror / 2


def _largest(a: Array) -> Array:
    """The largest |a_ij| of each matrix, zero if it has no entries."""
    xp = namespace(a)
    return (
        xp.max(xp.abs(a), axis=(-2, -1))
        if 0 not in a.shape[-2:]
        else xp.zeros(tuple(a.shape[:-2]), **alike(real(a)))
    )


def _standard(a: Array) -> tuple[Array, Array]:
    result: tuple[Array, Array] = frontend_of(a).dense.eigh(a)
    return result


def _generalized(a: Array, b: Array) -> tuple[Array, Array]:
    frontend = frontend_of(a, b)
    l, ok = frontend.dense.cholesky(b)
    check_or_raise(
        ok, lambda: NotPositiveDefiniteError("LAPACK", "that M of A x = lambda M x is not")
    )
    # half = L^-1 A;  c = L^-1 half^H = L^-1 A L^-H, as A is Hermitian
    half = frontend.dense.solve_triangular(l, a, True)
    c = frontend.dense.solve_triangular(l, conj(transpose(half)), True)
    # C Y = Y Lam,  X = L^-H Y
    lam, y = _standard((c + conj(transpose(c))) / 2)
    return lam, frontend.dense.solve_triangular(conj(transpose(l)), y, False)


def _error_bound(task: EigenTask, a: Array, b: Array | None, lam: Array, x: Array) -> Array:
    """Error bounds from residuals of the wanted pairs; the other pairs only serve the derivative."""
    xp, k = namespace(a), task.k
    y = x[..., :k]
    # R = A X - B X Lam for the wanted pairs
    r = xp.matmul(a, y) - (y if b is None else xp.matmul(b, y)) * lam[..., None, :k]
    rounding = eps(a) * xp.max(xp.abs(lam), axis=-1, keepdims=True)
    wanted = xp.linalg.vector_norm(r, axis=-2) * xp.linalg.vector_norm(y, axis=-2)
    return xp.concat([wanted, xp.zeros_like(lam[..., k:])], axis=-1) + rounding
