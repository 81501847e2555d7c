"""(I - delta_i T) w_i = f_i for many shifts delta_i, by one block Krylov space of T, which is self-adjoint in the inner product of B.

V B-orthonormal, T V = V G + rest: w_i = V (I - delta_i G)^-1 V^H B f_i. The space of T does not see the shift, so that every
column profits from all of it; G is diagonalized once for all of them. For indefinite I - delta T as well.
Reference: Frommer and Glässner, SIAM J. Sci. Comput. 19 (1998); O'Leary, Linear Algebra Appl. 29 (1980).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

Product = Callable[[Any], Any]
BASIS = 400  # vectors that are held at most; then the caller starts again from the residual


def solve(T: Product, B: Product, delta: Any, f: Any, rtol: float) -> Any:
    """w (n, k), columns as far as |f_i - (I - delta_i T) w_i| <= rtol |f_i| in the norm of B, or as far as the basis led."""
    size = np.sqrt(np.maximum(np.einsum("ij,ij->j", f.conj(), B(f)).real, 0))
    scale = np.where(size == 0, 1, size)
    block, drop = f / scale, rtol / 10
    v = _orthonormal(B, block, [], drop)
    c = v.conj().T @ B(block)
    basis, small, w = [v], np.zeros((0, 0), f.dtype), np.zeros_like(c)
    while basis[-1].shape[1]:
        u = T(basis[-1])
        whole = np.hstack(basis)
        h = whole.conj().T @ B(u)
        u = u - whole @ h
        again = whole.conj().T @ B(u)
        u, h = u - whole @ again, h + again
        small = _grown(small, h)
        theta, z = np.linalg.eigh(small)
        start = np.zeros((len(theta), len(delta)), f.dtype)
        start[: len(c)] = c
        w = z @ ((z.conj().T @ start) / _away(1 - theta[:, None] * delta))
        rest = _orthonormal(B, u, basis, drop / max(np.abs(delta).max(), np.finfo(float).tiny))
        last = w[-basis[-1].shape[1] :]
        left = np.linalg.norm((rest.conj().T @ B(u)) @ last, axis=0) * np.abs(delta)
        if (left <= rtol).all() or whole.shape[1] + rest.shape[1] > min(BASIS, max(f.shape[0] // 2, 2 * f.shape[1])):
            break
        basis.append(rest)
    return np.hstack(basis)[:, : len(w)] @ w * scale


def _grown(small: Any, h: Any) -> Any:
    """The projected matrix with the columns h, and by symmetry their rows, added."""
    m, q = len(small), h.shape[1]
    grown = np.zeros((m + q, m + q), np.result_type(small, h))
    grown[:m, :m] = small
    grown[:, m:] = h
    grown[m:, :] = h.conj().T
    grown[m:, m:] = (h[m:] + h[m:].conj().T) / 2
    return grown


def _away(x: Any) -> Any:
    """A Ritz value that meets a shift on its way does not divide by zero."""
    tiny = np.finfo(x.dtype).eps ** 2
    return np.where(np.abs(x) < tiny, tiny, x)


def _orthonormal(B: Product, u: Any, against: list[Any], drop: float) -> Any:
    """A B-orthonormal basis of what u adds to the basis; directions no longer than `drop` are left out."""
    q, r, _ = scipy.linalg.qr(u, mode="economic", pivoting=True, check_finite=False)
    size = np.sqrt(np.abs(np.diag(r)) ** 2 * np.maximum(np.einsum("ij,ij->j", q.conj(), B(q)).real, 0))
    q = q[:, size > drop]
    for _ in range(2):
        for v in against:
            q = q - v @ (v.conj().T @ B(q))
        l = np.linalg.cholesky(q.conj().T @ B(q))
        q = scipy.linalg.solve_triangular(l, q.conj().T, lower=True, check_finite=False).conj().T
    return q
