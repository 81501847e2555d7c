"""PIQP, an interior-point method with proximal terms, for sparse matrices and for dense ones.

Reference: Schwan, Jiang, Kuhn and Jones, PIQP: a proximal interior-point quadratic programming solver
(2023).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, gave_up, require


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("piqp")
    import piqp

    upper, q, rows, sides, k, (ub, lb), *_ = program
    m, w = len(sides) - len(ub) - len(lb), len(sides) - len(lb)
    A, G, low, high = rows[:k], rows[k:m], None, None
    if program.is_dense:
        solver = piqp.DenseSolver()
    else:
        solver, upper, A, G = piqp.SparseSolver(), *map(sp.csc_matrix, (upper, A, G))
    solver.settings.verbose = False
    if m < len(sides):
        low, high = np.full((2, len(q)), [[-np.inf], [np.inf]])
        low[lb], high[ub] = -sides[w:], sides[m:w]
    solver.setup(upper, q, A, sides[:k], G, None, sides[k:m], low, high)
    status, found = solver.solve(), solver.result
    steps, z, slack = found.info.iter, found.z_u, found.s_u
    if m < len(sides):
        z = np.concatenate([z, found.z_bu[ub], found.z_bl[lb]])
        slack = np.concatenate([slack, found.s_bu[ub], found.s_bl[lb]])
    if status == piqp.PIQP_SOLVED:
        return Found(z > slack, steps, found.x.copy())
    if status == piqp.PIQP_PRIMAL_INFEASIBLE:
        raise program.infeasible("piqp", steps, np.concatenate([found.y, z]))
    if status == piqp.PIQP_DUAL_INFEASIBLE:
        raise program.unbounded("piqp", steps, found.x)
    raise gave_up("piqp", steps, str(status))
