"""HiGHS, a simplex method: linear programs, at a vertex, whose basis is the active rows.

Reference: Huangfu and Hall, Parallelizing the dual revised simplex method (2018).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from ldiv.engines.libraries.program import Found, Program, Values, gave_up, require
from ldiv.errors import EngineError


def solve(program: Program) -> Found:
    """Active are the rows outside of the basis: with A as many as there are unknowns, and independent,
    at a vertex where more rows meet, too.
    """
    require("highspy")
    highspy: Any = import_module("highspy")  # whose stubs leave functions out
    if not program.is_linear:
        raise EngineError(
            "solve_qp: HiGHS solves linear programs here, and P is not zero: take solver='clarabel'."
        )
    if not program.rows.shape[0] and program.q.any():  # of which HiGHS has no certificate
        raise program.unbounded("HiGHS", 0, -program.q)
    solver = highspy.Highs.__base__()  # which, unlike its child, prints nothing when it is made
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", "simplex")
    solver.setOptionValue("presolve", "off")  # which leaves no certificate
    solver.passModel(_model(highspy, program))
    solver.run()
    status, steps = solver.getModelStatus(), int(solver.getInfo().simplex_iteration_count)
    if status == highspy.HighsModelStatus.kInfeasible:
        raise program.infeasible("HiGHS", steps, -_ray(solver.getDualRay()))
    if status == highspy.HighsModelStatus.kUnbounded:
        raise program.unbounded("HiGHS", steps, _ray(solver.getPrimalRay()))
    if status != highspy.HighsModelStatus.kOptimal:
        raise gave_up("HiGHS", steps, solver.modelStatusToString(status))
    basic = highspy.HighsBasisStatus.kBasic
    rows = solver.getBasis().row_status[program.equalities :]
    return Found(
        np.array([row != basic for row in rows], bool),
        steps,
        np.array(solver.getSolution().col_value),
    )


def _ray(found: Any) -> Values:
    _, is_here, ray = found
    if not is_here:
        raise gave_up("HiGHS", 0, "no certificate of a program without a solution")
    return np.array(ray)


def _model(highspy: Any, program: Program) -> Any:
    _, q, rows, sides, k, *_ = program
    # x is free, as bounds are rows; equalities have the same side twice
    free, below = np.full(len(q), np.inf), np.full(len(sides) - k, -np.inf)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = q, -free, free
    model.row_lower_ = np.concatenate([sides[:k], below])
    model.row_upper_ = sides
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    columns = sp.csc_array(rows)
    model.a_matrix_.start_, model.a_matrix_.index_ = columns.indptr, columns.indices
    model.a_matrix_.value_ = columns.data
    return model
