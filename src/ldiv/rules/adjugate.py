"""B = adj(A), the derivative of det A, which every matrix has, singular ones too.

tangent      that of the formulas below, which are made of rules
cotangent    likewise
cost         the inverse of A, with the factor of det A, or of a matrix little larger
reference    Magnus and Neudecker, Matrix Differential Calculus, chapter 8

adj(A) = det(A) A^-1 where A is regular. Else A is bordered by r columns and rows, the singular
vectors of its least singular values,
    K = [[A, U], [V^H, 0]],   K^-1 = [[X, Y], [Z^H, C]],   det A = det(K) det(C),
which is regular where the rank of A is at least n - r, and
    adj(A) = det(K) (det(C) X - Y adj(C) Z^H).
Where more than r singular values vanish, so do all derivatives of det A up to order r: there adj(A)
is `Vanishing` up to order r - 1.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import permutations
from operator import mul
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    adjoint,
    alike,
    astype,
    batch_of,
    eps,
    factors,
    numpy_dtype,
    spread,
    unit_columns,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, frontend_of, namespace, numbers, traced
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.policies.errstate import errstate, singular_state
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.rule import Rule, Traits, bind
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.factors.dense_programs import dense_programs
from ldiv.errors import LinAlgOverflowError, SingularMatrixError
from ldiv.rules.inverse import Inverse
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.rules.vanishing import Vanishing
from ldiv.structures.dense import dense

BORDER = 3  # r
SMALL = 1000  # roundings, n eps |A|, below which a singular value vanishes


@dataclass(frozen=True)
class Adjugate(Rule):
    """Arguments A (*batch, n, n) and its determinant (*batch,); output like A. A compiled program
    has one call for it.
    """

    core = (2, 0)
    # its derivatives are those of a function, which NumPy does not record
    traits = Traits(name="the derivative of det", only_refuses=True)

    def program(self, *flat: Any) -> CompiledCall | None:
        programs = dense_programs(dense(*flat[0].shape[-2:]), "gen", "auto")
        return None if programs is None else programs.adjugate(self.policy, flat[0])

    def kernel(self, *args: Tree) -> Arrays:
        return (adjugate(*args),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        moved = tuple([0 * x if dx is None else dx for x, dx in zip(args, tangents, strict=True)])
        return (frontend_of(*args).user.jvp(adjugate, args, moved)[1],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        found: Trees = frontend_of(*args).user.vjp(adjugate, args)[1](cotangents[0])
        return found


def adjugate(a: Array, d: Array) -> Array:
    """adj(A), d = det A, by rules."""
    # adj of a number is 1; 0 * a keeps it in the graph
    if a.shape[-1] == 1:
        return 0 * a + 1
    # no error names a singular member, and no number can be read: K serves regular members, too
    if singular_state() == "nan" and not traced(a) and numbers(constant(a)) is None:
        return _bordered(a)
    if not traced(a):
        with suppress(SingularMatrixError, LinAlgOverflowError):
            inverse = _inverse(a)
            if singular_state() != "nan" or _is_finite(inverse):
                return _by_inverse(a, d, inverse)
    return _by_members(a, d)


def _inverse(a: Array) -> Array:
    return bind(Inverse(dense(*a.shape[-2:])), a)[0]


def _by_inverse(a: Array, d: Array, inverse: Array) -> Array:
    """det(A) A^-1, though det A may be smaller than its dtype can hold."""
    xp, n = namespace(a), a.shape[-1]
    known = numbers(constant(d))
    if known is not None and not np.any(abs(known) < np.finfo(known.dtype).tiny):
        return factors(d) * inverse
    sign, size = bind(SLogDet(dense(n, n)), a)
    # det A = sign exp(l / 2)^2: det A may underflow where det(A) A^-1 does not
    half = factors(xp.exp(size / 2))
    halved = inverse * half * factors(sign) * half
    is_small = factors(xp.abs(constant(d)) < float(np.finfo(numpy_dtype(d)).tiny))
    return xp.where(is_small, halved, factors(d) * inverse)


def _by_members(a: Array, d: Array) -> Array:
    """adj(A) by the inverses of those members that have one, and by bordered matrices of others."""
    xp = namespace(a)
    with errstate(singular="nan"):
        has = xp.all(xp.isfinite(_inverse(constant(a))), axis=(-2, -1), keepdims=True)
    # the identity takes the place of singular members: 0 * inf would be NaN in derivatives
    one = xp.eye(a.shape[-1], **alike(a))
    regular = xp.where(has, a, one)
    known = xp.where(has[..., 0, 0], d, xp.ones_like(d))
    found = _by_inverse(regular, known, _inverse(regular))
    return xp.where(has, found, _bordered(xp.where(has, one, a), xp.all(has)))


def _bordered(a: Array, is_identity: Any = False) -> Array:
    """adj(A) by r rows and columns more; a trace learns whether it is asked about the identity alone."""
    n, xp, batch = a.shape[-1], namespace(a), batch_of(a, 2)
    r = min(BORDER, n)
    m = n + r
    least = partial(_least, constant(a), r)
    border = spread(xp.eye(n, **alike(a))[:, n - r :], batch)
    if traced(a):
        no = xp.zeros((*batch, 1, 1), dtype=xp.bool)
        u, v, low = frontend_of(a).either(is_identity, lambda: (border, border, no), least)
    else:
        u, v, low = least()
    # where more than r singular values vanish adj(A) is 0, and the identity and r of its columns
    # stand for A and the borders, which need not fit to the identity
    lowest = bind(Vanishing(BORDER - 1), a, astype(low, numpy_dtype(a)))[0] if n > BORDER else 0 * a
    a, u, v = (
        xp.where(low, x, y) for x, y in ((xp.eye(n, **alike(a)), a), (border, u), (border, v))
    )
    # adj(t^2 A) = t^(2 (n - 1)) adj(A)
    t = balance(magnitude(constant(a), (-2, -1)))
    a = a * t * t  # numbers near 1
    zero = xp.zeros((*batch, r, r), **alike(a))
    rows = [xp.concat([a, u], axis=-1), xp.concat([adjoint(v), zero], axis=-1)]
    K = xp.concat(rows, axis=-2)
    inverse = solve(dense(m, m), K, unit_columns(a, m, range(m)))
    X, Y = inverse[..., :n, :n], inverse[..., :n, n:]
    # K^-1 = [[X, Y], [Z, C]]: Z is the Z^H of the header
    Z, C = inverse[..., n:, :n], inverse[..., n:, n:]
    sign, size = bind(SLogDet(dense(m, m)), K)
    whole = factors(sign * xp.exp(size))
    of_c, adj_c = _by_definition(C)
    unit = t ** (n - 1)
    # adj(A) = det(K) (det(C) X - Y adj(C) Z)
    adj = whole * (factors(of_c) * X - Y @ adj_c @ Z) / unit / unit
    return xp.where(low, lowest, adj)


def _least(a: Array, r: int) -> tuple[Array, Array, Array]:
    """The singular vectors of the r least singular values; and whether more than these vanish, by
    member (*batch, 1, 1).
    """
    n, xp = a.shape[-1], namespace(a)
    finite = xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    # singular values of NaN are an error of some frameworks
    u, s, vh = frontend_of(a).dense.svd(xp.where(finite, a, xp.zeros_like(a)))
    s = s[..., None, :]
    # the BORDER + 1 least singular values: where all of them vanish r columns are too few
    vanishes = s[..., -BORDER - 1 :] <= SMALL * n * eps(s) * s[..., :1]
    low = finite & xp.all(vanishes, axis=-1, keepdims=True) & (n > BORDER)
    return u[..., n - r :], adjoint(vh[..., n - r :, :]), low


def _is_finite(x: Array) -> bool:
    """Whether all values are finite: every batch member has an inverse."""
    values = numbers(constant(x))
    return values is not None and bool(np.isfinite(values).all())


def _by_definition(c: Array) -> tuple[Array, Array]:
    """det(C) and adj(C) of a small matrix, sums over permutations: nothing is divided by."""
    xp, r = namespace(c), c.shape[-1]
    if r == 0:
        return xp.ones(batch_of(c, 2), **alike(c)), c

    def minor(rows: list[int], columns: list[int]) -> Any:
        terms = [
            _sign(p) * reduce(mul, [c[..., i, columns[j]] for i, j in zip(rows, p, strict=True)], 1)
            for p in permutations(range(len(rows)))
        ]
        return sum(terms[1:], terms[0])

    every = list(range(r))
    # of r = 1 the minor is the empty product, a number of Python
    one = 0 * c[..., 0, 0] + 1
    # adj(C)_ij is the cofactor of c_ji
    cofactors = [
        [
            one
            * (-1) ** (i + j)
            * minor([k for k in every if k != j], [k for k in every if k != i])
            for j in every
        ]
        for i in every
    ]
    adj = xp.stack([xp.stack(row, axis=-1) for row in cofactors], axis=-2)
    return minor(every, every), adj


def _sign(p: tuple[int, ...]) -> int:
    inversions = sum(p[i] > p[j] for j in range(len(p)) for i in range(j))
    return 1 - 2 * (inversions % 2)
