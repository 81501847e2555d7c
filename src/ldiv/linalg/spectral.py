"""What is smooth where single eigenpairs are not: an invariant subspace, and functions of the
matrix on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.core.arrays import real
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array
from ldiv.core.validate import require_callable
from ldiv.errors import expected_got
from ldiv.linalg.eigen_problem import EigenOptions, build_problem
from ldiv.linalg.eigenvector_phase import regauged_space
from ldiv.matrices.matrix import Matrix
from ldiv.rules.matrix_function import matrix_function
from ldiv.rules.subspace import Subspace
from ldiv.structures.dense import Dense
from ldiv.structures.product import Product


@public
def eigenspace(
    A: Any, k: int, M: Any = None, sigma: float | None = None, which: str = "LM", **options: Any
) -> tuple[Array, Array]:
    """Find an invariant subspace of a Hermitian matrix or pencil, differentiably, repeated
    eigenvalues included.

        A X = M X H,    X^H M X = I,    H = X^H A X

    Arguments as in `eigsh`, of which the options are v0, ncv, maxiter, tol, method, guard and
    on_degenerate. Returns X (*batch, n, k) and H (*batch, k, k), in an arbitrary basis.
    Differentiable in A and M in every mode and order, also where eigenvalues inside of the subspace
    meet, as long as those outside keep a distance: losses of X X^H, of X f(H) X^H, of the spectrum
    of H. A loss that depends on the basis raises NotDifferentiableError, as does a cut through a
    repeated eigenvalue; forward mode looks at the cut alone.
    Cost: as `eigsh`. Source: Stewart and Sun, Matrix Perturbation Theory, chapter V.

    >>> import ldiv, numpy as np
    >>> X, H = ldiv.eigenspace(np.diag([1.0, 1.0, 2.0, 5.0]), 2, which="SA")
    >>> (X @ X.T).round(12)
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.],
           [0., 0., 0., 0.]])
    """
    task, args = build_problem(A, M, EigenOptions(k, sigma, which, **_known(options)))
    X, H, *_ = bind(Subspace(task), *args)
    return regauged_space(X, H)


@public
def spectral_function(
    f: Callable[[Array], Array],
    A: Any,
    k: int,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    **options: Any,
) -> Matrix:
    """Make the matrix of a function of k eigenvalues, to multiply with, differentiably, repeated
    eigenvalues included.

        F = X f(Lam) X^H,    F @ Y costs 2 n k for each column of Y

    f: real to real, applied to an array of eigenvalues (..., k) of your framework entry by entry,
    smooth between them; what it closes over must be constant: eager PyTorch raises where it
    requires grad, elsewhere its gradient is lost. Other arguments as in `eigenspace`. With f = 1
    this is the density matrix.
    Differentiable in A and M, to second order, by divided differences: exact where eigenvalues
    meet. Cost: as `eigenspace`.
    Source: Daleckii and Krein (1965); Higham, Functions of Matrices, chapter 3.

    >>> import ldiv, numpy as np
    >>> F = ldiv.spectral_function(np.exp, np.diag([0.0, 0.0, 3.0]), 2, which="SA")
    >>> (F @ np.ones(3)).round(12)
    array([1., 1., 0.])
    """
    X, fH = _function(f, A, k, M, sigma, which, options)
    n, k = X.shape[-2:]
    return Matrix(Product((Dense(n, k), Dense(n, k).H)), (X @ fH, X))


@public
def spectral_sum(
    f: Callable[[Array], Array],
    A: Any,
    k: int,
    M: Any = None,
    sigma: float | None = None,
    which: str = "LM",
    **options: Any,
) -> Array:
    """Sum a function over k eigenvalues, differentiably, repeated eigenvalues included.

        tr f = sum_i f(lam_i)

    Arguments and derivatives as in `spectral_function`; returns (*batch,). Reverse mode takes no
    deflated solve.

    >>> import ldiv, numpy as np
    >>> float(ldiv.spectral_sum(lambda lam: lam**2, np.diag([1.0, 2.0, 2.0, 9.0]), 3, which="SA"))
    9.0
    """
    _, fH = _function(f, A, k, M, sigma, which, options)
    return real(namespace(fH).sum(namespace(fH).linalg.diagonal(fH), axis=-1))


def _function(
    f: Callable[[Array], Array],
    A: Any,
    k: int,
    M: Any,
    sigma: float | None,
    which: str,
    options: dict[str, Any],
) -> tuple[Array, Array]:
    """X and f(H)."""
    require_callable(
        "f",
        f,
        "a function of an array of eigenvalues",
        "For the density matrix: numpy.ones_like and its kin.",
    )
    X, H = eigenspace(A, k, M, sigma, which, **options)
    return X, matrix_function(f, H)


_OPTIONS = ("v0", "ncv", "maxiter", "tol", "method", "guard", "on_degenerate")


def _known(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(
                expected_got(
                    "options", "some of " + ", ".join(_OPTIONS), repr(name), "See ldiv.eigsh."
                )
            )
    return options
