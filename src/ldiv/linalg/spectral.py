"""What is smooth where single eigenpairs are not: an invariant subspace, functions of the matrix on it, singular triplets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ldiv.core.arrays import batch_of, conj, real, transpose
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array, leaves
from ldiv.core.validate import require_callable, require_flag, require_float, require_int
from ldiv.errors import got, shown
from ldiv.linalg.eigen import posed
from ldiv.linalg.eigenvector_phase import regauged, regauged_space
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.rules.matrix_function import matrix_function
from ldiv.rules.subspace import Subspace
from ldiv.structures.block import Block
from ldiv.structures.dense import Dense
from ldiv.structures.product import Product
from ldiv.structures.self_adjoint import SelfAdjoint


@public
def eigenspace(A: Any, k: int, M: Any = None, sigma: float | None = None, which: str = "LM", **options: Any) -> tuple[Array, Array]:
    """Find an invariant subspace of a Hermitian matrix or pencil, differentiably, repeated eigenvalues included.

        A X = M X H,    X^H M X = I,    H = X^H A X

    Arguments as in `eigsh`, of which the options are v0, ncv, maxiter, tol, method, guard and on_degenerate. Returns X (*batch, n, k)
    and H (*batch, k, k), in an arbitrary basis.
    Differentiable in A and M in every mode and order, also where eigenvalues inside of the subspace meet, as long as those outside keep
    a distance: losses of X X^H, of X f(H) X^H, of the spectrum of H. A loss that depends on the basis raises NotDifferentiableError, as
    does a cut through a repeated eigenvalue; forward mode looks at the cut alone.
    Cost: as `eigsh`. Source: Stewart and Sun, Matrix Perturbation Theory, chapter V.

    >>> import ldiv, numpy as np
    >>> X, H = ldiv.eigenspace(np.diag([1.0, 1.0, 2.0, 5.0]), 2, which="SA")
    >>> (X @ X.T).round(12)
    array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.],
           [0., 0., 0., 0.]])
    """
    task, args = posed(A, k, M, sigma, which, **_known(options))
    X, H, *_ = bind(Subspace(task), *args)
    return regauged_space(X, H)


@public
def spectral_function(
    f: Callable[[Array], Array], A: Any, k: int, M: Any = None, sigma: float | None = None, which: str = "LM", **options: Any
) -> Matrix:
    """Make the matrix of a function of k eigenvalues, to multiply with, differentiably, repeated eigenvalues included.

        F = X f(Lam) X^H,    F @ Y costs 2 n k for each column of Y

    f: real to real, applied to an array of eigenvalues (..., k) of your framework entry by entry, smooth between them; what it closes
    over must be constant: eager PyTorch raises where it requires grad, elsewhere its gradient is lost. Other arguments as in `eigenspace`.
    With f = 1 this is the density matrix.
    Differentiable in A and M, to second order, by divided differences: exact where eigenvalues meet. Cost: as `eigenspace`.
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
def spectral_sum(f: Callable[[Array], Array], A: Any, k: int, M: Any = None, sigma: float | None = None, which: str = "LM", **options: Any) -> Array:
    """Sum a function over k eigenvalues, differentiably, repeated eigenvalues included.

        tr f = sum_i f(lam_i)

    Arguments and derivatives as in `spectral_function`; returns (*batch,). Reverse mode takes no deflated solve.

    >>> import ldiv, numpy as np
    >>> float(ldiv.spectral_sum(lambda lam: lam**2, np.diag([1.0, 2.0, 2.0, 9.0]), 3, which="SA"))
    9.0
    """
    _, fH = _function(f, A, k, M, sigma, which, options)
    return real(namespace(fH).sum(namespace(fH).linalg.diagonal(fH), axis=-1))


def _function(f: Callable[[Array], Array], A: Any, k: int, M: Any, sigma: float | None, which: str, options: dict[str, Any]) -> tuple[Array, Array]:
    """X and f(H)."""
    require_callable("f", f, "a function of an array of eigenvalues", "For the density matrix: numpy.ones_like and its kin.")
    X, H = eigenspace(A, k, M, sigma, which, **options)
    return X, matrix_function(f, H)


_OPTIONS = ("v0", "ncv", "maxiter", "tol", "method", "guard", "on_degenerate")


def _known(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(got("options", "some of " + ", ".join(_OPTIONS), repr(name), "See ldiv.eigsh."))
    return options


@public
def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: Array | None = None,
    maxiter: int | None = None,
    return_singular_vectors: bool = True,
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: str = "raise",
) -> Any:
    """Find the k largest singular values and vectors of a rectangular matrix, differentiably.

        A v_i = s_i u_i,    A^H u_i = s_i v_i,    U^H U = V^H V = I

    A: an array (*batch, m, n), a SparseArray or an operator, of rank k at least. Returns u (*batch, m, k), s (*batch, k), ascending, and vh
    (*batch, k, n); with return_singular_vectors=False s alone. They are the pairs of [[0, A], [A^H, 0]], whose eigenvalues are +-s: so
    small s keep their digits, and derivatives, on_degenerate and errors are those of `eigsh`; a singular value that vanishes, whose vectors
    are not determined, raises. which: "LM" only. v0: (min(m, n),), a start for the vectors of the shorter side.
    Cost: products with A and A^H; each direction of a derivative k deflated solves by MINRES, with products.
    Source: Golub and Van Loan, section 8.6.

    >>> import ldiv, numpy as np
    >>> u, s, vh = ldiv.svds(np.diag([3.0, 2.0, 1.0])[:, :2], 1)
    >>> s
    array([3.])
    """
    matrix = as_matrix("A", A)
    m, n = matrix.structure.shape
    return_singular_vectors = require_flag("return_singular_vectors", return_singular_vectors)
    if min(m, n) == 0:
        raise ValueError(got("A", "a matrix with at least one row and one column", f"{m} x {n}", "It has no singular values."))
    k = require_int("k", k, 1, min(m, n), what=f"a number of singular values from 1 to {min(m, n)}", advice="It is how many are returned.")
    if not isinstance(which, str) or which != "LM":
        raise ValueError(got("which", "'LM'", shown(which), "The smallest ones are eigenvalues of A.H @ A near sigma=0: use ldiv.eigsh."))
    parts = (matrix.structure, matrix.structure.H)
    whole = Matrix(SelfAdjoint(Block(parts, ((0, 1), (1, 0)), (m, n), (m, n))), (matrix.params, matrix.params))
    start = None if v0 is None else _start(matrix, v0)
    task, args = posed(whole, k, None, None, "LA", start, ncv, maxiter, tol, method, guard, on_degenerate)
    s, x, *_ = bind(Eigenpairs(replace(task, positive=True)), *args)
    x = regauged(s, x)
    u, v = 2**0.5 * x[..., :m, :], 2**0.5 * x[..., m:, :]
    return (u, s, conj(transpose(v))) if return_singular_vectors else s


def _start(matrix: Matrix, v0: Array) -> Array:
    """A vector for both sides."""
    m, n = matrix.structure.shape
    if tuple(require_float("v0", v0).shape) != (min(m, n),):
        raise ValueError(got("v0", f"shape ({min(m, n)},)", str(tuple(v0.shape)), "It belongs to the shorter side."))
    if any(batch_of(x, c) for x, c in zip(leaves(matrix.params), leaves(matrix.structure.core), strict=True)):
        raise ValueError(got("v0", "one matrix", "a batch", "Leave it out: the start of each is the same one."))
    return namespace(v0).concat([matrix @ v0, v0] if m >= n else [v0, matrix.H @ v0])
