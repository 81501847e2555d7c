"""min x^T P x / 2 + q^T x  with  A x = b, G x <= h: what a solver is given, and what it finds."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np

from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError

Values = np.ndarray[Any, Any]
CURVED = 1e-3  # of P, in a certificate as solvers give them


class Program(NamedTuple):
    """SciPy's CSC matrices in double precision, and vectors; bounds are rows.

    `upper` is the upper triangle of P; `rows` are those of A, `equalities` in number, then of G, each
    over 2^units, and at their end those that say x_i <= ub_i, and then -x_i <= -lb_i, for the i of
    `bounds`.
    """

    upper: Any
    q: Values
    rows: Any
    sides: Values
    equalities: int
    bounds: tuple[Values, Values]
    units: Values

    @property
    def is_dense(self) -> bool:
        """Are half of the entries there? Bounds do not count."""
        n, bounds = len(self.q), sum(map(len, self.bounds))
        largest = n * (n + 1) // 2 + n * (len(self.sides) - bounds)
        return 2 * (self.upper.nnz + self.rows.nnz - bounds) >= largest

    def infeasible(self, y: Values) -> QuadraticProgramError:
        """With the multipliers that prove it."""
        return infeasible(np.ldexp(y, -self.units))

    def unbounded(self, solver: str, steps: int, d: Values) -> Exception:
        """With the direction that proves it, unless P d is not 0: then the solver was wrong."""
        P, d = self.upper, np.array(d)
        Pd = P @ d + P.T @ d - P.diagonal() * d
        if abs(Pd).max(initial=0) > CURVED * abs(P.data).max(initial=0) * abs(d).max(initial=0):
            return gave_up(solver, steps, "a direction without end in which P d is not 0")
        return unbounded(d)


class Found(NamedTuple):
    """Which rows of G hold with equality, as far as the solver knows, and the number of its steps."""

    active: Values
    steps: int


def require(package: str) -> None:
    """Or an error that says what to install."""
    if importlib.util.find_spec(package) is None:
        raise EngineError(
            f"solve_qp: inequalities want a solver, and {package} is not here: pip install 'ldiv[qp]'."
        )


def infeasible(y: Values, where: str = "") -> QuadraticProgramError:
    proof = "y = (y_A, y_G), y_G >= 0, with A^T y_A + G^T y_G = 0 and b^T y_A + h^T y_G < 0"
    return QuadraticProgramError("infeasible", y, proof, where)


def unbounded(d: Values) -> QuadraticProgramError:
    return QuadraticProgramError("unbounded", d, "d with P d = 0, A d = 0, G d <= 0 and q^T d < 0")


def gave_up(solver: str, steps: int, status: str) -> ConvergenceError:
    return ConvergenceError(
        solver,
        steps,
        None,
        0.0,
        f"it ended with {status}",
        "numbers of very different size in one row, or constraints that only just have a solution.",
    )
