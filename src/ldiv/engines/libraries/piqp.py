"""PIQP, an interior-point method with proximal terms, for sparse matrices and for dense ones.

Reference: Schwan, Jiang, Kuhn and Jones, PIQP: a proximal interior-point quadratic programming solver
(2023).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, Values, gave_up, require


def solve(program: Program) -> Found:
    """A row is active where its multiplier is larger than its slack."""
    require("piqp")
    import piqp

    upper, q, rows, sides, k, (ub, lb), *_ = program
    is_dense = program.is_dense
    solver = piqp.DenseSolver() if is_dense else piqp.SparseSolver()
    solver.settings.verbose = False
    m = len(sides) - len(ub) - len(lb)
    if is_dense:
        of_rows = rows.toarray()
        P, A, G = map(np.asfortranarray, (upper.toarray(), of_rows[:k], of_rows[k:m]))
    else:
        P, A, G = map(sp.csc_matrix, (upper, rows[:k], rows[k:m]))
    high = _spread(len(q), ub, sides[m : m + len(ub)], np.inf)
    low = _spread(len(q), lb, -sides[m + len(ub) :], -np.inf)
    solver.setup(P, q, A, sides[:k], G, None, sides[k:m], low, high)
    status, found = solver.solve(), solver.result
    z = np.concatenate([found.z_u, found.z_bu[ub], found.z_bl[lb]])
    slack = np.concatenate([found.s_u, found.s_bu[ub], found.s_bl[lb]])
    steps = int(found.info.iter)
    if status == piqp.PIQP_PRIMAL_INFEASIBLE:
        raise program.infeasible("piqp", steps, np.concatenate([found.y, z]))
    if status == piqp.PIQP_DUAL_INFEASIBLE:
        raise program.unbounded("piqp", steps, found.x)
    if status != piqp.PIQP_SOLVED:
        raise gave_up("piqp", steps, str(status))
    return Found(z > slack, steps, np.array(found.x))


def _spread(n: int, at: Values, x: Values, elsewhere: float) -> Values | None:
    if not len(at):
        return None
    found = np.full(n, elsewhere)
    found[at] = x
    return found
