"""min x^T P x / 2 + q^T x  with  A x = b, G x <= h: what a solver is given, and what it finds."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ldiv.errors import ConvergenceError, EngineError, QuadraticProgramError

Values = np.ndarray[Any, Any]
FEW = 3  # entries a row of the upper triangle of P, as plane meshes have: its factors stay sparse
LOOSE = 1e-3  # what a certificate may leave, as solvers give them


class Program(NamedTuple):
    """Matrices and vectors in double precision; bounds are rows.

    Matrices are arrays, or SciPy's CSC. `upper` is the upper triangle of P, which is 0 if
    `is_linear`. `rows` are those of A, `equalities` in number, then those of G, each over 2^units.
    The last rows say x_i <= ub_i, and then -x_i <= -lb_i, for the i of `bounds`. `among`: how many
    rows there were, and which of them these are, if some were left out.
    """

    upper: Any
    q: Values
    rows: Any
    sides: Values
    equalities: int
    bounds: tuple[Values, Values]
    units: Values
    is_linear: bool = False
    among: tuple[int, Values] | None = None

    @property
    def is_dense(self) -> bool:
        return isinstance(self.rows, np.ndarray)

    @property
    def is_box(self) -> bool:
        """Whether bounds are the only inequalities, and P and the equalities have few entries."""
        n, bounds = len(self.q), sum(map(len, self.bounds))
        only_bounds = len(self.sides) == self.equalities + bounds
        # each bound is one entry of the rows
        return bool(only_bounds and self.upper.nnz <= FEW * n and self.rows.nnz - bounds <= 2 * n)

    def without(self, out: Values) -> Program:
        """Return the program without the inequalities of the mask `out`."""
        if not out.any():
            return self
        count, at = self.among or (len(self.sides), np.arange(len(self.sides)))
        kept = np.ones(len(self.sides), bool)
        kept[self.equalities :] = ~out
        ub, lb = self.bounds
        # the last rows are bounds, those of ub first
        of_ub, of_lb = np.split(kept[len(kept) - len(ub) - len(lb) :], [len(ub)])
        return self._replace(
            rows=self.rows[kept],
            sides=self.sides[kept],
            bounds=(ub[of_ub], lb[of_lb]),
            units=self.units[kept],
            among=(count, at[kept]),
        )

    def infeasible(self, solver: str, steps: int, y: Values) -> Exception:
        """The error with the multipliers that prove infeasibility; if they prove it for no x near 1, the
        solver was wrong. With |A^T y|_1 = c no x of less than -b^T y / c is feasible.
        """
        k, y = self.equalities, np.array(y)
        # y_G >= 0: what is negative is rounding
        y[k:] = np.maximum(y[k:], 0)
        if not abs(self.rows.T @ y).sum() < -LOOSE * (self.sides @ y):
            return gave_up(solver, steps, "multipliers that prove nothing")
        # a row over 2^units has the multiplier 2^units times that of the row itself
        return infeasible(self._of_all(np.ldexp(y, -self.units)))

    def unbounded(self, solver: str, steps: int, d: Values) -> Exception:
        """The error with the direction d that proves unboundedness; if P d is not 0 or d leaves the
        constraints, the solver was wrong.
        """
        P, rows, d = sp.csc_array(self.upper), sp.csc_array(self.rows), np.array(d)
        # P d = U d + U^T d - diag(P) d for the upper triangle U
        size, Pd, along = abs(d).max(initial=0), P @ d + P.T @ d - P.diagonal() * d, rows @ d
        # A d = 0 and G d <= 0
        along[: self.equalities] = abs(along[: self.equalities])
        if abs(Pd).max(initial=0) > LOOSE * abs(P.data).max(initial=0) * size:
            return gave_up(solver, steps, "a direction without end in which P d is not 0")
        largest = abs(rows).max(axis=1).toarray().ravel()
        if (along > LOOSE * size * largest).any():
            return gave_up(solver, steps, "a direction without end that leaves the constraints")
        return unbounded(d)

    def _of_all(self, y: Values) -> Values:
        """Expand y to all rows, with 0 for rows that were left out."""
        if self.among is None:
            return y
        count, at = self.among
        found = np.zeros(count)
        found[at] = y
        return found


class Plain(NamedTuple):
    """A dense program as it is, in double precision; bounds may be infinite, or missing."""

    P: Values
    q: Values
    A: Values
    b: Values
    G: Values
    h: Values
    lb: Values
    ub: Values

    @property
    def is_dense(self) -> bool:
        return True


class Found(NamedTuple):
    """A solver's result: the rows of G that appear to hold with equality, its steps, and x."""

    active: Values
    steps: int
    x: Values


def is_here(package: str) -> bool:
    """Whether a package can be imported; for a loaded one the disk is not searched."""
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def require(package: str) -> None:
    """Raise an error that says what to install, if the package is missing."""
    if not is_here(package):
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
