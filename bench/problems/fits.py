"""Least squares on a map, linear and not, with gradients in 50 digits.

linear       min |A x - b|, A the Jacobian of the distances and rough positions at the true places; the gradient of c^T x in b
nonlinear    the places by distances and rough positions; the gradient of c^T x in the weights of the distances

Both gradients are one linear system with a symmetric matrix, in 50 digits: K = (1, A; A^T, 0) by SciPy's LU factor and refinement, and
the Hessian of the nonlinear cost by mpmath's own, which takes up to some hundred unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from mpmath import mp, mpf

from problems.maps import NOISE, ROUGH, Map, made
from problems.programs import DIGITS, refined

LARGEST_OF_NEWTON = 200


@dataclass(frozen=True)
class Fit:
    """`A`, `b` are those of the linear one; the nonlinear one is `map` with these `weights`."""

    map: Map
    A: Any
    b: Any
    weights: Any
    c: Any

    @property
    def n(self) -> int:
        return len(self.c)

    def moved(self, i: int) -> Fit:
        """Other data, hardly different."""
        scale = 1 + 1e-9 * i
        return replace(self, b=self.b * scale, weights=self.weights * scale)


def fit(side: int) -> Fit:
    problem, random = made(side), np.random.default_rng(1)
    (i, j), at = problem.links.T, problem.place
    along = (at[i] - at[j]) / np.linalg.norm(at[i] - at[j], axis=1)[:, None] / NOISE
    values = np.concatenate([np.hstack([along, -along]).ravel(), np.full(at.size, 1 / ROUGH)])
    pattern = problem.pattern
    A = sp.csr_array(sp.coo_array((values, (pattern.row, pattern.col)), shape=pattern.shape))
    b, c = random.standard_normal(A.shape[0]), random.standard_normal(at.size)
    return Fit(problem, A, b, np.ones(len(i)), c)


def linear_gradient(p: Fit) -> Any:
    """b_bar = A (A^T A)^-1 c:  (1, A; A^T, 0) (s, t) = (0, -c), s = b_bar."""
    mp.dps = DIGITS
    K = sp.csc_array(sp.block_array([[sp.eye_array(p.A.shape[0]), p.A], [p.A.T, None]]))
    side = np.concatenate([np.zeros(p.A.shape[0]), p.c])
    return refined(K, scipy.sparse.linalg.splu(K), side)[: p.A.shape[0]].astype(float)


def nonlinear_gradient(p: Fit) -> Any:
    """w_bar_e = -lam^T d/dw_e g,  H lam = c,  g = sum_e w_e^2 (d_e - D_e) / NOISE^2 u_e + (x - rough) / ROUGH^2."""
    mp.dps = DIGITS
    x = [mpf(v) for v in p.map.rough]
    noise, rough = 1 / mpf(NOISE) ** 2, 1 / mpf(ROUGH) ** 2
    for _ in range(60):
        g, H, slopes = _cost(p, x, noise, rough)
        dx = mp.lu_solve(H, -g)
        x = [a + b for a, b in zip(x, dx, strict=True)]
        if max(abs(v) for v in dx) < mpf(10) ** (10 - DIGITS):
            lam = mp.lu_solve(H, mp.matrix([mpf(v) for v in p.c]))
            return np.array([float(-sum(lam[k] * v for k, v in s.items())) for s in slopes])
    raise ValueError("Newton's method does not converge")


def _cost(p: Fit, x: list[Any], noise: Any, rough: Any) -> tuple[Any, Any, list[dict[int, Any]]]:
    """The gradient, the Hessian, and the derivative of the gradient in each weight."""
    n = len(x)
    g = mp.matrix([(a - mpf(b)) * rough for a, b in zip(x, p.map.rough, strict=True)])
    H, slopes = mp.diag([rough] * n), []
    for (i, j), distance, w in zip(p.map.links, p.map.distances, p.weights, strict=True):
        d = [x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1]]
        length = mp.sqrt(d[0] ** 2 + d[1] ** 2)
        u, left, weight = [v / length for v in d], length - mpf(distance), mpf(w) ** 2 * noise
        places = [(2 * int(i) + k, 1, k) for k in (0, 1)] + [
            (2 * int(j) + k, -1, k) for k in (0, 1)
        ]
        slopes.append({a: 2 * mpf(w) * noise * left * u[k] * sign for a, sign, k in places})
        for a, sign, k in places:
            g[a] += weight * left * u[k] * sign
            for b, other, l in places:
                bend = (u[k] * u[l]) * (1 - left / length) + (left / length if k == l else 0)
                H[a, b] += weight * bend * sign * other
    return g, H, slopes
