"""Solvers for scikit-fem's `solve`, and a `solve` of its form that is differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.calls.public import public
from ldiv.linalg.spectra.eigen import eigsh
from ldiv.linalg.systems.solve import solve as linear_solve
from ldiv.matrices.construct import asarray
from ldiv.matrices.sparse_array import SparseArray
from ldiv.skfem.boundary import expand


def solver(**options: Any) -> Callable[..., Any]:
    """The engines of ldiv as a linear solver of `skfem.solve`.

        skfem.solve(K, f, solver=ldiv.skfem.solver(assume_a="pos"))

    Parameters
    ----------
    **options
        Those of `ldiv.solve`.

    Returns
    -------
    solver : callable
        solver(K, f, **options) returns the solution; what is given there takes precedence.

    Notes
    -----
    Every call factors its matrix: for many right-hand sides use `ldiv.factorized`.

    Examples
    --------
    >>> import ldiv.skfem, skfem
    >>> from skfem.models.poisson import laplace, unit_load
    >>> basis = skfem.Basis(skfem.MeshTri().refined(3), skfem.ElementTriP1())
    >>> system = skfem.condense(laplace.assemble(basis), unit_load.assemble(basis), D=basis.get_dofs())
    >>> u = skfem.solve(*system, solver=ldiv.skfem.solver(assume_a="pos"))
    >>> print(u.max().round(4))
    0.0728
    """

    def solved(K: Any, f: Any, **more: Any) -> Any:
        return linear_solve(asarray(K), f, **{**options, **more})

    return solved


def eigen_solver(**options: Any) -> Callable[..., Any]:
    """The eigensolvers of ldiv as one of `skfem.solve`, for symmetric pencils.

        skfem.solve(K, M, solver=ldiv.skfem.eigen_solver(k=3))

    Parameters
    ----------
    **options
        Those of `ldiv.eigsh`; by default k=5 and sigma=0, the smallest eigenvalues.

    Returns
    -------
    solver : callable
        solver(K, M, **options) returns the eigenvalues, ascending, and the eigenvectors as columns.

    Examples
    --------
    >>> import ldiv.skfem, skfem
    >>> from skfem.models.poisson import laplace, mass
    >>> basis = skfem.Basis(skfem.MeshTri().refined(4), skfem.ElementTriP1())
    >>> system = skfem.condense(laplace.assemble(basis), mass.assemble(basis), D=basis.get_dofs())
    >>> w, X = skfem.solve(*system, solver=ldiv.skfem.eigen_solver(k=1))
    >>> print(w.round(1))  # 2 pi^2 is 19.7
    [19.9]
    """

    def solved(K: Any, M: Any, **more: Any) -> Any:
        keywords = {"k": 5, "sigma": 0.0, **options, **more}
        return eigsh(asarray(K), M=asarray(M), **keywords)

    return solved


@public
def solve(A: Any, b: Any, x: Any = None, I: Any = None, **options: Any) -> Any:
    """Solve what `condense` returns, and expand the solution, differentiably.

        A u_I = b,    u = (u_I, x_D);    or    A x_i = lam_i B x_i

    Parameters
    ----------
    A : SparseArray (*batch, m, m), or a sparse matrix of SciPy
        The matrix.
    b : array (m,) or (*batch, m, k), or SparseArray
        The right-hand side; a matrix makes an eigenproblem of it.
    x, I : optional
        The prescribed values and the unknowns that stay, as `condense` returns them.
    **options
        Those of `ldiv.solve`; for an eigenproblem those of `ldiv.eigsh`, as in `eigen_solver`.

    Returns
    -------
    u : array (n,), (*batch, n) of a vector b, or (*batch, n, k)
        For an eigenproblem the pair of eigenvalues and eigenvectors.

    Raises
    ------
    SingularMatrixError, NotPositiveDefiniteError, ConvergenceError, ...
        As `ldiv.solve` and `ldiv.eigsh` do.

    Notes
    -----
    Differentiable in A, b and x as `ldiv.solve` and `ldiv.eigsh` are. x and I go together: without
    them the solution is returned as it is.
    Cost: 1 factorization and 1 solve; the derivative is one more solve with the same factors.

    Examples
    --------
    >>> import ldiv.skfem, torch, skfem
    >>> from skfem.models.poisson import laplace, unit_load
    >>> basis = skfem.Basis(skfem.MeshTri().refined(3), skfem.ElementTriP1())
    >>> stiffness = ldiv.skfem.Assembly(laplace.elemental(basis))
    >>> f = torch.from_numpy(unit_load.assemble(basis))
    >>> c = torch.ones(basis.nelems, dtype=torch.float64, requires_grad=True)
    >>> u = ldiv.skfem.solve(*ldiv.skfem.condense(stiffness(c), f, D=basis.get_dofs()), assume_a="pos")
    >>> work = f @ u
    >>> work.backward()
    >>> print((c.grad @ c / work).item().__round__(6))  # it is homogeneous of degree -1
    -1.0
    """
    if isinstance(b, SparseArray) or hasattr(b, "tocsc"):
        w, y = eigen_solver(**options)(A, b)
        return w, y if x is None or I is None else expand(y, x, I)
    y = solver(**options)(A, b)
    if x is None or I is None:
        return y
    if np.ndim(b) == 1 < y.ndim:  # a vector for each matrix of a batch
        return expand(y[..., None], x, I)[..., 0]
    return expand(y, x, I)
