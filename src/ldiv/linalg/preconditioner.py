"""Preconditioners by name, and what else a user may hand over as M."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

from ldiv.core.folders import files
from ldiv.core.public import public
from ldiv.core.record import snapshot
from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.core.validate import require_option
from ldiv.errors import expected_got
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import Matrix


@public
def preconditioner(A: Any, kind: str, *, assume_a: str = "gen", **options: Any) -> Matrix:
    """A matrix near A^-1, to be passed as `M` to `solve`, for A itself or for a matrix near A.

        M = preconditioner(A, "jacobi"):    M = diag(A)^-1
        M = preconditioner(A, "amg", near_nullspace=V):    M = one V-cycle of algebraic multigrid (`pip install ldiv[amg]`)

    A: a SparseArray, or for "jacobi" also an array. assume_a: "gen", "sym", "her" or "pos", as in
    `solve`. near_nullspace (n, q): what A nearly maps to zero, the constants by default; rigid
    motions in elasticity. Further options of "amg" are those of
    `pyamg.smoothed_aggregation_solver`.
    It is that of the values that A has now, which are copied. Not differentiated: a solution does
    not depend on its preconditioner.
    Cost: "amg" builds its hierarchy when it is first used, once for a set of values.

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
    found: tuple[Structure, Tree] = importlib.import_module(files("preconditioner")[kind]).build(
        structure, p, **options
    )
    return found


def given(M: Any, structure: Structure, p: Tree) -> tuple[Structure, Tree]:
    """What a user passed as M, as a structure and its parameters."""
    if isinstance(M, str):
        return build(require_option("M", M, kinds()), structure, p)
    matrix = M if isinstance(M, type) else getattr(M, "inverse", M)
    if not isinstance(matrix, Matrix):
        expected = "the name of a preconditioner, a Matrix near A^-1, or what `factorized` gives"
        raise TypeError(
            expected_got("M", expected, type(M).__name__, "Wrap a function in a LinearOperator.")
        )
    if matrix.structure.shape != structure.shape:
        raise ValueError(
            expected_got(
                "M",
                f"shape {structure.shape}",
                str(matrix.structure.shape),
                "M is near the inverse of A.",
            )
        )
    return matrix.structure, matrix.params
