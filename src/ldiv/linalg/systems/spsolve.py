"""SciPy's names for sparse systems, and for their complete and incomplete factorizations."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.typing import ArrayT, Trans
from ldiv.core.arrays.validate import transposition
from ldiv.core.calls.public import public
from ldiv.linalg.arguments.preconditioner import preconditioner
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.solve import solve, solve_triangular
from ldiv.matrices.matrix import Matrix, MatrixLike


@public
def spsolve(
    A: MatrixLike, b: ArrayT, permc_spec: str | None = None, use_umfpack: bool = True
) -> ArrayT:
    """Solve a sparse linear system, differentiably: `solve` under SciPy's name for it.

        A x = b

    Parameters
    ----------
    A : SparseArray, sparse matrix of SciPy, PyTorch or JAX, or any other matrix
        As in `solve`.
    b : array (n,) or (*batch, n, k)
        A block (n, 1) is solved as a block. A sparse matrix is written out.
    permc_spec, use_umfpack : optional
        Accepted, as SciPy has them: orderings and engines are ldiv's own.

    Returns
    -------
    x : array, shaped like b
        The solution, dense; of a sparse b, too, where SciPy's is a sparse matrix.

    Raises
    ------
    SingularMatrixError
        For a singular matrix, of which SciPy warns and returns NaN.
    ValueError, TypeError
        As in `solve`.

    See Also
    --------
    solve : with assumptions, engines, iterations.

    Notes
    -----
    Differentiable as `solve` is.
    Cost: that of `solve`.

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> ldiv.spsolve(sp.csc_array(np.diag([2.0, 4.0])), np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    return solve(A, b)


@public
def spsolve_triangular(
    A: MatrixLike,
    b: ArrayT,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> ArrayT:
    """Solve a sparse triangular system, differentiably: `solve_triangular` under SciPy's name.

        T x = b,    T the lower (or upper) triangle of A

    Parameters
    ----------
    A : SparseArray, sparse matrix of SciPy, PyTorch or JAX, or array
        The matrix, of which the other triangle is not read.
    b : array (n,) or (*batch, n, k)
        As in `solve_triangular`.
    lower : bool, default True
        Solve with the lower triangle; SciPy's default here, not that of `solve_triangular`.
    overwrite_A, overwrite_b : bool
        Accepted, as SciPy has them: nothing is ever overwritten.
    unit_diagonal : bool, default False
        The diagonal of T is ones, and that of A is not read.

    Returns
    -------
    x : array, shaped like b
        The solution.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `solve_triangular`.

    Notes
    -----
    Differentiable as `solve_triangular` is.
    Cost: that of `solve_triangular`.

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> A = sp.csr_array(np.array([[2.0, 0.0], [1.0, 4.0]]))
    >>> ldiv.spsolve_triangular(A, np.array([2.0, 5.0]))
    array([1., 1.])
    """
    return solve_triangular(A, b, lower=lower, unit_diagonal=unit_diagonal)


@public
def splu(
    A: MatrixLike,
    permc_spec: str | None = None,
    diag_pivot_thresh: float | None = None,
    relax: int | None = None,
    panel_size: int | None = None,
    options: dict[str, Any] | None = None,
) -> Factorized:
    """Factor a sparse matrix once, to solve with it often: `factorized` under SciPy's name.

        F = splu(A);    F.solve(b) = A^-1 b,    F.solve(b, "T") = A^-T b

    Parameters
    ----------
    A : SparseArray, sparse matrix of SciPy, PyTorch or JAX, or any other matrix
        As in `factorized`.
    permc_spec, diag_pivot_thresh, relax, panel_size, options : optional
        Accepted, as SciPy has them for SuperLU: orderings, pivots and engines are ldiv's own.

    Returns
    -------
    F : Factorized
        The factorization. It has no L, U, perm_c, perm_r and nnz, which differ from engine to
        engine: to ask for one raises AttributeError, which names what has them.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `factorized`.

    Notes
    -----
    Differentiable as `factorized` is.
    Cost: that of `factorized`.

    Examples
    --------
    >>> import ldiv, numpy as np, scipy.sparse as sp
    >>> F = ldiv.splu(sp.csc_array(np.array([[2.0, 1.0], [0.0, 4.0]])))
    >>> F.solve(np.array([3.0, 4.0])), F.solve(np.array([2.0, 5.0]), "T")
    (array([1., 1.]), array([1., 1.]))
    """
    return factorized(A)


class IncompleteLU:
    """The result of `spilu`: F.solve(b) = M b for M near A^-1, and M itself, F.inverse."""

    def __init__(self, inverse: Matrix) -> None:
        self.inverse = inverse

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inverse.shape

    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """M b, M^T b or M^H b: near the solution of A x = b, and differentiable in b."""
        return self.inverse._view(transposition(trans)) @ b


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
