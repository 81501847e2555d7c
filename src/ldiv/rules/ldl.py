"""A[order][:, order] = L D L^H (or L^T): L unit triangular, D with blocks of order 1 and 2.

A is read as its symmetric part; pivots are those of Bunch and Kaufman.
tangent      M = L^-1 dA L^-H,   dD = the blocks of M,   dL = L F,   F = strict(M) D^-1
cotangent    N = strict(L^H L_bar D^-H) + the blocks of D_bar;   A_bar = L^-H sym(N) L^-1
             strict(M) is the part below all blocks, or above them if L is upper. No equation
             divides by the last block
cost         1 factorization on the host forward; each direction 2 triangular solves and 2 products
reference    Bunch and Kaufman, Math. Comp. 31 (1977); the derivative as for LU

The order and the block structure are constant near A. If a block other than the last is zero,
there is no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import adjoint, each_on_host, numpy_dtype, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Traits, Unit
from ldiv.errors import NotDifferentiableError
from ldiv.rules.assertion import checked
from ldiv.rules.lu import rows
from ldiv.rules.triangular_quotients import congruence_solve, eye
from ldiv.structures.symmetric import symmetric_part
from ldiv.structures.triangular import triangular


@dataclass(frozen=True)
class LDL(Rescaled):
    """Argument (*batch, n, n); outputs L, D (*batch, n, n), order (*batch, n). `op` is H or T."""

    lower: bool = True
    op: str = "H"
    traits = Traits(name="ldl", differentiable=(True, True, False))
    core = (2,)
    units = (Unit((2,), (0, 2, 0), by=(0,)),)

    def kernel(self, a: Array) -> Arrays:
        require_finite("A", a)
        part = symmetric_part(a, self.op) if 0 not in a.shape else a
        shape, dtype = tuple(a.shape), numpy_dtype(a)
        specs = ((shape, dtype), (shape, dtype), (shape[:-1], np.dtype(np.int32)))
        triangle, d, inverse = each_on_host(
            partial(_factored, self.lower, self.op), self.core, (part,), specs
        )
        return triangle, d, namespace(inverse).argsort(inverse, axis=-1)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (L, D, order) = tangents, out
        D = checked(_pivots_of[self.lower], D)
        structure = triangular(L.shape[-1], self.lower, "unit")
        # M = L^-1 sym(dA[order][:, order]) op(L)^-1,  F = strict(M) D^-1
        M = congruence_solve(structure, L, self._symmetric(self._both(da, order)), self.op)
        F = _over_blocks(self._strict(M, D), D, self.lower)
        # dL = L F with L = I + inside(L),  dD = the blocks of M
        dL = F + self._inside(L) @ F
        return self._inside(dL), _blocks(M, D), order * 0

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (L_bar, D_bar, _), (L, D, order) = cotangents, out
        D = checked(_pivots_of[self.lower], D)
        N = 0 * L if D_bar is None else _blocks(D_bar, D)
        if L_bar is not None:
            L_bar = self._inside(L_bar)
            # N = strict(L^H L_bar D^-H) + the blocks of D_bar
            N = N + self._strict(
                _over_blocks(L_bar + adjoint(self._inside(L)) @ L_bar, adjoint(D), self.lower), D
            )
        # A_bar = L^-H sym(N) op(L^-H), with its rows and columns in the order of A again
        structure = triangular(L.shape[-1], self.lower, "unit").H
        return (
            self._both(
                congruence_solve(structure, L, self._symmetric(N), self.op),
                namespace(order).argsort(order, axis=-1),
            ),
        )

    def _both(self, x: Array, order: Array) -> Array:
        """X[order][:, order]."""
        return transpose(rows(transpose(rows(x, order)), order))

    def _symmetric(self, x: Array) -> Array:
        return (x + (adjoint(x) if self.op == "H" else transpose(x))) / 2

    def _inside(self, x: Array) -> Array:
        xp = namespace(x)
        return xp.tril(x, k=-1) if self.lower else xp.triu(x, k=1)

    def _strict(self, x: Array, d: Array) -> Array:
        """The part below all blocks (above them, if L is upper)."""
        return namespace(x).where(d == 0, self._inside(x), 0 * x)


# -- D: a number beside its diagonal marks a block of order 2 -----------------


def _blocks(x: Array, d: Array) -> Array:
    """X at the places of the blocks of D, zero elsewhere."""
    return namespace(x).where((d != 0) | (eye(d, d.shape[-1]) != 0), x, 0 * x)


def _beside(d: Array) -> tuple[Array, Array, Array, Array]:
    """Return for each column j: begins a block of order 2, lies in one, D[p, j], D[j, p].

    p is the other index of the block; outside of blocks of order 2 both numbers are 1.
    """
    xp = namespace(d)
    below, above = xp.linalg.diagonal(d, offset=-1), xp.linalg.diagonal(d, offset=1)
    none = xp.zeros_like(d[..., :1, 0])
    begins, ends = xp.concat([below, none], axis=-1) != 0, xp.concat([none, below], axis=-1) != 0
    within = xp.where(
        begins,
        xp.concat([below, none], axis=-1),
        xp.where(ends, xp.concat([none, above], axis=-1), 1 + none),
    )
    across = xp.where(
        begins,
        xp.concat([above, none], axis=-1),
        xp.where(ends, xp.concat([none, below], axis=-1), 1 + none),
    )
    return begins, begins | ends, within, across


def _over_blocks(x: Array, d: Array, lower: bool) -> Array:
    """X D^-1, where a last pivot that is zero counts as 1.

    A block of order 2 is divided by its large numbers, those beside the diagonal.
    """
    xp, n = namespace(d), d.shape[-1]
    if n == 0:
        return x
    # Column j of X D^-1 in a block {j, p}: (x_j d_p - x_p D_pj) / (d_j d_p - D_pj D_jp).
    # Both are divided by D_pj D_jp, the large numbers of such a block: products may overflow.
    begins, paired, within, across = _beside(d)
    pivots = xp.linalg.diagonal(d)
    pivots = xp.where(_is_last(d, lower) & (pivots == 0) & ~paired, 1 + 0 * pivots, pivots)
    # p is the next column where a block begins, else the one before: d_p / D_pj
    other = xp.where(begins, xp.roll(pivots, -1, axis=-1), xp.roll(pivots, 1, axis=-1)) / within
    # d_j d_p / (D_pj D_jp) - 1, or the pivot itself outside of blocks
    growth = xp.where(paired, pivots / across * other - 1, pivots)
    partner = xp.where(begins[..., None, :], xp.roll(x, -1, axis=-1), xp.roll(x, 1, axis=-1))
    two = (x * other[..., None, :] - partner) / across[..., None, :]
    return xp.where(paired[..., None, :], two, x) / growth[..., None, :]


def _is_last(d: Array, lower: bool) -> Array:
    """A row that is true at the pivot found last: the last of a lower L, the first of an upper."""
    n = d.shape[-1]
    return eye(d, n)[n - 1 if lower else 0] != 0


def _pivots(lower: bool, d: Array) -> None:
    if 0 in d.shape:
        return
    _, paired, _, _ = _beside(d)
    check_or_raise(
        ((namespace(d).linalg.diagonal(d) != 0) | paired | _is_last(d, lower)).all(), _no_derivative
    )


# made once: rules compare equal by their fields, and partial objects compare by identity
_pivots_of = {lower: partial(_pivots, lower) for lower in (True, False)}


def _no_derivative() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: LDL met a pivot that is exactly zero before the last one, "
        "so that L is not unique. Use ldiv.solve, ldiv.slogdet or ldiv.eigh."
    )


# -- on the host --------------------------------------------------------------


def _factored(lower: bool, op: str, a: Any) -> tuple[Any, ...]:
    """SciPy's factors of a matrix, and the inverse of its order.

    `argsort` of the inverse then gives the order in the integers of the caller's framework.
    """
    triangle, d, order = scipy.linalg.ldl(a, lower=lower, hermitian=op == "H")
    return triangle[order], d, np.argsort(order)


def cases(structures: Any, draw: Any) -> Cases:
    for lower, op, batch in (
        (True, "H", ()),
        (False, "H", (1,)),
        (True, "T", (1,)),
        (False, "T", (1,)),
        (True, "H", (3,)),
    ):
        a = draw(*batch, 5, 5) - np.diag([9.0, 0, 0, 0, 0])
        yield LDL(lower, op), (a + (np.conj(a.mT) if op == "H" else a.mT),)
