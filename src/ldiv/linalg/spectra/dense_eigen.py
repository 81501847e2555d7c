"""Eigenpairs of dense matrices and pencils, under SciPy's names."""

from __future__ import annotations

from dataclasses import replace
from inspect import unwrap
from typing import Any, Literal, Unpack, overload

import numpy as np

from ldiv.core.arrays.shapes import adjoint, real
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import (
    as_float,
    require_flag,
    require_int,
    require_known,
    require_option,
    require_square,
)
from ldiv.core.calls.call import FIRST, Result, plan, planned_pair
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import constant, is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import finite, require_known_finite, unwarned
from ldiv.core.rules.rule import bind
from ldiv.core.rules.some_outputs import CallsOfSome, SomeOutputs, some_outputs
from ldiv.engines.factors.spectral_calls import EigenvalueCalls, VectorCalls
from ldiv.errors import shown, type_error, value_error
from ldiv.linalg.arguments.alternatives import only_one
from ldiv.linalg.arguments.eigen_problem import (
    EigenOptions,
    EighKeywords,
    OnDegenerate,
    build_problem,
    hermitian,
)
from ldiv.linalg.spectra.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import as_matrix, common_dtype
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.rules.solve import solve
from ldiv.structures.dense import Dense
from ldiv.structures.triangular import triangular

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
    type: Literal[1, 2, 3] = 1,
    subset_by_value: tuple[float, float] | list[float] | None = None,
    on_degenerate: OnDegenerate = "raise",
) -> tuple[ArrayT, ArrayT] | ArrayT:
    """Find the eigenvalues and eigenvectors of a dense Hermitian matrix or pencil, differentiably.

        A x_i = lam_i B x_i,    X^H B X = I         type 1
        A B x_i = lam_i x_i,    X^H B X = I         type 2
        B A x_i = lam_i x_i,    X^H B^-1 X = I      type 3

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
        read, nothing is ever overwritten, numbers are always checked, and there is one driver.
    type : {1, 2, 3}, default 1
        The problem with B, as above.
    subset_by_value : pair of float (low, high), optional
        The pairs with low < lam <= high, of one matrix whose numbers are known now: not in a trace.
        Which of all pairs these are is a constant of the derivative.
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
    Cost: the full decomposition, 9 n^3 operations, with subset_by_value all eigenvalues, too; a
    derivative takes a few products of that size, and solves nothing.

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
    some: dict[str, Any] = {"eigvals_only": eigvals_only, "on_degenerate": on_degenerate}
    if require_int("type", type, 1, 3) > 1:
        by = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value}
        return _of_product(A, B, type == 2, **by, **some)
    if subset_by_value is not None:
        if subset_by_index is not None:
            what, advice = "one of subset_by_index and subset_by_value", "Each chooses the pairs."
            raise value_error("subset_by_value", what, "both", advice)
        return _in_interval(A, B, subset_by_value, **some)
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
        raise value_error(
            "A", "a matrix with at least one row", "0 x 0", "It has no pairs to choose from."
        )
    subset = (0, n - 1) if subset_by_index is None else subset_by_index
    first, last = first_and_last("subset_by_index", subset, n)
    for name, a in (("A", A), ("B", B)):
        if a is not None and not isinstance(as_matrix(name, a).structure.unview()[0], Dense):
            advice = "Use ldiv.eigsh, which knows the structure."
            raise type_error(name, "a dense array", type(a).__name__, advice)
    task, args = build_problem(
        A, B, EigenOptions(last - first + 1, method="lapack", on_degenerate=on_degenerate), "B"
    )
    return Eigenpairs(replace(task, which="index", first=first)), args


def _of_product(A: Any, B: Any, inside: bool, **options: Any) -> Any:
    """The pairs of A B, if it is inside, or of B A: with B = L L^H from those of L^H A L."""
    if B is None:
        raise value_error("type", "1 without B", "2" if inside else "3", "It says where B stands.")
    _, (a, b, _) = _eigenpairs(A, B, None, options["on_degenerate"])
    a, L = common_dtype(a, bind(Cholesky(), b)[0])
    require_known_finite("A", a)
    with unwarned():
        product = finite("eigh", adjoint(L) @ a @ L)
    found = eigh(product, **options)
    if options["eigvals_only"]:
        return found
    # A B x = lam x of x = L^-H y, B A x = lam x of x = L y
    w, y = found
    return w, solve(triangular(L.shape[-1], True).H, L, y) if inside else L @ y


def _in_interval(A: Any, B: Any, interval: Any, **options: Any) -> Any:
    """The pairs with low < lam <= high, by their indices among all."""
    what, advice = "(low, high) with low < high", "A pair with low < lam <= high is found."
    is_pair = isinstance(interval, tuple | list) and len(interval) == 2
    if not is_pair or not all(isinstance(x, int | float | np.number) for x in interval):
        raise value_error("subset_by_value", what, shown(interval), advice)
    if not interval[0] < interval[1]:
        raise value_error("subset_by_value", what, interval, advice)
    w = require_known("eigenvalues", constant(eigvalsh(A, B)), "Use subset_by_index in a trace.")
    if w.ndim != 1:
        came, advice = f"a batch {w.shape[:-1]}", "Each member has another number of pairs."
        raise value_error("A", "one matrix with subset_by_value", came, advice)
    first, end = np.searchsorted(w, interval, side="right")
    found = eigh(A, B, (0, 0) if first == end else (first, end - 1), **options)
    if first < end:
        return found
    return found[..., :0] if options["eigvals_only"] else tuple(x[..., :0] for x in found)


def first_and_last(name: str, subset: Any, n: int) -> tuple[int, int]:
    """The indices of the first and the last of n pairs."""
    what, advice = f"(first, last) with 0 <= first <= last < {n}", "Both ends are included."
    if not isinstance(subset, tuple | list) or len(subset) != 2:
        raise value_error(name, what, shown(subset), advice)
    first, last = (require_int(name, i, 0, n - 1, what=what, advice=advice) for i in subset)
    if first > last:
        raise value_error(name, what, subset, advice)
    return first, last


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
    A, B : array (*batch, n, n), B optional
        As in `eigh`.
    b : array, optional
        SciPy's name of B.
    subset_by_index : pair of int (first, last), optional
        As in `eigh`.
    **options :
        lower, overwrite_a, overwrite_b, check_finite, driver, UPLO, type, subset_by_value and
        on_degenerate, as in `eigh`.

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
    Cost: that of `eigh`, whose eigenvectors the derivative needs; half of it without a derivative.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([1., 3.])
    """
    # the planner alone: this call is remembered under its own name
    return unwrap(eigh)(A, B, subset_by_index, eigvals_only=True, b=b, **options)


def _of_nothing(A: Any) -> tuple[Any, Any]:
    """The pairs of a matrix without rows, or of a batch without matrices: none."""
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return real(namespace(A).sum(A, axis=-1)), A + 0
