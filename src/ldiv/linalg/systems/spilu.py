"""Incomplete LU factorizations under SciPy's name."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.typing import ArrayT, Trans
from ldiv.core.arrays.validate import transposition
from ldiv.core.calls.public import public
from ldiv.linalg.arguments.preconditioner import preconditioner
from ldiv.matrices.matrix import Matrix, MatrixLike


class IncompleteLU:
    """The result of `spilu`: F.solve(b) = M b for M near A^-1, and M itself, F.inverse."""

    def __init__(self, inverse: Matrix) -> None:
        self.inverse = inverse

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inverse.shape

    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """M b, M^T b or M^H b: near the solution of A x = b, and differentiable in b."""
        op = transposition(trans)
        M = {"N": self.inverse, "T": self.inverse.T, "H": self.inverse.H}[op]
        x: ArrayT = M @ b
        return x


@public
def spilu(
    A: MatrixLike,
    drop_tol: float | None = None,
    fill_factor: float | None = None,
    drop_rule: str | None = None,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: dict[str, Any] | None = None,
) -> IncompleteLU:
    """Factor a sparse matrix incompletely, for a preconditioner: SciPy's name for M="ilu".

        F = spilu(A);    F.solve(b) = M b,    M = (L U)^-1 near A^-1

    Parameters
    ----------
    A : SparseArray, or a sparse matrix of SciPy, PyTorch or JAX
        The matrix; rows and columns are scaled to 1 before entries are dropped.
    drop_tol, fill_factor, drop_rule, permc_spec, diag_pivot_thresh : optional
        As in SciPy.
    relax, panel_size, options : optional
        Accepted, as SciPy has them.

    Returns
    -------
    F : IncompleteLU
        To be passed as M to `solve`, `gmres` and their kin, without a LinearOperator around it.

    Raises
    ------
    EngineError
        When it is first used, where the incomplete factorization meets a zero pivot.
    ValueError, TypeError
        As in `preconditioner`.

    See Also
    --------
    preconditioner : other kinds.

    Notes
    -----
    Not differentiated in A: a solution does not depend on its preconditioner. F.solve is
    differentiable in b.
    Cost: 1 incomplete factorization, when it is first used.

    References
    ----------
    Li and Shao, ACM Trans. Math. Softw. 37 (2011).

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> A = sp.csc_array(np.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> F = ldiv.spilu(A)
    >>> F.solve(np.array([3.0, 4.0])), ldiv.gmres(A, np.array([3.0, 4.0]), M=F)[0].round(6)
    (array([1., 1.]), array([1., 1.]))
    """
    given: dict[str, Any] = {
        "drop_tol": drop_tol,
        "fill_factor": fill_factor,
        "drop_rule": drop_rule,
        "permc_spec": permc_spec,
        "diag_pivot_thresh": diag_pivot_thresh,
    }
    stated = {name: value for name, value in given.items() if value is not None}
    return IncompleteLU(preconditioner(A, "ilu", **stated))
