"""Matrices over several processes, by PETSc and SLEPc: `ldiv.solve` and `ldiv.eigsh` past one
machine.

Each process brings entries with the indices of the whole matrix, and owns rows of vectors. All
processes call the same functions in the same order, and what is wrong on one is raised on all.
Loaded when it is imported; it needs petsc4py and mpi4py, and slepc4py for eigenvalues.
"""

from ldiv.core.arrays.processes import RankError
from ldiv.distributed import eigensolvers as eigensolvers  # which register their engines
from ldiv.distributed import solvers as solvers
from ldiv.distributed.array import DistributedArray, coo_array, owned
from ldiv.distributed.losses import shared, spread, sum

__all__ = ["DistributedArray", "RankError", "coo_array", "owned", "shared", "spread", "sum"]
