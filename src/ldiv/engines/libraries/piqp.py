"""PIQP, an interior-point method with proximal terms.

Reference: Schwan, Jiang, Kuhn and Jones, PIQP: a proximal interior-point quadratic programming solver
(2023).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, gave_up, require, unbounded


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("piqp")
    import piqp

    upper, q, rows, sides, k, _ = program
    solver = piqp.SparseSolver()
    solver.settings.verbose = False
    P, A, G = (sp.csc_matrix(M) for M in (upper, rows[:k], rows[k:]))
    solver.setup(P, q, A, sides[:k], G, None, sides[k:])
    status, found = solver.solve(), solver.result
    z, steps = np.array(found.z_u), int(found.info.iter)
    if status == piqp.PIQP_PRIMAL_INFEASIBLE:
        raise program.infeasible(np.concatenate([found.y, z]))
    if status == piqp.PIQP_DUAL_INFEASIBLE:
        raise unbounded(np.array(found.x))
    if status != piqp.PIQP_SOLVED:
        raise gave_up("piqp", steps, str(status))
    return Found(z > np.array(found.s_u), steps)
