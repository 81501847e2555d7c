"""Nobody asks whether a matrix is over several processes: its space names the engines, and adds."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

import ldiv
from ldiv.core.arrays.space import HERE, Space
from ldiv.core.frameworks.folders import files
from ldiv.engines import registry
from ldiv.engines.eigen.task import EigenTask, choose
from ldiv.errors import EngineError
from ldiv.structures.dense import Dense
from ldiv.structures.identity import Identity

SRC = Path(ldiv.__file__).parent
ASKING = {
    "core/arrays/processes.py",
    "core/arrays/space.py",
}  # what a group is, and where gradcheck finds it
ROOMS = ("distributed/", "checker/")


def mentions(path: Path) -> bool:
    """Whether the program mentions it, outside of its prose."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Import(names=found):
                names |= {part for alias in found for part in alias.name.split(".")}
            case ast.ImportFrom(module=module, names=found):
                names |= {*(module or "").split("."), *(alias.name for alias in found)}
    return bool(names & {"processes", "Processes", "Distributed", "DistributedArray"})


def test_only_the_rooms_of_several_processes_speak_of_them() -> None:
    found = {
        name
        for path in SRC.rglob("*.py")
        if mentions(path) and not (name := path.relative_to(SRC).as_posix()).startswith(ROOMS)
    }
    assert found == ASKING


def test_a_look_finds_what_it_looks_for(tmp_path: Path) -> None:
    for line in (
        "x = structure.processes",
        "def f(processes): pass",
        "from ldiv.core.arrays.processes import RankError",
        "f(processes=1)",
    ):
        (tmp_path / "a.py").write_text(line)
        assert mentions(tmp_path / "a.py"), line
    (tmp_path / "a.py").write_text('"""processes"""  # processes')
    assert not mentions(tmp_path / "a.py")


class Elsewhere(Space):
    solvers, eigensolvers = "solver over processes", "eigensolver over processes"


ELSEWHERE = Elsewhere()


class Spread(Dense):
    """A matrix of vectors that are not all here."""

    space = ELSEWHERE  # type: ignore[assignment]


def test_the_space_names_the_engines() -> None:
    """Engines for the vectors of one space are never taken for those of another."""
    importlib.import_module("ldiv.distributed")
    assert set(files(ELSEWHERE.solvers)) == {"petsc"}
    assert set(files(ELSEWHERE.eigensolvers)) == {"slepc"}
    assert not set(registry.engines()) & {"petsc", "slepc"}
    here, spread, of = Dense(2, 2), Spread(2, 2), (np.dtype(float), "cpu", "gen")
    assert here.space is HERE
    assert registry.whole(here) is None
    for method in ("auto", "direct", "lapack", "cg"):  # PETSc has methods of its own
        assert registry.choose(spread, *of, method).__name__ == "ldiv.distributed.solvers.petsc"
    for engine in registry.engines().values():
        assert registry.answer(engine, spread, *of) == "wants a matrix on one process"
    task = EigenTask(spread, Identity(2), 1, method="lobpcg", which="LA")
    with pytest.raises(EngineError, match="slepc: over several processes lobpcg finds the lowest"):
        choose(task, np.eye(2))
    lowest = EigenTask(spread, Identity(2), 1, which="SA")
    assert choose(lowest, np.eye(2)).__name__ == "ldiv.distributed.eigensolvers.slepc"
