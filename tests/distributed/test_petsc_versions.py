"""Newer versions of petsc4py have the calls by coordinates, that of Debian's PETSc does not: a fake of
each, since one machine has one.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ldiv.distributed import petsc
from ldiv.errors import EngineError


class Newer:
    """petsc4py 3.26: arrays are taken by pointer if the dtype fits, and cast safely or not at all."""

    def __init__(self, index: Any) -> None:
        self.index, self.calls = index, list[Any]()

    def setPreallocationCOO(self, rows: Any, cols: Any) -> None:
        for x in (rows, cols):
            taken = x if x.dtype == self.index else x.astype(self.index, casting="safe")
            self.calls.append(taken.copy())
            taken[:] = -1  # PETSc may write to them

    def setValuesCOO(self, values: Any, mode: Any) -> None:
        self.calls.append((values, mode))


class Older:
    """petsc4py 3.18: a handle, for the library."""

    handle = 17

    def __init__(self) -> None:
        self.seen = 0

    def stateIncrease(self) -> None:
        self.seen += 1


@pytest.fixture(params=[np.int32, np.int64])
def index(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    insert = SimpleNamespace(INSERT_VALUES=1)
    fake = SimpleNamespace(IntType=request.param, ScalarType=np.float64, InsertMode=insert)
    monkeypatch.setattr(petsc, "petsc", lambda: fake)
    return request.param


def test_newer_versions_are_called_by_their_own_names(index: Any) -> None:
    matrix, rows, cols = Newer(index), np.array([0, 2]), np.array([1, 0])
    petsc.preallocate(matrix, rows, cols)
    petsc.set_values(matrix, np.array([1, 2], np.float32))
    assert [x.tolist() for x in matrix.calls[:2]] == [[0, 2], [1, 0]]
    assert rows.tolist() == [0, 2]  # those of the user are not written to
    assert cols.tolist() == [1, 0]
    values, mode = matrix.calls[2]
    assert values.dtype == np.float64
    assert values.tolist() == [1.0, 2.0]
    assert mode == 1


def test_older_versions_are_called_in_their_library(
    index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[Any] = []
    monkeypatch.setattr(petsc, "_call", lambda name, *arguments: names.append((name, arguments)))
    matrix, rows = Older(), np.array([0, 2])
    petsc.preallocate(matrix, rows, rows)
    petsc.set_values(matrix, np.ones(2))
    assert [name for name, _ in names] == ["MatSetPreallocationCOO", "MatSetValuesCOO"]
    assert [arguments[0].value for _, arguments in names] == [17, 17]
    assert names[0][1][1].value == 2
    assert matrix.seen == 1  # petsc4py hears of the new values


def test_a_petsc_without_mpi_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("petsc4py")
    package.init = lambda: None  # type: ignore[attr-defined]
    package.PETSc = SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "petsc4py", package)
    monkeypatch.setattr(petsc, "_has_no_mpi", lambda PETSc: True)
    with pytest.raises(EngineError, match="PETSc must be built with MPI"):
        petsc.petsc.__wrapped__()

    def fails() -> None:
        raise RuntimeError("error code 98")

    package.init = fails  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="PETSc does not start: error code 98"):
        petsc.petsc.__wrapped__()


def test_indices_are_those_of_petsc(index: Any) -> None:
    assert petsc.largest_index() == np.iinfo(index).max
