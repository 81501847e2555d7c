"""A^-1 as an object: factored when it is made; its transpose and its conjugate share the factor."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from pymatsolver.solvers import Base

from ldiv.core.arrays.typing import Assumption, Trans
from ldiv.errors import value_error
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.factorized import factorized
from ldiv.matrices.construct import asarray


class Solver(Base):  # type: ignore[misc]
    """The engines of ldiv as a solver of pymatsolver.

        Ainv @ b = A^-1 b

    Parameters
    ----------
    A : sparse matrix of SciPy, or array (n, n)
        The matrix.
    method : str, default "auto"
        As in `ldiv.factorized`.
    **keywords
        Those of pymatsolver: is_symmetric, is_hermitian, is_positive_definite become assumptions
        about A, check_accuracy, check_rtol and check_atol are checked after each solve.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, NotSymmetricError
        As `ldiv.factorized` does, when the solver is made.

    Notes
    -----
    Values only: SimPEG brings its derivatives itself, by solves with `Ainv.T`.
    Cost: 1 factorization, which `Ainv.T` and `Ainv.conj()` share.

    Examples
    --------
    >>> import ldiv.pymatsolver, numpy as np, scipy.sparse as sp
    >>> Ainv = ldiv.pymatsolver.Solver(sp.csr_array(np.array([[2.0, 1.0], [0.0, 4.0]])))
    >>> Ainv @ np.array([4.0, 4.0]), Ainv.T @ np.array([2.0, 5.0])
    (array([1.5, 1. ]), array([1., 1.]))
    """

    _trans: Trans = "N"

    def __init__(self, A: Any, method: str = "auto", **keywords: Any) -> None:
        super().__init__(A, **keywords)
        self.method = method
        matrix = asarray(A) if sp.issparse(A) else A
        self._factorization: Factorized | None = factorized(
            matrix, assume_a=self._assumption(), method=method
        )

    def _assumption(self) -> Assumption:
        if self.is_hermitian:
            return "pos" if self.is_positive_definite else "her"
        return "sym" if self.is_symmetric else "gen"

    def _solve_multiple(self, rhs: Any) -> Any:
        if self._factorization is None:
            raise value_error(
                "solve", "a factorization", "none after clean()", "Make a new Solver."
            )
        rhs = rhs.toarray() if sp.issparse(rhs) else np.asarray(rhs)
        return self._factorization.solve(
            rhs.astype(np.result_type(rhs, self.dtype), copy=False), self._trans
        )

    _solve_single = _solve_multiple

    def transpose(self) -> Solver:
        """The solver of A^T, with the same factor."""
        if self.is_symmetric:
            return self
        other = copy.copy(self)
        other._A = self.A.T
        other._trans = "T" if self._trans == "N" else "N"
        return other

    def get_attributes(self) -> dict[str, Any]:
        """The keywords with which a solver like this one is made."""
        return {**super().get_attributes(), "method": self.method}

    def clean(self) -> None:
        """Let go of the factor; transposes that share it keep it."""
        self._factorization = None
