"""Eigenpairs of real symmetric tridiagonal matrices, under SciPy's names."""

from __future__ import annotations

from typing import Any, Literal, overload

from ldiv.core.arrays.shapes import batch_of, common_batch, is_complex, spread
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_batches,
    require_flag,
    require_option,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import shown, type_error, value_error
from ldiv.linalg.arguments.eigen_problem import OnDegenerate
from ldiv.linalg.spectra.dense_eigen import eigh, first_and_last
from ldiv.matrices.diagonals import diags_array


@overload
def eigh_tridiagonal(
    d: ArrayT,
    e: AnyArray,
    eigvals_only: Literal[False] = False,
    select: Literal["a", "i", "v"] = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
    *,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT]: ...
@overload
def eigh_tridiagonal(
    d: ArrayT,
    e: AnyArray,
    eigvals_only: Literal[True],
    select: Literal["a", "i", "v"] = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
    *,
    on_degenerate: OnDegenerate = "raise",
) -> ArrayT: ...
@public
def eigh_tridiagonal(
    d: ArrayT,
    e: AnyArray,
    eigvals_only: bool = False,
    select: Literal["a", "i", "v"] = "a",
    select_range: tuple[float, float] | list[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
    *,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Find the eigenpairs of a real symmetric tridiagonal matrix, differentiably.

        A x_i = lam_i x_i,    A_jj = d_j,    A_(j, j+1) = A_(j+1, j) = e_j

    Parameters
    ----------
    d : array (*batch, n)
        The diagonal, real.
    e : array (*batch, n - 1)
        The diagonal beside it, real.
    eigvals_only : bool, default False
        Return w alone.
    select : {"a", "i", "v"}, default "a"
        All pairs, or those of the indices, or in the interval, in `select_range`.
    select_range : pair of int (first, last) or of float (low, high), optional
        As `subset_by_index` or `subset_by_value` in `eigh`.
    check_finite, tol, lapack_driver : optional
        Accepted, as SciPy has them: numbers are always checked, and there is one driver.
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
    ValueError
        For shapes that do not fit, indices out of range, NaN and infinity.
    TypeError
        For complex numbers, dtypes other than float32 and float64, and mixed frameworks.

    See Also
    --------
    eigsh : a few pairs of a large one.

    Notes
    -----
    Differentiable as `eigh` is, in d and e.
    Cost: that of `eigh` for a dense matrix, 9 n^3 operations.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0]), eigvals_only=True)
    array([1., 3.])
    """
    diagonal, beside = _real("d", d, e), _real("e", e, d)
    for name, x in (("d", diagonal), ("e", beside)):
        require_known_finite(name, x)
    n = diagonal.shape[-1]
    if n == 0 or beside.shape[-1] != n - 1:
        came, advice = (
            f"{n} and {beside.shape[-1]} numbers",
            "One number less is beside the diagonal.",
        )
        raise value_error("d and e", "n >= 1 and n - 1 numbers", came, advice)
    only = require_flag("eigvals_only", eigvals_only)
    some = selection(select, select_range, n)
    diagonal, beside = common_precision(diagonal, beside)
    require_batches("e", batch_of(diagonal, 1), batch_of(beside, 1))
    batch = common_batch((1, 1), (diagonal, beside))
    diagonal, beside = (spread(x, batch, 1) for x in (diagonal, beside))
    dense: Any = diagonal[..., None]
    if n > 1:
        dense = diags_array([diagonal, beside, beside], offsets=[0, 1, -1]).toarray()
    w, X = eigh(dense, **some, on_degenerate=on_degenerate)
    return w if only else (w, X)


def selection(select: object, select_range: Any, n: int) -> dict[str, Any]:
    """SciPy's words for all of n eigenvalues, or some by index or value, as keywords of `eigh`."""
    require_option("select", select, ("a", "i", "v"))
    if (select == "a") != (select_range is None):
        advice = "(first, last) belong to select='i', (low, high) to 'v'."
        came = f"{shown(select_range)} with select={select!r}"
        raise value_error("select_range", "both or none", came, advice)
    if select == "v":
        return {"subset_by_value": select_range}
    if select == "i":
        return {"subset_by_index": first_and_last("select_range", select_range, n)}
    return {}


def _real(name: str, x: Any, other: Any) -> Array:
    x = as_float(name, x, other)
    if is_complex(x) or x.ndim == 0:
        came = f"shape {tuple(x.shape)} of {str(x.dtype).rpartition('.')[2]}"
        advice = "A Hermitian matrix that is complex is for eigh."
        raise type_error(name, "a vector of real numbers", came, advice)
    return x
