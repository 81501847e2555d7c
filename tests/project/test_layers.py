"""Imports go left: errors, rule, validate <- structure <- structures <- what engines share <- solvers <- rules <- the rest; front ends see rule."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import ldiv
from ldiv.core import rule
from ldiv.engines import eigen_task, solver

SRC = Path(ldiv.__file__).parent
LINE = (
    "errors forking holder rule singularity arrays pattern validate",
    "structure",
    "structures",
    "analyses factor_cache finite scaling journal escalation options progress assembled",
    "krylov probe ordering equilibration solver backward_error refined mkl eigenproblem pencil shifted deflation",
    "solvers eigensolvers",
    "rules",
    "inverse",
    "preconditioners",
)
LEVEL = {room: level for level, rooms in enumerate(LINE) for room in rooms.split()}
OUTSIDE = ("testing", "lineax", "__init__", "__main__")  # may import everything; nobody imports them
FRAMEWORKS = {"torch", "jax", "jaxlib", "lineax", "equinox"}


def room(module: str) -> str:
    """`ldiv.engines.direct` and `ldiv.engines.direct.lapack` are in the room `solvers`."""
    return [*module.split("."), "__init__"][1]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, inside functions too."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    pairs = [(node.module or "", alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]
    return plain | {f"ldiv.{name}" if module == "ldiv" else module for module, name in pairs}


def allowed(here: str, there: str) -> bool:
    if here == there or here in OUTSIDE:
        return True
    if here == "frontends":
        return there in ("rule", "errors", "holder", "finite")
    if there in OUTSIDE or there == "frontends":
        return False
    return LEVEL.get(there, len(LINE)) <= LEVEL.get(here, len(LINE))


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda path: path.relative_to(SRC).as_posix())
def test_imports_go_left(path: Path) -> None:
    here = room(".".join(("ldiv", *path.relative_to(SRC).with_suffix("").parts)))
    found = imports(path)
    wrong = sorted(module for module in found if module.split(".")[0] == "ldiv" and not allowed(here, room(module)))
    assert not wrong, f"{here} may not import {wrong}"
    if here not in ("frontends", "lineax"):
        assert not FRAMEWORKS & {module.split(".")[0] for module in found}, "frameworks are imported in front ends and adapters only"


FOLDERS = (("solvers", solver.engines), ("eigensolvers", eigen_task.engines), ("frontends", rule.frontend_names))


@pytest.mark.parametrize(("folder", "found"), FOLDERS)
def test_every_file_is_found(folder: str, found: Callable[[], Iterable[str]]) -> None:
    files = {path.stem for path in (SRC / folder).glob("*.py")} - {"__init__"}
    assert set(found()) == files
