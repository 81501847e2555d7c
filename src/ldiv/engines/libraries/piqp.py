"""PIQP, an interior-point method with proximal terms.

Reference: Schwan, Jiang, Kuhn and Jones, PIQP: a proximal interior-point quadratic programming solver
(2023).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, gave_up, infeasible, require, unbounded


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("piqp")
    import piqp

    P, q, A, b, G, h = program
    solver = piqp.SparseSolver()
    solver.settings.verbose = False
    matrices = [sp.csc_matrix(M) for M in ((P + P.T) / 2, A, G)]
    solver.setup(matrices[0], q, matrices[1], b, matrices[2], None, h)
    status, found = solver.solve(), solver.result
    z, steps = np.array(found.z_u), int(found.info.iter)
    if status == piqp.PIQP_PRIMAL_INFEASIBLE:
        raise infeasible(np.concatenate([found.y, z]))
    if status == piqp.PIQP_DUAL_INFEASIBLE:
        raise unbounded(np.array(found.x))
    if status != piqp.PIQP_SOLVED:
        raise gave_up("piqp", steps, str(status))
    return Found(z > np.array(found.s_u), steps)
