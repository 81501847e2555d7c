"""Clarabel, an interior-point method in Rust.

Reference: Goulart and Chen, Clarabel: an interior-point solver for conic programs (2024).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, gave_up, require


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("clarabel")
    import clarabel

    upper, q, rows, sides, k, *_ = program
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(k), clarabel.NonnegativeConeT(len(sides) - k)]
    upper, rows = map(sp.csc_array, (upper, rows))
    found = clarabel.DefaultSolver(upper, q, rows, sides, cones, settings).solve()
    status, steps, z = str(found.status), int(found.iterations), np.array(found.z)
    if "PrimalInfeasible" in status:
        raise program.infeasible("clarabel", steps, z)
    if "DualInfeasible" in status:
        raise program.unbounded("clarabel", steps, found.x)
    if "Solved" not in status:
        raise gave_up("clarabel", steps, status)
    return Found(z[k:] > np.array(found.s)[k:], steps, np.array(found.x))
