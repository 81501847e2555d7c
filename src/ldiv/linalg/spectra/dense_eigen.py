"""Eigenpairs of dense matrices and pencils, under SciPy's names."""

from __future__ import annotations

from dataclasses import replace
from inspect import unwrap
from typing import Any, Literal, Unpack, overload

from ldiv.core.arrays.shapes import real
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import (
    as_float,
    require_flag,
    require_int,
    require_option,
    require_square,
)
from ldiv.core.calls.call import FIRST, Result, plan, planned_pair
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.some_outputs import CallsOfSome, SomeOutputs, some_outputs
from ldiv.engines.factors.spectral_calls import EigenvalueCalls, VectorCalls
from ldiv.errors import expected_got, shown
from ldiv.linalg.arguments.eigen_problem import (
    EigenOptions,
    EighKeywords,
    OnDegenerate,
    build_problem,
    hermitian,
    only_one,
)
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.structures.dense import Dense

PAIRS, VALUES = VectorCalls(), EigenvalueCalls()


@overload
def eigh(
    A: ArrayT,
    B: ArrayT | None = None,
    subset_by_index: tuple[int, int] | list[int] | None = None,
    *,
    eigvals_only: Literal[False] = False,
    b: ArrayT | None = None,
    **options: Unpack[EighKeywords],
) -> tuple[ArrayT, ArrayT]: ...
@overload
def eigh(
    A: ArrayT,
    B: ArrayT | None = None,
    subset_by_index: tuple[int, int] | list[int] | None = None,
    *,
    eigvals_only: Literal[True],
    b: ArrayT | None = None,
    **options: Unpack[EighKeywords],
) -> ArrayT: ...
@public
@planned_pair
def eigh(
    A: ArrayT,
    B: ArrayT | None = None,
    subset_by_index: tuple[int, int] | list[int] | None = None,
    *,
    eigvals_only: bool = False,
    b: ArrayT | None = None,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    driver: str | None = None,
    UPLO: Literal["L", "U"] = "L",
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Find the eigenvalues and eigenvectors of a dense Hermitian matrix or pencil, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I

    Parameters
    ----------
    A : array (*batch, n, n)
        Hermitian. Both triangles are read, and must agree up to rounding.
    B : array (*batch, n, n), optional
        Hermitian positive definite, read as A is; by default the identity.
    subset_by_index : pair of int (first, last), optional
        Which pairs, both ends included, in ascending order of eigenvalues from 0 on; by default
        all n.
    eigvals_only : bool, default False
        Return w alone.
    b : array, optional
        SciPy's name of B.
    lower, overwrite_a, overwrite_b, check_finite, driver, UPLO : optional
        Accepted, as SciPy has them, and NumPy, PyTorch and JAX the last one: both triangles are
        read, nothing is ever overwritten, numbers are always looked at, and there is one driver.
    on_degenerate : {"raise", "warn", "drop"}, default "raise"
        As in `eigsh`.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.
    X : array (*batch, n, k)
        The eigenvectors, B-orthonormal; not with eigvals_only.

    Raises
    ------
    NotSymmetricError, NotPositiveDefiniteError
        For an A or B that is not Hermitian, and a B that is not positive definite.
    NotDifferentiableError
        See `on_degenerate`.
    ValueError
        For shapes that do not fit, indices out of range, NaN and infinity.
    TypeError
        For a matrix that is not dense, for dtypes as in `eigsh`, and for mixed frameworks.

    Notes
    -----
    Differentiable as `eigsh`, in A and B.
    Cost: the full decomposition, 9 n^3 operations; a derivative takes a few products of that size,
    and solves nothing.

    References
    ----------
    Golub and Van Loan, chapter 8.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> w, X = ldiv.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> w
    array([1., 3.])
    """
    B = only_one("B", B, "b", b)
    require_option("UPLO", UPLO, ("L", "U"))
    if B is None and subset_by_index is None and is_array(A) and 0 in as_float("A", A).shape:
        nothing = _of_nothing(A)
        return nothing[0] if eigvals_only else nothing
    rule, args = _eigenpairs(A, B, subset_by_index, on_degenerate)
    if require_flag("eigvals_only", eigvals_only):
        return _found(rule, args, (0,), VALUES, FIRST)
    return _found(rule, args, (0, 1), PAIRS, _with_vectors)


def _found(
    rule: Eigenpairs, args: Tree, at: tuple[int, ...], calls: CallsOfSome, result: Result
) -> Any:
    if rule.compiled is None:
        return plan(rule, leaves(args), result)
    return plan(SomeOutputs(rule, at, calls), leaves(args), result, some_outputs)


def _with_vectors(out: tuple[Any, ...]) -> tuple[Any, Any]:
    return out[0], with_free_phase(out[0], out[1])


def _eigenpairs(
    A: Any, B: Any, subset_by_index: Any, on_degenerate: str
) -> tuple[Eigenpairs, tuple[Tree, ...]]:
    """The rule and its arguments, validated."""
    n = hermitian("A", A, B)[0].shape[0]
    if n == 0:
        raise ValueError(
            expected_got(
                "A", "a matrix with at least one row", "0 x 0", "It has no pairs to choose from."
            )
        )
    subset = (0, n - 1) if subset_by_index is None else subset_by_index
    what, advice = f"(first, last) with 0 <= first <= last < {n}", "Both ends are included."
    if not isinstance(subset, tuple | list) or len(subset) != 2:
        raise ValueError(expected_got("subset_by_index", what, shown(subset_by_index), advice))
    first, last = (
        require_int("subset_by_index", i, 0, n - 1, what=what, advice=advice) for i in subset
    )
    if first > last:
        raise ValueError(expected_got("subset_by_index", what, str(subset_by_index), advice))
    for name, a in (("A", A), ("B", B)):
        if a is not None and not isinstance(as_matrix(name, a).structure.unview()[0], Dense):
            raise TypeError(
                expected_got(
                    name,
                    "a dense array",
                    type(a).__name__,
                    "Use ldiv.eigsh, which knows the structure.",
                )
            )
    task, args = build_problem(
        A, B, EigenOptions(last - first + 1, method="lapack", on_degenerate=on_degenerate), "B"
    )
    return Eigenpairs(replace(task, which="index", first=first)), args


@public
@planned_pair
def eigvalsh(
    A: ArrayT,
    B: ArrayT | None = None,
    *,
    b: ArrayT | None = None,
    subset_by_index: tuple[int, int] | list[int] | None = None,
    **options: Unpack[EighKeywords],
) -> ArrayT:
    """Find the eigenvalues of a dense Hermitian matrix or pencil, differentiably.

        A x_i = lam_i B x_i

    Parameters
    ----------
    A : array (*batch, n, n)
        As in `eigh`.
    B : array (*batch, n, n), optional
        As in `eigh`.
    b : array, optional
        SciPy's name of B.
    subset_by_index : pair of int (first, last), optional
        As in `eigh`.
    **options :
        lower, overwrite_a, overwrite_b, check_finite, driver, UPLO and on_degenerate, as in `eigh`.

    Returns
    -------
    w : array (*batch, k)
        The eigenvalues, ascending.

    Raises
    ------
    NotSymmetricError, NotPositiveDefiniteError, NotDifferentiableError, ValueError, TypeError
        As in `eigh`.

    Notes
    -----
    Differentiable as the eigenvalues of `eigh` are.
    Cost: that of `eigh`, whose eigenvectors the derivative needs; half of it where nobody takes one.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([1., 3.])
    """
    # the planner alone: this call is remembered under its own name
    found: ArrayT = unwrap(eigh)(A, B, subset_by_index, eigvals_only=True, b=b, **options)
    return found


def _of_nothing(A: Any) -> tuple[Any, Any]:
    """The pairs of a matrix without rows, or of a batch without matrices: none."""
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return real(namespace(A).sum(A, axis=-1)), A + 0
