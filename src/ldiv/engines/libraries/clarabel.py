"""Clarabel, an interior-point method in Rust.

Reference: Goulart and Chen, Clarabel: an interior-point solver for conic programs (2024).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, gave_up, infeasible, require, unbounded


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("clarabel")
    import clarabel

    P, q, A, b, G, h = program
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h))]
    rows = sp.vstack([A, G]).tocsc()
    half = sp.triu((P + P.T) / 2).tocsc()
    found = clarabel.DefaultSolver(half, q, rows, np.concatenate([b, h]), cones, settings).solve()
    status, z, m = str(found.status), np.array(found.z), len(b)
    if "PrimalInfeasible" in status:
        raise infeasible(z)
    if "DualInfeasible" in status:
        raise unbounded(np.array(found.x))
    if "Solved" not in status:
        raise gave_up("clarabel", int(found.iterations), status)
    return Found(z[m:] > np.array(found.s)[m:], int(found.iterations))
