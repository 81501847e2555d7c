"""Preconditioners by name, and what else users may pass as M."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

from ldiv.core.arrays.validate import require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import is_array
from ldiv.core.frameworks.folders import files
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.forking import import_module
from ldiv.core.rules.record import snapshot
from ldiv.core.rules.structure import Structure
from ldiv.engines import registry
from ldiv.engines.preconditioners.approximate_inverse import ApproximateInverse
from ldiv.errors import type_error, value_error
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix


class HasInverse(Protocol):
    """A factorization, as `factorized` returns it, whose inverse is a preconditioner."""

    @property
    def inverse(self) -> Matrix: ...


PreconditionerLike: TypeAlias = Matrix | HasInverse | str  # what solvers take for M


@public
def preconditioner(
    A: MatrixLike,
    kind: str,
    *,
    assume_a: Literal["gen", "sym", "her", "pos"] = "gen",
    **options: Any,
) -> Matrix:
    """Build a preconditioner, a matrix near A^-1 to be passed as `M` to `solve`.

        "jacobi":        M = diag(A)^-1
        "block_jacobi":  M = the inverse of the dense blocks on the diagonal of A
        "ilu":           M = (L U)^-1, an incomplete LU factorization; for `gmres` and `bicgstab`
        "amg":           M = one V-cycle of algebraic multigrid (`pip install ldiv[amg]`)

    Parameters
    ----------
    A : SparseArray, or for "jacobi" and "block_jacobi" also an array
        The matrix of the system, or one near it.
    kind : str
        "jacobi", "block_jacobi", "ilu" or "amg".
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        As in `solve`.
    **options :
        Of "block_jacobi": block_size, 12 by default, so that nodes of 1, 2, 3, 4 or 6 unknowns stay
        whole. Of "ilu": drop_tol, fill_factor, drop_rule, permc_spec and diag_pivot_thresh of
        `scipy.sparse.linalg.spilu`, with its defaults. Of "amg": near_nullspace, an array (n, q) of
        what A nearly maps to zero, by default the constants, in elasticity the rigid motions; and
        those of `pyamg.smoothed_aggregation_solver`.

    Returns
    -------
    M : Matrix (n, n)
        The preconditioner, of the values that A has now, which are copied.

    Raises
    ------
    ValueError
        For an unknown kind, for shapes, and for a matrix without the entries that the kind needs.
    SingularMatrixError
        For "ilu", when it is first used, of a matrix whose entries lie so that it is singular.
    TypeError
        For unknown options.
    EngineError
        For "amg" where pyamg is not installed; for "ilu", when it is first used, where the
        incomplete factorization meets a zero pivot.

    Notes
    -----
    Not differentiated: a solution does not depend on its preconditioner.
    Of a Hermitian matrix all but "ilu" are Hermitian, and "jacobi" and "block_jacobi" positive
    definite; "ilu" pivots, and so `cg`, `minres` and `lobpcg` refuse it.
    Cost: "jacobi" a division; "block_jacobi" the decomposition of n / block_size small matrices;
    "ilu" factors and "amg" builds its hierarchy when they are first used, once for a set of values.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.array([1.0, 10.0, 100.0])], offsets=[0], shape=(3, 3))
    >>> ldiv.preconditioner(A, "jacobi") @ np.array([1.0, 10.0, 100.0])
    array([1., 1., 1.])
    """
    require_option("assume_a", assume_a, ("gen", "sym", "her", "pos"))
    require_option("kind", kind, kinds())
    _, structure, params, _ = promised_square(A, assume_a)
    structure, params = build(kind, structure, params, **options)
    return Matrix(structure, snapshot(params))


@lru_cache(maxsize=1)
def kinds() -> tuple[str, ...]:
    """The names of all preconditioners."""
    return tuple(files("preconditioner"))


def build(kind: str, structure: Structure, p: Tree, **options: Any) -> tuple[Structure, Tree]:
    """The structure and parameters of the preconditioner of this name."""
    return import_module(files("preconditioner")[kind]).build(structure, p, **options)


def require_hermitian(M: Structure, method: str, name: str = "M") -> None:
    """Raise for a preconditioner that is known not to be Hermitian."""
    if isinstance(M, ApproximateInverse) and not M.hermitian:
        raise value_error(
            name,
            f"a Hermitian matrix, as {method} needs",
            f"{type(M).__name__}, which is not, even where A is",
            "Use method='gmres' or 'bicgstab', or another M: 'jacobi', 'block_jacobi', 'amg'.",
        )


def given(
    M: PreconditionerLike, structure: Structure, p: Tree, name: str = "M"
) -> tuple[Structure, Tree]:
    """The structure and parameters of M for the matrix S(p), as a user passed it by this name."""
    engine = registry.whole(structure)
    if engine is not None and engine.preconditioner is not None:
        return engine.preconditioner(M, structure), ()
    if isinstance(M, str):
        return build(require_option(name, M, kinds()), structure, p)
    # the inverse of a factorization, not the property of a class that was passed by mistake
    inverse = None if isinstance(M, type) else getattr(M, "inverse", None)
    matrix = inverse if isinstance(inverse, Matrix) else M
    if isinstance(matrix, Matrix) or (
        not isinstance(matrix, Structure | type) and (is_array(matrix) or hasattr(matrix, "shape"))
    ):
        matrix = as_matrix(name, matrix, *leaves(p))
    if not isinstance(matrix, Matrix):
        expected = "the name of a preconditioner, a Matrix near A^-1, or what `factorized` gives"
        raise type_error(name, expected, type(M).__name__, "Wrap a function in a LinearOperator.")
    if matrix.structure.shape != structure.shape:
        advice = f"{name} is near the inverse of A."
        raise value_error(name, f"shape {structure.shape}", matrix.structure.shape, advice)
    return matrix.structure, matrix.params
