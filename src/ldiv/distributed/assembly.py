"""S(p) as a matrix of PETSc: the entries of all processes, added up where they live."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.rules.structure import Structure, Wrapper
from ldiv.distributed.petsc import petsc, preallocate, row_sizes, set_values
from ldiv.distributed.structure import Distributed
from ldiv.errors import EngineError, NotSymmetricError
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.symmetric import Symmetric


def base_of(structure: Structure) -> tuple[Distributed, bool]:
    """The entries, and whether the matrix is their symmetric part."""
    base, symmetric = structure.unview()[0], False
    while isinstance(base, Symmetric | SelfAdjoint) and isinstance(base, Wrapper):
        base, symmetric = base.base.unview()[0], True
    if not isinstance(base, Distributed):
        raise EngineError(
            "PETSc solves with matrices made by ldiv.distributed.coo_array, their real multiples "
            f"and sums, not with a {type(base).__name__} of them. Bring all of it as entries."
        )
    return base, symmetric


def assembled(structure: Structure, p: Any) -> Any:
    """A new matrix of PETSc with these values, symmetric if the structure is."""
    base, symmetric = base_of(structure)
    matrix = _template(base, symmetric)
    p = np.asarray(p, np.float64)
    if not symmetric:
        set_values(matrix, p)
        return matrix.duplicate(copy=True)
    half = p / 2
    set_values(matrix, np.concatenate([half, -half]))
    defect = row_sizes(matrix).array
    set_values(matrix, np.concatenate([half, half]))
    _refuse_asymmetry(base, defect, row_sizes(matrix).array)
    own = matrix.duplicate(copy=True)
    own.setOption(petsc().Mat.Option.SYMMETRIC, True)
    own.setOption(petsc().Mat.Option.SYMMETRY_ETERNAL, True)
    return own


def _template(base: Distributed, symmetric: bool) -> Any:
    """A matrix that knows where each value goes: worked out once, and then copied."""
    entries = base.entries
    if symmetric not in entries.templates:
        matrix = petsc().Mat().create(entries.processes.comm)
        rows, cols = entries.of_rows, entries.of_cols
        matrix.setSizes(((rows.own, rows.size), (cols.own, cols.size)))
        matrix.setType("aij")
        i, j = entries.rows, entries.cols
        if symmetric:
            i, j = np.concatenate([i, j]), np.concatenate([j, i])
        preallocate(matrix, i, j)
        entries.templates[symmetric] = matrix
    return entries.templates[symmetric]


def _refuse_asymmetry(base: Distributed, defect: Any, size: Any) -> None:
    """Raise unless defect <= eps^(1/4) size in each row, as for matrices of one process."""
    comm, tolerance = base.entries.processes, float(np.finfo(float).eps) ** 0.25
    ratio = defect / np.where(size + defect == 0, 1, size + defect)
    worst = comm.largest(float(ratio.max(initial=0)))
    if not worst <= tolerance:
        raise NotSymmetricError(worst, "transpose")
