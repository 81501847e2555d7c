"""PETSc by petsc4py, loaded once; functions that older versions lack are called in its C library.

petsc4py 3.18, which Debian's PETSc needs, has no MatSetPreallocationCOO and MatSetValuesCOO: they
are functions of the C library all the same.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ldiv.errors import EngineError

INSTALL = (
    "Matrices over several processes need petsc4py, mpi4py and an MPI: `make mpi` sets them up on "
    "Debian and Ubuntu, `pip install ldiv[petsc]` beside a PETSc that PETSC_DIR points to."
)

WITH_MPI = (
    "PETSc must be built with MPI, and with MUMPS: that of `make mpi` is. `pip install petsc` may "
    "build one without: PETSC_CONFIGURE_OPTIONS says what it builds."
)


@cache
def petsc() -> Any:
    """The module petsc4py.PETSc."""
    try:
        import petsc4py
    except ImportError as error:
        raise ImportError(INSTALL) from error
    try:
        petsc4py.init()
        from petsc4py import PETSc
    except RuntimeError as error:  # of one without MPI under mpirun
        raise EngineError(f"PETSc does not start: {error}. {WITH_MPI}") from error
    if _has_no_mpi(PETSc):
        raise EngineError(f"this PETSc is one for a single process. {WITH_MPI}")
    _watch_the_end()
    return PETSc


def _has_no_mpi(PETSc: Any) -> bool:
    """Whether this PETSc was built with MPIUNI, a substitute of MPI for one process."""
    return hasattr(ctypes.CDLL(PETSc.__file__), "MPIUNI_Memcpy")


@cache
def mpi() -> Any:
    """The module mpi4py.MPI, which MPI is started by."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return MPI


@cache
def slepc() -> Any:
    """The module slepc4py.SLEPc."""
    try:
        import slepc4py
    except ImportError as error:
        raise ImportError(INSTALL.replace("petsc4py", "slepc4py")) from error
    petsc()
    slepc4py.init()
    from slepc4py import SLEPc

    _watch_the_end()
    return SLEPc


# what a process does before it ends, in the order of time
farewells: list[Callable[[], None]] = []


def _watch_the_end() -> None:
    """Register the exit handler after those of PETSc and SLEPc, so that it runs before them."""
    atexit.unregister(_at_the_end)
    atexit.register(_at_the_end)


def _at_the_end() -> None:
    """End the other processes, which wait, if this one ends by an uncaught error; else tell them
    that it leaves.
    """
    failed = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if mpi().COMM_WORLD.size == 1 or mpi().Is_finalized():
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if failed is not None:
        mpi().COMM_WORLD.Abort(1)
    for say in farewells:
        say()


def is_real() -> bool:
    """Whether this PETSc has real double precision, the only one that is supported."""
    return np.dtype(petsc().ScalarType) == np.float64


def largest_index() -> int:
    """The largest number of rows of a matrix, or of entries on one process."""
    return int(np.iinfo(petsc().IntType).max)


# -- matrices by coordinates --------------------------------------------------


def preallocate(matrix: Any, rows: Any, cols: Any) -> None:
    """The places of the entries of a matrix, with global indices; collective."""
    # copies, since PETSc writes to them, in its own integers, since petsc4py casts safely or not at all
    rows, cols = (np.array(x, petsc().IntType) for x in (rows, cols))
    if hasattr(matrix, "setPreallocationCOO"):
        matrix.setPreallocationCOO(rows, cols)
        return
    _call(
        "MatSetPreallocationCOO",
        ctypes.c_void_p(matrix.handle),
        ctypes.c_ssize_t(len(rows)),
        ctypes.c_void_p(rows.ctypes.data),
        ctypes.c_void_p(cols.ctypes.data),
    )


def set_values(matrix: Any, values: Any) -> None:
    """The values of the entries, in the order of the places, added up; collective."""
    values = np.ascontiguousarray(values, petsc().ScalarType)
    if hasattr(matrix, "setValuesCOO"):
        matrix.setValuesCOO(values, petsc().InsertMode.INSERT_VALUES)
        return
    insert = int(petsc().InsertMode.INSERT_VALUES)
    _call(
        "MatSetValuesCOO",
        ctypes.c_void_p(matrix.handle),
        ctypes.c_void_p(values.ctypes.data),
        ctypes.c_int(insert),
    )
    matrix.stateIncrease()  # petsc4py's products see it


def row_sizes(matrix: Any) -> Any:
    """The largest |a_ij| of each row, a vector; collective."""
    found = matrix.createVecLeft()
    pointers = (ctypes.c_void_p(handle) for handle in (matrix.handle, found.handle, None))
    _call("MatGetRowMaxAbs", *pointers)
    found.stateIncrease()
    return found


def _call(name: str, *arguments: Any) -> None:
    if code := getattr(_library(), name)(*arguments):
        raise petsc().Error(code)


@cache
def _library() -> ctypes.CDLL:
    """The C library of PETSc, which petsc4py has loaded: its module links to it."""
    return ctypes.CDLL(petsc().__file__)
