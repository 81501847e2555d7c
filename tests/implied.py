"""Quadratic programs to which constraints are added that change nothing: implied, repeated or slack."""

from __future__ import annotations

from typing import Any

import numpy as np
from programs import degenerate, program

KINDS = ("program", "portfolio", "vertex", "definite", "singular", "zero")


def plain(rng: Any) -> dict[str, Any]:
    kind = str(rng.choice(KINDS))
    if kind == "program":
        n = int(rng.integers(2, 9))
        return program(int(rng.integers(1 << 30)), n, int(rng.integers(0, 1 + n // 3)), n)
    if kind in ("portfolio", "vertex"):
        n, k = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        L = rng.standard_normal((n, n))
        P = np.eye(n) if rng.random() < 0.5 else L @ L.T / n + 0.1 * np.eye(n)
        q = rng.standard_normal(n) * (10 if kind == "vertex" else 1)
        rows = {"A": np.ones((1, n)), "b": np.ones(1)}
        return {"P": P, "q": q, **rows, "lb": np.zeros(n), "ub": np.full(n, 1 / k)}
    p = degenerate(rng, kind)
    if rng.random() < 0.5:
        p["q"], p["h"] = rng.standard_normal(3), rng.random(4)
    return p


def with_more(rng: Any, p: dict[str, Any]) -> dict[str, Any]:
    """The same with rows in any order, of which those of A and G may imply each other."""
    n = len(p["q"])
    A, b = p.get("A", np.zeros((0, n))), p.get("b", np.zeros(0))
    G, h = p.get("G", np.zeros((0, n))), p.get("h", np.zeros(0))
    unit = np.eye(n)
    upper, lower = np.isfinite(p["ub"]), np.isfinite(p["lb"])
    rows = np.vstack([G, unit[upper], -unit[lower]])  # all inequalities
    sides = np.concatenate([h, p["ub"][upper], -p["lb"][lower]])
    some = rng.integers(0, len(rows), 3)
    weights = rng.random((len(some), len(rows))) * (rng.random((len(some), len(rows))) < 0.3)
    more, free = [rows[some], weights @ rows], [sides[some], weights @ sides]
    if len(A):
        W = rng.standard_normal((len(some), len(A)))
        more[1], free[1] = more[1] + W @ A, free[1] + W @ b
    if rng.random() < 0.5:  # rows that are slack, by little or much
        size, slack = rng.uniform(0.5, 2, len(some)), 10.0 ** rng.uniform(-6, 1, len(some))
        more.append(size[:, None] * rows[some])
        free.append(size * sides[some] + slack)
    W = rng.standard_normal((int(rng.integers(0, 3)), len(A)))
    A, b = np.vstack([A, W @ A]), np.concatenate([b, W @ b])
    G, h = np.vstack([G, *more]), np.concatenate([h, *free])
    order, at = rng.permutation(len(A)), rng.permutation(len(G))
    return p | {"A": A[order], "b": b[order], "G": G[at], "h": h[at]}
