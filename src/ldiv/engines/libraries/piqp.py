"""PIQP, an interior-point method with proximal terms, for sparse matrices and for dense ones.

Reference: Schwan, Jiang, Kuhn and Jones, PIQP: a proximal interior-point quadratic programming solver
(2023).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Plain, Program, gave_up, require


def solve(program: Program | Plain) -> Found:
    """A row is active where its multiplier is larger than its slack; of a plain program bounds are rows
    whether they are finite or not.
    """
    require("piqp")
    import piqp

    if isinstance(program, Plain):
        P, q, A, b, G, h, low, high = program
        ub = lb = np.arange(len(low))
    else:
        P, q, rows, sides, k, (ub, lb), *_ = program
        m, w = len(sides) - len(ub) - len(lb), len(sides) - len(lb)
        A, b, G, h, (low, high) = rows[:k], sides[:k], rows[k:m], sides[k:m], np.empty((2, 0))
        # PIQP has a place of its own for bounds: the last rows become low <= x <= high
        if m < len(sides):
            low, high = np.full((2, len(q)), [[-np.inf], [np.inf]])
            low[lb], high[ub] = -sides[w:], sides[m:w]
    has_bounds = len(low) > 0
    if program.is_dense:
        solver = piqp.DenseSolver()
    else:
        solver, P, A, G = piqp.SparseSolver(), *map(sp.csc_matrix, (P, A, G))
    solver.settings.verbose = False
    solver.setup(P, q, A, b, G, None, h, *((low, high) if has_bounds else (None, None)))
    status, found = solver.solve(), solver.result
    steps, z, slack = found.info.iter, found.z_u, found.s_u
    # multipliers and slacks of bounds in the order of their rows
    if has_bounds:
        z = np.concatenate([z, found.z_bu[ub], found.z_bl[lb]])
        slack = np.concatenate([slack, found.s_bu[ub], found.s_bl[lb]])
    if status == piqp.PIQP_SOLVED:
        return Found(z > slack, steps, found.x.copy())
    if isinstance(program, Program):
        if status == piqp.PIQP_PRIMAL_INFEASIBLE:
            raise program.infeasible("piqp", steps, np.concatenate([found.y, z]))
        if status == piqp.PIQP_DUAL_INFEASIBLE:
            raise program.unbounded("piqp", steps, found.x)
    raise gave_up("piqp", steps, str(status))
