"""Eigenpairs of Hermitian banded matrices in SciPy's diagonal-ordered form."""

from __future__ import annotations

from typing import Any, Literal

from ldiv.core.arrays.shapes import conj, real
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_float, require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import value_error
from ldiv.linalg.arguments.eigen_problem import OnDegenerate
from ldiv.linalg.spectra.dense_eigen import eigh
from ldiv.linalg.spectra.tridiagonal import eigh_tridiagonal, selection
from ldiv.matrices.diagonals import diags_array

Select = Literal["a", "i", "v"]


@public
def eig_banded(
    a_band: ArrayT,
    lower: bool = False,
    eigvals_only: bool = False,
    overwrite_a_band: bool = False,
    select: Select = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    max_ev: int = 0,
    check_finite: bool = True,
    *,
    on_degenerate: OnDegenerate = "raise",
) -> Any:
    """Find eigenpairs of a Hermitian banded matrix, differentiably.

        A X = X diag(w),    a_band[u + i - j, j] = A[i, j] for i <= j, or with lower=True
                            a_band[i - j, j] = A[i, j] for i >= j

    Parameters
    ----------
    a_band : array (*batch, u + 1, n)
        The diagonals of one triangle; the corners outside of A, and imaginary parts on its
        diagonal, are not read.
    lower : bool, default False
        a_band is the lower triangle.
    eigvals_only : bool, default False
        Return w alone.
    overwrite_a_band : bool
        Accepted, as SciPy has it: nothing is ever overwritten.
    select, select_range : optional
        As in `eigh_tridiagonal`.
    max_ev, check_finite : optional
        Accepted, as SciPy has them: numbers are always checked.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `eigh`.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.
    X : array (*batch, n, k)
        The eigenvectors, orthonormal; not with eigvals_only.

    Raises
    ------
    NotDifferentiableError
        As in `eigh`.
    ValueError, TypeError
        For shapes, indices, NaN and infinity, and dtypes.

    See Also
    --------
    eigsh : a few pairs of a large one.

    Notes
    -----
    Differentiable as `eigh` is; the cotangent of a_band stays in the band.
    Cost: that of `eigh` for a dense matrix, 9 n^3 operations.

    References
    ----------
    Golub and Van Loan, section 8.3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvals_banded(np.array([[0.0, 1.0], [2.0, 2.0]]))
    array([1., 3.])
    """
    band: Array = as_float("a_band", a_band)
    require_known_finite("a_band", band)
    if band.ndim < 2 or 0 in band.shape[-2:]:
        came, advice = str(tuple(band.shape)), "One row for each diagonal."
        raise value_error("a_band", "shape (..., u + 1, n)", came, advice)
    is_lower, only = require_flag("lower", lower), require_flag("eigvals_only", eigvals_only)
    rows, n = band.shape[-2:]
    some = selection(select, select_range, n)
    parts, offsets = [], []
    for d in range(min(rows, n)):
        part = band[..., d, : n - d] if is_lower else conj(band[..., rows - 1 - d, d:])
        part = part if d else namespace(part).astype(real(part), part.dtype)
        parts += [part, conj(part)][: 2 if d else 1]
        offsets += [-d, d][: 2 if d else 1]
    dense: Any = diags_array(parts, offsets=offsets, shape=(n, n)).toarray()
    w, X = eigh(dense, **some, on_degenerate=on_degenerate)
    return w if only else (w, X)


@public
def eigvals_banded(
    a_band: ArrayT,
    lower: bool = False,
    overwrite_a_band: bool = False,
    select: Select = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    check_finite: bool = True,
) -> ArrayT:
    """Find eigenvalues of a Hermitian banded matrix, differentiably.

    Parameters
    ----------
    a_band : array (*batch, u + 1, n)
        The diagonals of one triangle.
    lower, overwrite_a_band, select, select_range, check_finite : optional
        As in `eig_banded`.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `eig_banded`.

    Notes
    -----
    Differentiable as `eigvalsh` is. Cost: that of `eig_banded`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvals_banded(np.array([[2.0, 2.0], [1.0, 0.0]]), lower=True)
    array([1., 3.])
    """
    return eig_banded(
        a_band, lower=lower, eigvals_only=True, select=select, select_range=select_range
    )


@public
def eigvalsh_tridiagonal(
    d: ArrayT,
    e: AnyArray,
    select: Select = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> ArrayT:
    """Find eigenvalues of a symmetric tridiagonal matrix, differentiably.

    Parameters
    ----------
    d : array (*batch, n)
        The diagonal.
    e : array (*batch, n - 1)
        What is beside it.
    select, select_range : optional
        As in `eigh_tridiagonal`.
    check_finite, tol, lapack_driver : optional
        Accepted, as SciPy has them: LAPACK's dense solver is used.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.

    Raises
    ------
    NotDifferentiableError, ValueError, TypeError
        As in `eigh_tridiagonal`.

    Notes
    -----
    Differentiable as `eigvalsh` is. Cost: that of `eigh_tridiagonal`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvalsh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0]))
    array([1., 3.])
    """
    return eigh_tridiagonal(d, e, eigvals_only=True, select=select, select_range=select_range)
