"""A[order] = L U with partial pivoting, or none, packed as tril(L, -1) + U.

A is m x n, k = min(m, n), L = [L1; L2], U k x n, U11 = U[:k-1, :k-1].
tangent      E = L1^-1 dA[order][:k],   F = tril(E[:, :k-1] U11^-1, -1);
             dU = E - F U,   dL1 = L1 F,   dL2 = (dA[order][k:] - L2 dU) U^-1
cotangent    A2 = L2_bar U^-H,   Ub = triu(U_bar - L2^H A2),   Phi = tril(L1^H L1_bar - Ub U^H, -1);
             A_bar[order] = [L1^-H (Ub + [Phi[:, :k-1] U11^-H, 0]); A2]
             no equation divides by the last pivot, unless m > n
cost         1 factorization forward; each direction 2 triangular solves and 1 product
reference    de Hoog, Anderssen, Lukas, Linear Algebra Appl. 434 (2011); Murray, arXiv:1602.07527

The row order is constant near A. If only the last pivot is zero a derivative exists; if an earlier
one is, or any of a tall matrix, there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, batch_of, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace, on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases, Rule, Traits
from ldiv.engines.accuracy.scaling import balanced, unbalanced
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.triangle_calls import LUCalls
from ldiv.errors import EngineError, NotDifferentiableError
from ldiv.rules.assertion import checked
from ldiv.rules.row_order import row_order
from ldiv.rules.triangular_algebra import product
from ldiv.rules.triangular_quotients import left_solve, lower, right_solve, upper

BLOCK = 64  # columns that are eliminated together, where nothing is exchanged


@dataclass(frozen=True)
class LU(Rule):
    """Argument (*batch, m, n); outputs packed (*batch, m, n), exchanges, order (*batch, m).

    The exchanges (*batch, k) are SciPy's `piv`; A[order] are the rows after all of them.
    """

    pivot: bool = True

    traits = Traits(differentiable=(True, False, False), on_host=True, only_refuses=True)
    core = (2,)

    def operation(self) -> Compiled | None:
        return _COMPILED if self.pivot else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.lu(*flat) if self.pivot else None

    def kernel(self, a: Array) -> Arrays:
        require_finite("A", a)
        a, t = balanced(a)
        if self.pivot:
            packed, exchanges = _packed(a)
        else:
            packed, exchanges = _in_given_order(a)
        # t^2 A = L (t^2 U) for one power of two t of each member: only U is scaled back
        if t is not None:
            packed = namespace(a).tril(packed, k=-1) + unbalanced(namespace(a).triu(packed), t)
        return packed, exchanges, row_order(exchanges, a.shape[-2])

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (packed, exchanges, order) = tangents, out
        packed, xp = _regular(packed), namespace(packed)
        k = min(packed.shape[-2:])
        L1, U, da = packed[..., :k, :k], xp.triu(packed[..., :k, :]), rows(da, order)
        # E = L1^-1 dA[order][:k],  F = tril(E[:, :k-1] U11^-1, -1)
        E = left_solve(*lower(L1, unit=True), da[..., :k, :])
        # the last column of F is zero: a unit lower triangle has nothing below its last pivot
        F = xp.concat(
            [xp.tril(_over_leading(E, packed), k=-1), xp.zeros_like(L1[..., :1])], axis=-1
        )
        # dU = E - F U,  dL1 = L1 F with L1 = I + strict(L1)
        dU = xp.triu(E - F @ U)
        dL1 = xp.tril(xp.tril(L1, k=-1) @ F + F, k=-1)
        first = xp.concat([dU[..., :k] + dL1, dU[..., k:]], axis=-1)
        if packed.shape[-2] == k:
            return first, exchanges * 0, order * 0
        # dL2 = (dA[order][k:] - L2 dU) U^-1
        dL2 = right_solve(da[..., k:, :] - packed[..., k:, :] @ dU, *upper(packed[..., :k, :]))
        return xp.concat([first, dL2], axis=-2), exchanges * 0, order * 0

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (bar, *_), (packed, _, order) = cotangents, out
        packed, xp = _regular(packed), namespace(packed)
        k = min(packed.shape[-2:])
        L1, U, Ub = packed[..., :k, :k], xp.triu(packed[..., :k, :]), xp.triu(bar[..., :k, :])
        tall = packed.shape[-2] > k
        if tall:
            # A2 = L2_bar U^-H,  Ub = triu(U_bar - L2^H A2)
            A2 = right_solve(bar[..., k:, :], _triangle_of(U).H, U)
            Ub = xp.triu(Ub - adjoint(packed[..., k:, :]) @ A2)
        strict, Lb = (xp.tril(x[..., :k, :k], k=-1) for x in (L1, bar))
        # Phi = tril(L1^H Lb - Ub U^H, -1) with L1^H = I + strict^H; of the upper Ub and U
        # `product` takes the adjoints, which are lower
        Phi = (
            Lb
            + product("HN", strict, Lb)
            - product("HN", adjoint(Ub[..., :k]), adjoint(U[..., :k]))
        )
        # the columns behind the square part of a wide U are terms of Ub U^H, too
        if packed.shape[-1] > k:
            Phi = Phi - Ub[..., k:] @ adjoint(U[..., k:])
        # only the strict lower triangle of L is free
        Phi = xp.tril(Phi, k=-1)
        # Eb = Ub + [Phi[:, :k-1] U11^-H, 0]
        inner = _over_leading(Phi, packed, "H")
        Eb = xp.concat([Ub[..., : k - 1] + inner, Ub[..., k - 1 :]], axis=-1) if k else Ub
        # A_bar[order] = [L1^-H Eb; A2]: its rows go back by the inverse of the order
        triangle, p = lower(L1, unit=True)
        first = left_solve(triangle.H, p, Eb)
        return (
            rows(xp.concat([first, A2], axis=-2) if tall else first, xp.argsort(order, axis=-1)),
        )


_COMPILED = LUCalls()


def rows(x: Array, order: Array) -> Any:
    """X[order], for each matrix of a batch."""
    if x.ndim == 2:  # PyTorch's take_along_axis would broadcast the order to all columns first
        return namespace(x).take(x, order, axis=0)
    return namespace(x).take_along_axis(x, order[..., None], axis=-2)


def _triangle_of(U: Array) -> Any:
    return upper(U)[0]


def _over_leading(x: Array, packed: Array, op: str = "N") -> Array:
    """X[:, :k-1] op(U11)^-1."""
    k = min(packed.shape[-2:])
    # U11 leaves out the last pivot, which may be zero
    structure, p = upper(packed[..., : max(k - 1, 0), : max(k - 1, 0)])
    return right_solve(x[..., : max(k - 1, 0)], structure.view(op), p)


# -- where no derivative exists -----------------------------------------------


def _regular(packed: Array) -> Array:
    """The factors, after the check that they have a derivative."""
    return checked(_pivots, packed)


def _pivots(packed: Array) -> None:
    m, n = packed.shape[-2:]
    pivots = namespace(packed).linalg.diagonal(packed)
    # of a tall matrix dL2 divides by all of U, and so by the last pivot, too
    check_or_raise(((pivots if m > n else pivots[..., :-1]) != 0).all(), _no_derivative)


def _no_derivative() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: LU met a pivot that is exactly zero before the last column "
        "(of a tall matrix: in any column). The leading columns depend "
        "on one another, and L is not unique. "
        "Use ldiv.solve, ldiv.slogdet or ldiv.qr of another order of the columns."
    )


# -- on the host --------------------------------------------------------------


def _packed(a: Array) -> Arrays:
    """L and U in one array, and SciPy's row exchanges."""
    return (frontend_of(a).dense.lu_pivoted or _lu_on_host)(a)


def _lu_on_host(a: Array) -> Arrays:
    """Factor on the host by NumPy's front end, for frameworks that have no pivoted LU."""
    specs = (
        (tuple(a.shape), numpy_dtype(a)),
        ((*batch_of(a, 2), min(a.shape[-2:])), np.dtype(np.int32)),
    )
    return on_host(_packed, specs, a)


# -- without exchanges --------------------------------------------------------


def _in_given_order(a: Array) -> Arrays:
    """Packed factors, and exchanges of each row with itself."""
    batch, k = batch_of(a, 2), min(a.shape[-2:])
    specs = ((tuple(a.shape), numpy_dtype(a)), ((*batch, k), np.dtype(np.int32)))
    return on_host(_eliminated, specs, a)


def _eliminated(a: Any) -> tuple[Any, Any]:
    """Elimination in blocks of columns; entries that grow have lost their digits, and are refused."""
    x, (m, n) = a.copy(), a.shape[-2:]
    k = min(m, n)
    with np.errstate(all="ignore"):
        # right-looking by panels: L of the panel, then the rows U12, then the Schur complement
        for start in range(0, k, BLOCK):
            end = min(start + BLOCK, k)
            for j in range(start, end):
                pivot, below = x[..., j, j, None], x[..., j + 1 :, j]
                np.divide(below, pivot, out=below, where=below != 0)  # nothing to eliminate
                # a_ij -= l_i u_j, in the columns of the panel alone
                x[..., j + 1 :, j + 1 : end] -= below[..., None] * x[..., j, None, j + 1 : end]
            # U12 = L11^-1 A12, row by row
            for i in range(start + 1, end):
                x[..., i, end:] -= (x[..., i, None, start:i] @ x[..., start:i, end:])[..., 0, :]
            # A22 -= L21 U12
            x[..., end:, end:] -= x[..., end:, start:end] @ x[..., start:end, end:]
        L, U = np.tril(x[..., :k], -1) + np.eye(m, k, dtype=x.dtype), np.triu(x[..., :k, :])
        # backward error max |L U - A| / max |A|: growth of the entries appears here
        lost = abs(L @ U - a).max(initial=0) / (abs(a).max(initial=0) or 1)
    if not lost <= np.sqrt(np.finfo(x.dtype).eps):
        came = "a pivot that is 0" if not np.isfinite(lost) else f"an error of {lost:.0e} in L U"
        raise EngineError(
            f"lu(pivot=False) found {came}: without exchanges of rows this matrix has no LU "
            "factorization that is accurate, though it may be regular. Leave pivot at True."
        )
    exchanges = np.broadcast_to(np.arange(k, dtype=np.int32), (*a.shape[:-2], k)).copy()
    return x, exchanges


def cases(structures: Any, draw: Any) -> Cases:
    yield LU(), (draw(5, 3),)
    for m, n in ((4, 4), (3, 5), (1, 1)):
        yield LU(), (draw(2, m, n),)
    singular = draw(1, 3, 3)
    singular[:, 2] = 0.7 * singular[:, 0] - 0.4 * singular[:, 1]
    yield LU(), (singular,)
    for m, n in ((4, 4), (5, 3), (3, 4)):
        yield LU(pivot=False), (draw(2, m, n) + 4 * np.eye(m, n),)
