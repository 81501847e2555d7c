"""d = det A, whose derivative every matrix has, singular ones too.

tangent      dd = tr(adj(A) dA)
cotangent    A_bar = d_bar adj(A)^H
cost         1 factorization forward; the derivative the inverse of A, or of a matrix little larger
reference    Golub and Van Loan, section 2.1; Magnus and Neudecker, chapter 8

adj(A) = det(A) A^-1 where A is regular. Else A is bordered by r columns and rows, singular vectors
of its least singular values (in a trace random ones),
    K = [[A, U], [V^H, 0]],   K^-1 = [[X, Y], [Z^H, C]],   det A = det(K) det(C),
which is regular where the rank of A is at least n - r, and
    adj(A) = det(K) (det(C) X - Y adj(C) Z^H).
Where more than r singular values vanish, so do all derivatives of det A up to order r: there adj(A)
is zero. A trace knows no rank, and refuses such a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    batch_of,
    eps,
    factors,
    spread,
    transpose,
    unit_columns,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import (
    check_or_raise,
    constant,
    frontend_of,
    namespace,
    numbers,
    traced,
)
from ldiv.core.frameworks.trees import Tree
from ldiv.core.policies.errstate import errstate, singular_state
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.finite import all_finite
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.traits import Traits
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.accuracy.accepted import LU
from ldiv.engines.factors.dense_calls import DetCalls
from ldiv.errors import SingularMatrixError, overflowed
from ldiv.rules.inverse import Inverse
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense

BORDER = 3  # r
SMALL = 1000  # roundings, n eps |A|, below which a singular value vanishes


@dataclass(frozen=True)
class Det(Rule):
    """Argument A (*batch, n, n); output (*batch,). `promise` as in `SLogDet`."""

    promise: str = ""

    core = (2,)
    traits = Traits(name="det", on_host=True, sees_overflow=True, only_refuses=True)

    def operation(self) -> Compiled | None:
        """Return the calls that take regular matrices."""
        return None if self.promise else DetCalls(LU, "N", "N", sign=True, positive=False)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        (a,) = args
        sign, size = SLogDet(dense(*a.shape[-2:]), promise=self.promise).kernel(a)
        with np.errstate(all="ignore"):  # an overflow is an error of ours, not a warning of NumPy's
            d = sign * namespace(size).exp(size)
        check_or_raise(all_finite(d), partial(overflowed, "det"))
        return (d,)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (a,), (da,), (d,) = args, tangents, out
        if da is None:
            return (None,)
        return (namespace(da).sum(transpose(adjugate(a, d)) * da, axis=(-2, -1)),)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (a,), (d_bar,), (d,) = args, cotangents, out
        if d_bar is None or not need[0]:
            return (None,)
        return (factors(d_bar) * adjoint(adjugate(a, d)),)


def adjugate(a: Array, d: Array) -> Array:
    """adj(A), d = det A."""
    if traced(a) or (singular_state() == "nan" and numbers(constant(a)) is None):
        return _bordered(a)
    with suppress(SingularMatrixError):
        inverse = _inverse(a)
        if singular_state() != "nan" or _is_finite(inverse):
            return factors(d) * inverse
    return _by_members(a, d)


def _inverse(a: Array) -> Array:
    return bind(Inverse(dense(*a.shape[-2:])), a)[0]


def _by_members(a: Array, d: Array) -> Array:
    """adj(A) by the inverses of those members that have one, and by bordered matrices of others."""
    xp = namespace(a)
    with errstate(singular="nan"):
        has = xp.all(xp.isfinite(_inverse(constant(a))), axis=(-2, -1), keepdims=True)
    one = xp.eye(a.shape[-1], **alike(a))
    known = xp.where(has[..., 0, 0], d, xp.ones_like(d))
    found = factors(known) * _inverse(xp.where(has, a, one))
    return xp.where(has, found, _bordered(xp.where(has, one, a)))


def _bordered(a: Array) -> Array:
    """adj(A) by r random rows and columns more."""
    n = a.shape[-1]
    r, xp, batch = min(BORDER, n), namespace(a), batch_of(a, 2)
    low = _has_low_rank(a)
    if low is not None:
        a = xp.where(low, xp.eye(n, **alike(a)), a)
    t = balance(magnitude(constant(a), (-2, -1)))
    a = a * t * t  # numbers near 1
    U, W = (spread(xp.asarray(x, **alike(a)), batch) for x in _borders(a, r))
    zero = xp.zeros((*batch, r, r), **alike(a))
    K = xp.concat([xp.concat([a, U], axis=-1), xp.concat([W, zero], axis=-1)], axis=-2)
    m = n + r
    inverse = solve(dense(m, m), K, unit_columns(a, m, range(m)))
    X, Y = inverse[..., :n, :n], inverse[..., :n, n:]
    Z, C = inverse[..., n:, :n], inverse[..., n:, n:]
    sign, size = bind(SLogDet(dense(m, m)), K)
    whole = factors(sign * xp.exp(size))
    of_c, adj_c = _by_definition(C)
    adj = whole * (factors(of_c) * X - Y @ adj_c @ Z) / (t * t) ** (n - 1)
    return adj if low is None else xp.where(low, 0 * adj, adj)


def _borders(a: Array, r: int) -> tuple[Any, Any]:
    """Columns and rows beside A: the singular vectors of its least singular values, or random ones
    where nobody knows its numbers, or knows those of a whole map.
    """
    n, values = a.shape[-1], numbers(constant(a))
    if values is None or values.shape != tuple(a.shape):
        drawn = np.linalg.qr(np.random.default_rng([n, BORDER]).standard_normal((2, n, r)))[0]
        return drawn[0], drawn[1].T
    is_finite = np.isfinite(values).all(axis=(-2, -1), keepdims=True)
    u, _, vh = np.linalg.svd(np.where(is_finite, values, np.eye(n)))
    return u[..., n - r :], vh[..., n - r :, :]


def _has_low_rank(a: Array) -> Array | None:
    """Whether more than BORDER singular values vanish, by member (*batch, 1, 1); None in a trace."""
    if traced(a) or a.shape[-1] <= BORDER:
        return None
    xp, a = namespace(a), constant(a)
    finite = xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    # singular values of NaN are an error of some frameworks
    s = frontend_of(a).dense.svdvals(xp.where(finite, a, xp.zeros_like(a)))
    vanishes = s <= SMALL * s.shape[-1] * eps(s) * s[..., :1]
    return finite & xp.all(vanishes[..., -BORDER - 1 :], axis=-1)[..., None, None]


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
    one = 0 * c[..., 0, 0] + 1
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


def cases(structures: Any, draw: Any) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    yield Det(), (draw(2, 4, 4),)
