"""(I - delta_i T) w_i = f_i for many shifts delta_i, by one block Krylov space of T.

T is self-adjoint in the inner product of B. With a B-orthonormal basis V, T V = V G + rest:
w_i = V (I - delta_i G)^-1 V^H B f_i. The Krylov space does not depend on the shift, so that all
columns share one, and one eigendecomposition of G. I - delta T may be indefinite.
Reference: Frommer and Glässner, SIAM J. Sci. Comput. 19 (1998); O'Leary, Linear Algebra Appl. 29
(1980).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays import conj
from ldiv.engines.eigen.orthonormal import gram
from ldiv.engines.matrix_product import Product
from ldiv.engines.scaling import balance, magnitude

EVEN = 1e-3  # shortest over longest direction of a block that needs no second orthogonalization
BASIS = 400  # vectors at most; then the caller restarts from the residual


def solve(T: Product, B: Product, delta: Any, f: Any, rtol: float) -> Any:
    """w (n, k) with |f_i - (I - delta_i T) w_i| <= rtol |f_i|, or until the basis is full.

    Norms are those of B.
    """
    (n, k), largest = f.shape, float(np.abs(delta).max(initial=0)) or 1.0
    t, delta = balance(magnitude(f, axis=0)), delta / largest  # and T is multiplied by it
    f = f * t * t
    size = np.sqrt(np.maximum(np.einsum("ij,ij->j", conj(f), B(f)).real, 0))
    scale, drop = np.where(size == 0, 1, size), rtol / 10
    most = min(n, max(BASIS, 2 * k))
    basis = np.empty((n, most + k), f.dtype, order="F")
    f = f / scale
    block, _ = _orthonormal(B, f, basis[:, :0], drop)
    known, small, w = gram(block, B(f)), np.zeros((0, 0), f.dtype), np.zeros((0, k), f.dtype)
    while block.shape[1]:
        done = len(small)
        held = done + block.shape[1]
        basis[:, done:held] = block
        v = basis[:, :held]
        # block Lanczos with full orthogonalization: T V = V G + the next block
        u = T(block) * largest
        h = gram(v, B(u))
        u -= v @ h
        small = _grown(small, h)
        # w = Z (I - delta Theta)^-1 Z^H V^H B f, for all shifts by one eigendecomposition
        theta, z = np.linalg.eigh(small)
        w = z @ ((conj(z[: len(known)]).T @ known) / _nonzero(1 - theta[:, None] * delta))
        block, s = _orthonormal(B, u, v, drop)
        # the residual is delta times the next block times the last rows of w
        left = np.linalg.norm(s @ w[done:], axis=0) * np.abs(delta)
        if (left <= rtol).all() or held + block.shape[1] > most:
            break
    return (basis[:, : len(w)] @ w) * scale / t / t


def _grown(small: Any, h: Any) -> Any:
    """The projected matrix, extended by the columns h and, by symmetry, their rows."""
    m = len(small)
    grown = np.empty((len(h), len(h)), np.result_type(small, h))
    grown[:m, :m], grown[:, m:], grown[m:, :m] = small, h, conj(h[:m]).T
    grown[m:, m:] = (h[m:] + conj(h[m:]).T) / 2
    return grown


def _nonzero(x: Any) -> Any:
    """x, kept away from zero: a divisor, where a Ritz value may happen to equal a shift."""
    tiny = np.finfo(x.dtype).eps ** 2
    return np.where(np.abs(x) < tiny, tiny, x)


def _orthonormal(B: Product, u: Any, v: Any, drop: float) -> tuple[Any, Any]:
    """q, B-orthonormal, and q^H B u, for a u that was made B-orthogonal to v once.

    Directions no longer than `drop` are left out. Orthogonalizing twice is enough; but if lengths
    differ much, components along v matter in the short directions: once these are unit vectors,
    they are orthogonalized again.
    """
    u = u - v @ gram(v, B(u))
    g = gram(u, B(u))
    lengths = np.sqrt(np.maximum(np.linalg.eigvalsh(g), 0))
    if lengths[0] > EVEN * lengths[-1] and lengths[0] > drop:
        l = np.linalg.cholesky(g)
        return _by_inverse(u, l), conj(l).T
    # nearly dependent: a pivoted QR tells which directions to keep
    q, r, _ = scipy.linalg.qr(u, mode="economic", pivoting=True, check_finite=False)
    q = q[
        :,
        np.abs(np.diag(r)) * np.sqrt(np.maximum(np.einsum("ij,ij->j", conj(q), B(q)).real, 0))
        > drop,
    ]
    q -= v @ gram(v, B(q))
    q = _by_inverse(q, np.linalg.cholesky(gram(q, B(q))))
    return q, gram(q, B(u))


def _by_inverse(u: Any, l: Any) -> Any:
    """u L^-H."""
    return u @ conj(np.linalg.solve(l, np.eye(len(l), dtype=l.dtype))).T
