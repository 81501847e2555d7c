"""K_1 x K_2 x ... + s I by K_i = V_i diag(l_i) V_i^H: t = l_1 x l_2 x ... + s are its eigenvalues.

inverse      V diag(1 / t) V^H,   V = V_1 x V_2 x ...
gradient     of log |det|: by K_i  V_i diag(w_i) V_i^H,  w_i = the sum of c_i / t over the other
             axes, c_i = the product of the other l;  by s  the sum of 1 / t
tangent      along E_i, e with D_i = diag(V_i^H E_i V_i) and dt = sum_i c_i D_i + e:
             V_i (diag(the sum of dc_i / t - c_i dt / t^2) - the rest) V_i^H, where the rest is
             V_i^H E_i V_i off its diagonal, o (C C^T), C = c_i / t with its rows along axis i

No difference of eigenvalues is divided by: -(C C^T)_jk is the divided difference of w_i.
cost         9 n_i^3 for each factor once; 4 N sum n_i for a solve; N sum n_i for a tangent
reference    Van Loan, J. Comput. Appl. Math. 123 (2000); Daleckii and Krein (1965)
"""

from __future__ import annotations

from functools import cached_property, reduce
from math import prod
from operator import mul
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import (
    adjoint,
    alike,
    astype,
    common_batch,
    conj,
    hermitian,
    numpy_dtype,
    real,
    result_dtype,
    spread,
    transpose,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, is_opaque, namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.accuracy.verifiable import Normed
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.dense import dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.shifted_kronecker import ShiftedKronecker, in_pairs, shifted_kronecker
from ldiv.structures.symmetric import symmetric_part

RANK = 14
ON_HOST = False
REMEMBERED = True
NAME = "the eigenvalues of the factors"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if isinstance(structure, ShiftedKronecker):
        return None
    return "solves with Kronecker products plus a multiple of the identity only"


def factor(symbolic: None, structure: ShiftedKronecker, p: Tree, assume_a: str) -> Factor:
    *ks, s = p
    ks = [symmetric_part(k, "H") for k in ks]
    s, dtype = real(s), result_dtype(p)
    ls, vs = zip(*map(_eigenpairs, ks), strict=True)
    # in programs all arrays of a factor have the axes of the batch
    batch = common_batch(structure.core, p)
    ks, bases = ([spread(astype(x, dtype), batch) for x in xs] for xs in (ks, vs))
    s = spread(s, batch, 0)
    made = Eigenpairs(*bases, *(spread(l, batch, 1) for l in ls), s)
    t = made.t
    if assume_a == "pos":
        check_or_raise((t > 0).all(), _not_positive)
    check_or_raise((t != 0).all(), _singular)
    return VerifiedEigenpairs(NAME, ShiftedMatrix(*ks, s), made)


def _eigenpairs(k: Array) -> tuple[Array, Array]:
    """Return l and V, computed in units in which K is near 1: libraries round where they scale."""
    # K t = V diag(l t) V^H: V does not depend on the unit t
    t = balance(magnitude(k, (-2, -1))) ** 2
    l, v = frontend_of(k).dense.eigh(k * t)
    return l / t[..., 0], v


def _not_positive() -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(NAME, "a product of eigenvalues that is not above -s")


def _singular() -> SingularMatrixError:
    return SingularMatrixError(NAME, "a product of eigenvalues that is -s")


class ShiftedMatrix(Normed):
    """K_1 x K_2 x ... + s I, by products with the K_i."""

    has_sizes = True

    def __init__(self, *arrays: Array) -> None:
        *ks, s = self.arrays = arrays
        self._structure: Any = shifted_kronecker(*(k.shape[-1] for k in ks))
        n, first = self._structure.shape[0], ks[0]
        super().__init__(n, numpy_dtype(first), sum(x.nbytes for x in arrays))
        self.core = self._structure.core
        self.is_traced = is_opaque(first)
        self.is_single = type(first) is np.ndarray and all(
            x.ndim == own for x, own in zip(arrays, self.core, strict=True)
        )
        # the rows of |K_1| x |K_2| x ... have the products of the sums of theirs
        xp = namespace(first)
        sums = [xp.max(xp.sum(xp.abs(k), axis=-1), axis=-1) for k in ks]
        norm = reduce(mul, sums) + xp.abs(s)
        self._norm: Any = float(norm) if self.is_single else norm[..., None, None]

    def norm(self, op: str) -> Any:
        return self._norm

    def product(self, x: Array, op: str) -> Array:
        # M = M^H, so M^T = conj(M)
        view: Any = self._structure.view("C" if op == "T" else "N")
        return view.matmul(self.arrays, x)

    def sizes(self, x: Array, op: str) -> Array:
        xp = namespace(x)
        found: Array = self._structure.matmul(tuple(xp.abs(a) for a in self.arrays), xp.abs(x))
        return found

    def direction(self, z: Any) -> Array:
        first = self.arrays[0]
        return astype(namespace(first).asarray(z.copy(), **alike(first)), self.dtype)

    def arranged(self, b: Array, op: str) -> Array:
        return astype(b, np.result_type(numpy_dtype(b), self.dtype))


class Eigenpairs(Factor):
    """Arrays V_1, V_2, ..., l_1, l_2, ..., s."""

    def __init__(self, *arrays: Array) -> None:
        self.arrays = arrays
        self._count = d = len(arrays) // 2
        self._vs, self._ls, self._s = arrays[:d], arrays[d:-1], arrays[-1]
        self.core = (*[2] * d, *[1] * d, 0)
        self.nbytes = sum(x.nbytes for x in arrays)
        bases: list[Structure] = [dense(*v.shape[-2:]) for v in self._vs]
        self._basis = reduce(_product, bases)

    def _along(self, x: Array, axis: int) -> Array:
        """x (*batch, n_i) along one of the axes n_1, n_2, ..."""
        # 1 x ... x n_i x ... x 1, to be broadcast against the other axes
        ones = [1] * (self._count - 1 - axis)
        return namespace(x).reshape(x, (*x.shape[:-1], *[1] * axis, x.shape[-1], *ones))

    def _but(self, *axes: int) -> Array | float:
        """The product of the eigenvalues of the other factors."""
        others = [self._along(l, i) for i, l in enumerate(self._ls) if i not in axes]
        return reduce(mul, others, 1.0)

    def _scalar(self, x: Array) -> Array:
        return namespace(x).reshape(x, (*x.shape, *[1] * self._count))

    @cached_property
    def t(self) -> Array:
        """All eigenvalues, (*batch, n_1, n_2, ...)."""
        # t[i_1, i_2, ...] = l_1[i_1] l_2[i_2] ... + s
        return self._but() + self._scalar(self._s)

    def _flat(self) -> Array:
        t, d = self.t, self._count
        return namespace(t).reshape(t, (*t.shape[:-d], prod(t.shape[-d:])))

    def solve(self, b: Array, op: str) -> Array:
        # M = M^H, so M^T x = b is M conj(x) = conj(b)
        if op == "T":
            return conj(self.solve(conj(b), "N"))
        # x = V diag(1 / t) V^H b
        vs = in_pairs(self._vs)
        y = self._basis.H.matmul(vs, b)
        with np.errstate(all="ignore"):  # the caller refuses an infinite solution
            return self._basis.matmul(vs, y / self._flat()[..., None])

    def logabsdet(self) -> Array:
        t, xp = self._flat(), namespace(self._s)
        return xp.sum(xp.log(xp.abs(t)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        t, xp = self._flat(), namespace(self._s)
        # the eigenvalues t are real: det M / |det M| is the product of their signs
        sign = xp.prod(xp.sign(t), axis=-1)
        return astype(sign, numpy_dtype(self._vs[0])), self.logabsdet()

    # -- the derivatives of the determinant, of one array for each parameter

    def inverse_entries(self) -> Any:
        # w_i = the sum of c_i / t over the other axes; by s the sum of 1 / t
        found = [
            self._in_basis(i, self._sums(self._but(i) / self.t, i)) for i in range(self._count)
        ]
        return *found, self._total(1 / self.t)

    def inverse_tangent(self, es: Any) -> Any:
        *ks, e = es
        # V_i^H E_i V_i, E_i made Hermitian; its diagonal D_i moves l_i to first order
        turned = [adjoint(v) @ hermitian(k) @ v for v, k in zip(self._vs, ks, strict=True)]
        xp = namespace(e)
        moved = [self._along(real(xp.linalg.diagonal(k)), i) for i, k in enumerate(turned)]
        # dt = sum_i c_i D_i + e
        dt = reduce(lambda a, b: a + b, (self._but(i) * m for i, m in enumerate(moved)))
        dt = dt + self._scalar(real(e))
        found = []
        for i, k in enumerate(turned):
            # the term c_i D_i of dt is in the diagonal of K o (C C^T), which is subtracted below
            # dc_i, the product rule: the sum over j of D_j times all l but those of i and j
            dc = sum(self._but(i, j) * m for j, m in enumerate(moved) if j != i)
            # C of the header, c_i / t
            c = self._but(i) / self.t
            # dw_i = sum (dc_i / t - c_i dt / t^2), without the term c_i D_i of dt
            diagonal = self._sums(dc / self.t - c * (dt - self._but(i) * moved[i]) / self.t, i)
            rows = self._rows(c, i)
            t = balance(magnitude(rows, (-2, -1))) ** 2  # squares of tiny numbers would be zeros
            rest = k / t * ((rows * t) @ transpose(rows * t)) / t
            found.append(self._in_basis(i, diagonal, rest))
        # d(1 / t) = -dt / t^2
        return *found, -self._total(dt / self.t / self.t)

    def _rows(self, x: Array, axis: int) -> Array:
        """x (*batch, n_1, n_2, ...) with its rows along one axis, (*batch, n_i, N / n_i)."""
        xp, d = namespace(x), self._count
        before = x.ndim - d
        order = [*range(before), before + axis, *(before + i for i in range(d) if i != axis)]
        x = xp.permute_dims(xp.broadcast_to(x, (*x.shape[:-d], *self.t.shape[-d:])), order)
        return xp.reshape(x, (*x.shape[: before + 1], prod(x.shape[before + 1 :])))

    def _sums(self, x: Array, axis: int) -> Array:
        return namespace(x).sum(self._rows(x, axis), axis=-1)

    def _total(self, x: Array) -> Array:
        axes = tuple(range(-self._count, 0))
        return astype(namespace(x).sum(x, axis=axes), numpy_dtype(self._vs[0]))

    def _in_basis(self, i: int, diagonal: Array, minus: Array | None = None) -> Array:
        """V_i (diag - minus) V_i^H."""
        v = self._vs[i]
        found = (v * diagonal[..., None, :]) @ adjoint(v)
        return found if minus is None else found - v @ minus @ adjoint(v)


def _product(one: Structure, two: Structure) -> Structure:
    return Kronecker((one, two))


class VerifiedEigenpairs(Verified):
    """Checked solves, and the derivatives of the determinant."""

    def inverse_entries(self) -> Any:
        return self._factor.inverse_entries()

    def inverse_tangent(self, e: Any) -> Any:
        return self._factor.inverse_tangent(e)
