"""(I - delta_i T) w_i = f_i for many shifts delta_i, by one block Krylov space of T.

    T = (I - V V^H B) F B,    f_i = (I - V V^H B) F r_i,    T Q = Q G + P S,    f = Q a + P b

[V Q P] is B-orthonormal, T self-adjoint in the inner product of B, V invariant. Then
    w_i = Q y_i,   (I - delta_i G) y_i = a_i,   with the residual P rho_i,   rho_i = b_i + delta_i S y_i.
The space does not depend on the shifts, so that all columns share one, and one eigendecomposition
of G. P are the directions that T has not been applied to. Each step moves those of them, X, to Q
that residuals above the tolerance need: columns that have converged cost no more solves, and what
was left in P is taken once it is needed. I - delta T may be indefinite.
    Q^H B T X = (X^H S)^H
is known from P, and zero but for the latest directions of Q. So T X is made orthogonal to these
directions, to V and P only, as in the Lanczos method. Where rounding has let other directions in,
T X is made orthogonal to all. For G to be as accurate as the factor, orthogonality to half the
precision is enough (semiorthogonality).
Reference: Frommer and Glässner, SIAM J. Sci. Comput. 19 (1998); O'Leary, Linear Algebra Appl. 29
(1980); Aliaga, Boley, Freund and Hernández, Math. Comp. 69 (2000); Simon, Linear Algebra Appl. 61
(1984).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import conj
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.eigen.orthonormal import gram
from ldiv.engines.iterative.matrix_product import Product

EVEN = 1e-3  # shortest over longest direction of a block for which a Cholesky factor is accurate
LEFT = 0.3  # of the tolerance is what directions that are not needed may hold of a residual
BASIS = 400  # vectors at most; then the caller restarts from the residual


def solve(F: Product, B: Product, V: Any, delta: Any, r: Any, rtol: float) -> Any:
    """w (n, k) with |f_i - (I - delta_i T) w_i| <= rtol |f_i|, or until the basis is full.

    Norms are those of B. F returns arrays of its own, which are overwritten.
    """
    f, largest = F(r), float(np.abs(delta).max(initial=0)) or 1.0
    t, delta = balance(magnitude(f, axis=0)), delta / largest  # and T is multiplied by it
    # f = (I - V V^H B) F r, near 1
    f = f * t * t
    f = f - V @ gram(V, B(f))
    # |f_i|_B, whose square rounding may make negative
    size = np.sqrt(np.maximum(np.einsum("ij,ij->j", conj(f), B(f)).real, 0))
    scale = np.where(size == 0, 1, size)

    def T(x: Any) -> Any:
        y = F(x)
        y *= largest
        return y

    space = Space(T, B, V, f / scale, rtol)
    # solve in the space, and grow it by the residuals that are too large
    while True:
        y, rho = space.galerkin(delta)
        left = np.linalg.norm(rho, axis=0)
        if not space.grow(rho[:, left > rtol]):
            # w = Q y, in the units of r
            return (space.Q @ y) * scale / t / t


@dataclass(eq=False)
class Space:
    """The basis [V Q P], and T and f in it."""

    T: Product
    B: Product
    V: Any
    f: Any
    rtol: float
    basis: Any = field(init=False)
    total: Any = field(init=False)  # the sum of the basis, which stands for all of it
    BP: Any = field(init=False)
    G: Any = field(init=False)
    S: Any = field(init=False)
    a: Any = field(init=False)
    b: Any = field(init=False)

    def __post_init__(self) -> None:
        (n, k), dtype, d = self.f.shape, self.f.dtype, self.V.shape[1]
        # columns: V, a full basis, and one more block P
        most = d + min(n, max(BASIS, 2 * k)) + k
        self.basis = np.empty((n, most), dtype, order="F")
        self.basis[:, :d] = self.V
        self.total = np.zeros((n, 1), dtype)
        self._add(self.basis[:, :d])
        # f = P b, Q is empty
        self.BP, self.b = self._orthonormal(self.f, d)
        self.G, self.a = np.zeros((0, 0), dtype), np.zeros((0, k), dtype)
        self.S = np.zeros((len(self.b), 0), dtype)

    @property
    def Q(self) -> Any:
        d = self.V.shape[1]
        return self.basis[:, d : d + len(self.G)]

    def galerkin(self, delta: Any) -> tuple[Any, Any]:
        """y, for all shifts by one eigendecomposition, and rho."""
        # G = Z Theta Z^H, so (I - delta G)^-1 a = Z (I - delta Theta)^-1 Z^H a for all delta
        theta, z = np.linalg.eigh(self.G)
        y = z @ ((conj(z).T @ self.a) / _nonzero(1 - theta[:, None] * delta))
        # rho = b + delta S y
        return y, self.b + (self.S @ y) * delta

    def grow(self, rho: Any) -> bool:
        """Move the directions to Q that these residuals need; False if none is, or none fits."""
        # V ends at column d, Q at `start`, P at `end`
        d, m, p = self.V.shape[1], len(self.G), len(self.b)
        start, end = d + m, d + m + p
        turn, q = self._needed(rho)
        if q == 0 or end + q > self.basis.shape[1]:
            return False
        # after the rotation the first q directions of P hold the residuals
        if q < p:
            self._rotate(self.basis[:, start:end], turn)
        # the first q directions of P become X, the last ones of Q
        S, b = self.S, self.b[q:]
        self.a = np.concatenate([self.a, self.b[:q]])
        # T X = V c_V + Q c_Q + [X, the rest of P] c_P + P_new s for the directions X
        u = self.T(self.BP[:, :q])
        # c_Q = Q^H B T X = (X^H B T Q)^H = (the first q rows of S)^H, without a product
        Bu, c_Q = self.B(u), conj(S[:q]).T
        c_V, c_P = gram(self.basis[:, :d], Bu), gram(self.basis[:, start:end], Bu)
        # the first direction of Q with a coefficient: those before it are exactly 0
        latest = int(c_Q.any(axis=1).argmax()) if m else 0
        u = _minus(u, self.basis[:, :d], c_V)
        u = _minus(u, self.basis[:, d + latest : end], np.concatenate([c_Q[latest:], c_P]))
        # u = P_new s
        BP, s = self._orthonormal(u, end)
        new = len(s)
        self.BP = np.concatenate([self.BP[:, q:], BP], axis=1)
        self.b = np.concatenate([b, np.zeros((new, b.shape[1]), b.dtype)])
        # T [Q X] = .. + [P_rest P_new] S: the rows of X leave S, and its columns join
        left = np.concatenate([S[q:], np.zeros((new, S.shape[1]), S.dtype)])
        self.S = np.concatenate([left, np.concatenate([c_P[q:], s])], axis=1)
        # G is bordered by Q^H B T X and X^H B T X
        self.G = _grown(self.G, np.concatenate([c_Q, c_P[:q]]))
        return True

    def _needed(self, rho: Any) -> tuple[Any, int]:
        """A rotation of P after which its first q directions hold rho up to LEFT rtol."""
        if 0 in rho.shape:
            return np.eye(len(rho), dtype=rho.dtype), 0
        # rest_j = |rho| without its first j singular directions
        turn, sizes, _ = np.linalg.svd(rho)
        rest = np.sqrt(np.cumsum(sizes[::-1] ** 2))[::-1]
        return turn, int((rest > LEFT * self.rtol).sum())

    def _rotate(self, P: Any, turn: Any) -> None:
        # P <- P U, so S <- U^H S, b <- U^H b
        P[:], self.BP = P @ turn, self.BP @ turn
        self.S, self.b = conj(turn).T @ self.S, conj(turn).T @ self.b

    def _orthonormal(self, u: Any, end: int) -> tuple[Any, Any]:
        """B P and P^H B u for the directions P of u that are not negligible, which join the basis.

        u was made B-orthogonal to the basis up to `end`; it is done once more where it is not enough.
        """
        drop, Bu, v = self.rtol / 10, self.B(u), self.basis[:, :end]
        # u^H B u = L L^H,  P = u L^-H,  P^H B u = L^H
        l = _cholesky(gram(u, Bu), drop)
        if l is None or self._lost(l, Bu) > np.finfo(u.dtype).eps ** 0.5:
            u = _minus(u, v, gram(v, Bu))
            Bu = self.B(u)
            l = _cholesky(gram(u, Bu), drop)
        if l is not None:
            s = conj(l).T
        else:
            # nearly dependent: a pivoted QR tells which directions to keep. Once these are unit
            # vectors, their components along v matter, and they are orthogonalized again
            q, r, _ = scipy.linalg.qr(u, mode="economic", pivoting=True, check_finite=False)
            # |q_j|_B |r_jj| is the length of what direction j adds
            in_B = np.sqrt(np.maximum(np.einsum("ij,ij->j", conj(q), self.B(q)).real, 0))
            q = q[:, np.abs(np.diag(r)) * in_B > drop]
            q = q - v @ gram(v, self.B(q))
            of_u, u, Bu = Bu, q, self.B(q)
            # P = q L^-H, so P^H B u = L^-1 q^H (B u) for the u that was given
            l = np.linalg.cholesky(gram(u, Bu))
            s = np.linalg.solve(l, gram(u, of_u))
        P = self.basis[:, end : end + len(l)]
        P[:] = _by_inverse(u, l)
        self._add(P)
        # B P = (B u) L^-H; B returns its argument where it is the identity
        return P if Bu is u else _by_inverse(Bu, l), s

    def _lost(self, l: Any, Bu: Any) -> float:
        """The loss of orthogonality of the directions of u to the basis, measured by its sum."""
        # P^H B (the sum of the basis) = L^-1 (B u)^H total
        return float(np.linalg.norm(np.linalg.solve(l, gram(Bu, self.total))))

    def _add(self, v: Any) -> None:
        self.total += v @ np.ones((v.shape[1], 1), v.dtype)


def _cholesky(g: Any, drop: float) -> Any:
    """The factor L of g = u^H B u, None where directions of u are short or nearly dependent."""
    lengths = np.sqrt(np.maximum(np.linalg.eigvalsh(g), 0))
    if not lengths[0] > max(EVEN * lengths[-1], drop):
        return None
    return np.linalg.cholesky(g)


def _grown(small: Any, h: Any) -> Any:
    """The projected matrix, extended by the columns h and, by symmetry, their rows."""
    m = len(small)
    grown = np.empty((len(h), len(h)), np.result_type(small, h))
    # [G c; c^H X^H B T X], the corner made Hermitian
    grown[:m, :m], grown[:, m:], grown[m:, :m] = small, h, conj(h[:m]).T
    grown[m:, m:] = (h[m:] + conj(h[m:]).T) / 2
    return grown


def _nonzero(x: Any) -> Any:
    """x, kept away from zero: a divisor, where a Ritz value may happen to equal a shift."""
    tiny = np.finfo(x.dtype).eps ** 2
    return np.where(np.abs(x) < tiny, tiny, x)


def _by_inverse(u: Any, l: Any) -> Any:
    """u L^-H."""
    return _times(u, conj(np.linalg.solve(l, np.eye(len(l), dtype=l.dtype))).T)


def _times(v: Any, c: Any) -> Any:
    """v c, column by column in memory, as the basis is, and as factors take right-hand sides."""
    return (c.T @ v.T).T


def _minus(u: Any, v: Any, c: Any) -> Any:
    """u - v c, in the memory of u where that is column by column."""
    (gemm,) = scipy.linalg.get_blas_funcs(("gemm",), (v, u))
    return gemm(-1.0, v, c, 1.0, u, overwrite_c=True)
