"""Random quadratic programs: those with one solution, and small ones that degenerate."""

from __future__ import annotations

from typing import Any

import numpy as np

import ldiv

NAMES = ("P", "q", "G", "h", "A", "b", "lb", "ub")


def program(seed: int, n: int = 12, k: int = 2, m: int = 6) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    L, x = rng.standard_normal((n, n)), rng.standard_normal(n)
    A, G = rng.standard_normal((k, n)), rng.standard_normal((m, n))
    upper = np.where(rng.random(n) < 0.5, np.inf, x + rng.random(n))
    bounds = x - rng.random(n), upper
    sides = G @ x + 0.3 * rng.random(m), A @ x
    return dict(
        zip(
            NAMES,
            (
                L @ L.T / n + 0.1 * np.eye(n),
                2 * rng.standard_normal(n),
                G,
                sides[0],
                A,
                sides[1],
                *bounds,
            ),
            strict=True,
        )
    )


def loss(x: Any) -> Any:
    return (x**2).sum() + x.sum()


def degenerate(rng: Any, kind: str) -> dict[str, Any]:
    """Small programs with whole numbers, where constraints meet in a point or hold without force."""
    n = 3
    L = rng.integers(-1, 2, (n, n))
    P = (L @ L.T + (0 if kind == "singular" else 1) * np.eye(n)) * (kind != "zero")
    G = rng.integers(-1, 2, (4, n)).astype(float)
    if kind == "repeated":
        G[3] = G[2]
    return {
        "P": P.astype(float),
        "q": rng.integers(-2, 3, n).astype(float),
        "G": G,
        "h": rng.integers(0, 2, 4).astype(float),
        "lb": -2.0 * np.ones(n),
        "ub": 2.0 * np.ones(n),
    }


REFUSED = (
    ldiv.SingularMatrixError,
    ldiv.NotDifferentiableError,
    ldiv.QuadraticProgramError,
    ldiv.ConvergenceError,
)
