"""The rooms stand in a line, and each imports only from those above it: no arrow runs up, not
even inside a function.
"""

from __future__ import annotations

import ast
import importlib
import re
import types
from collections.abc import Callable, Iterable
from functools import cache, partial
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ldiv
from ldiv.core.frameworks import dispatch
from ldiv.core.frameworks.defaults import complete
from ldiv.core.frameworks.dense_kernels import DenseKernels
from ldiv.core.frameworks.frontend import FrontEnd, FrontEndFile
from ldiv.core.frameworks.user_functions import UserFunctions
from ldiv.core.rules.rule import Rule
from ldiv.engines import registry

SRC = Path(ldiv.__file__).parent
ROOMS = (
    "errors",
    "core",
    "frontends",
    "structures",
    "engines.factor",
    "engines.registry",
    "engines.solve_log",
    "engines.libraries",
    "engines.accuracy",
    "engines.iterative",
    "engines.factors",
    "engines.functions",
    "engines.preconditioners",
    "engines.eigen",
    "engines.solver",
    "engines.selected",
    "engines.direct",
    "engines",
    "rules",
    "matrices",
    "linalg.arguments",
    "linalg.products",
    "linalg.systems",
    "linalg.spectra",
    "linalg.inverses",
    "linalg.factorizations",
    "linalg.equations",
    "linalg",
    "distributed",
    "derivatives",
    "inplace",
    "checker",
    "testing",
    "lineax",
    "nn",
    "linear_operator",
    "pymatsolver",
    "pytensor",
    "skfem",
    "cli",
    "sparse",
    "__init__",
    "__main__",
)
LOOSE = {"__init__", "__main__", "errors", "sparse"}  # the files that lie in no folder
OF_PACKAGES = ("lineax", "linear_operator", "pymatsolver", "pytensor", "skfem")
ADAPTERS = (*OF_PACKAGES, "nn")
FRAMEWORKS = {"torch", "jax", "jaxlib", "equinox", "autograd", *OF_PACKAGES}
FILES = {
    path.relative_to(SRC).with_suffix("").as_posix().replace("/", "."): path
    for path in sorted(SRC.rglob("*.py"))
}


def room(module: str) -> str:
    """`engines.direct.lapack` is in the room `engines.direct`, `engines.solver` in `engines`."""
    module = module.removesuffix(".__init__")
    return max(
        (name for name in ROOMS if f"{module}.".startswith(f"{name}.")), key=len, default="nowhere"
    )


@cache
def imports(module: str) -> frozenset[str]:
    """Every module of ours that a file imports, inside functions and by `import_module` too, and
    the name of every other package.
    """
    nodes = list(ast.walk(ast.parse(FILES[module].read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    pairs = [
        (node.module or "", alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    named = {
        f"{home}.{name}" if f"{home}.{name}".removeprefix("ldiv.") in FILES else home
        for home, name in pairs
    }
    return frozenset(name.removeprefix("ldiv.") for name in plain | named | by_name(nodes))


def by_name(nodes: list[ast.AST]) -> set[str]:
    """The imports by a name that is written there."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    return {
        node.args[0].value
        for node in calls
        if ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
        and isinstance(node.args[0], ast.Constant)
    }


def ours(module: str) -> set[str]:
    return {
        name if name in FILES else f"{name}.__init__"
        for name in imports(module)
        if name in FILES or f"{name}.__init__" in FILES
    }


def allowed(here: str, there: str) -> bool:
    if here == "frontends":
        return there in ("errors", "core", "frontends")
    if there == "frontends":
        return here == "__init__"
    return ROOMS.index(there) <= ROOMS.index(here)


def test_imports_go_up_the_list() -> None:
    wrong = {
        f"{module}: {room(module)} may not import {name}"
        for module in FILES
        for name in ours(module)
        if not allowed(room(module), room(name))
    }
    assert not wrong


def test_frameworks_are_imported_in_front_ends_and_adapters_only() -> None:
    wrong = {
        f"{module} imports {name}"
        for module in FILES
        for name in FRAMEWORKS & {name.split(".")[0] for name in imports(module)}
        if room(module) not in ("frontends", *ADAPTERS)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("house", "rooms", "floors", "arrows"), [("engines", 13, 5, 33), ("linalg", 7, 4, 7)]
)
def test_the_inner_house_is_small(house: str, rooms: int, floors: int, arrows: int) -> None:
    """The number of rooms of a house, its longest chain of imports, and the pairs of rooms that
    know each other: a new arrow is a decision. `pytest -rP` prints them.
    """
    inner = {m: room(m) for m in FILES if m.startswith(f"{house}.") and room(m) != house}
    graph: dict[str, set[str]] = {name: set() for name in inner.values()}
    for module, here in inner.items():
        graph[here] |= {inner[there] for there in ours(module) if there in inner} - {here}
    floor: dict[str, int] = {}
    for here in TopologicalSorter(graph).static_order():
        floor[here] = 1 + max((floor[there] for there in graph[here]), default=0)
    count = sum(map(len, graph.values()))
    print(f"{house}: {len(graph)} rooms, {max(floor.values())} floors, {count} arrows, none up")
    assert len(graph) == rooms
    assert max(floor.values()) <= floors
    assert count <= arrows


INNER = {  # the rooms of a house, in a line: loose files come before all, `__init__` after
    "core": ("owners", "frameworks", "arrays", "policies", "rules", "calls"),
    "frontends.torch": ("devices", "graph", "user", "patterns"),
    "frontends.jax": ("devices", "graph", "user", "patterns"),
}


@pytest.mark.parametrize(("house", "rooms"), INNER.items())
def test_rooms_of_the_inner_house_stand_in_a_line(house: str, rooms: tuple[str, ...]) -> None:
    """A room imports from those before it, and has six floors at most."""
    inside = [m for m in FILES if m.startswith(f"{house}.") and m != f"{house}.__init__"]
    place = {m: m.removeprefix(f"{house}.").rpartition(".")[0] for m in inside}
    assert set(place.values()) == {"", *rooms}
    order = ("", *rooms)
    graph = {m: {there for there in ours(m) if there in place} for m in inside}
    up = {
        f"{m} imports {there}"
        for m in inside
        for there in graph[m]
        if order.index(place[there]) > order.index(place[m])
    }
    assert not up
    floor: dict[str, int] = {}
    for m in TopologicalSorter(graph).static_order():
        same = (floor[there] for there in graph[m] if place[there] == place[m])
        floor[m] = 1 + max(same, default=0)
    assert max(floor.values()) <= 6


def test_no_cycles() -> None:
    """The files of a room have an order, too."""
    graph = {
        module: {name for name in ours(module) if not name.endswith("__init__")} for module in FILES
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)


def test_the_graph_is_seen_whole() -> None:
    """Modules by names that are computed come from the folders of plug-ins, or from the rooms that
    ask what is installed; all other names are read above.
    """
    computed = {
        room(module)
        for module, path in FILES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
        and not isinstance(node.args[0], ast.Constant)
    }
    assert computed <= {"__init__", "core", "engines.libraries", "linalg.arguments", "cli"}


EVASIONS = {  # what hides an import, or lets behaviour depend on who calls or on what was loaded
    # which frameworks were imported: whose arrays may come
    r"sys\.modules": {
        "core.frameworks.dispatch",
        "core.frameworks.folders",
        "core.calls.public",
        "frontends.jax.sparse_matrices",
        "engines.libraries.program",  # a package that is loaded is installed
    },
    # what is installed, and files of plug-ins
    r"importlib": {
        "linalg.names_at_the_top",
        "core.owners.forking",
        "engines.libraries.cudss",
        "engines.libraries.highs",
        "engines.libraries.mkl_pardiso",
        "engines.libraries.native",
        "engines.libraries.program",
        "cli.machine",
        "cli.report",
    },
    # SciPy's operators and `np.asarray` ask in the same words
    r"_getframe|currentframe|inspect\.stack": {"matrices.matrix"},
    r"vars\(\w+\)\.setdefault|__dict__\.setdefault": {
        "core.cached_property",
        "core.rules.structure",
    },
}


@pytest.mark.parametrize("words", EVASIONS)
def test_no_law_is_evaded(words: str) -> None:
    """None of it outside of these files, and none of these for nothing."""
    found = {module for module, path in FILES.items() if re.search(words, path.read_text())}
    assert found == EVASIONS[words]


def test_no_factor_is_felt_for() -> None:
    """The abilities of a factor, an engine or a structure are declared in its contract."""
    feeling = {
        module
        for module, path in FILES.items()
        if room(module).partition(".")[0] in ("structures", "engines", "rules")
        and "hasattr(" in path.read_text().replace("hasattr(os, ", "")  # what the system has
    }
    assert not feeling


def test_every_file_is_in_a_room() -> None:
    assert {module for module in FILES if "." not in module} == LOOSE
    assert {room(module) for module in FILES} == set(ROOMS)


def test_no_module_is_hidden_by_a_function() -> None:
    """`ldiv.name` is either public or a module, never the one in place of the other; `dir` shows
    what is public.
    """
    rooms = {name.split(".")[0] for name in FILES}
    assert not {name for name in ldiv.__all__ if name in rooms} - {"structures"}
    assert dir(ldiv) == sorted([*ldiv.__all__, "__version__"])


FOLDERS = (
    ("engines/direct engines/iterative", registry.engines),
    ("engines/eigen", partial(registry.engines, "eigensolver")),
    ("frontends", dispatch.frontend_names),
)


@pytest.mark.parametrize(("folders", "found"), FOLDERS)
def test_every_file_is_found(folders: str, found: Callable[[], Iterable[str]]) -> None:
    files = [
        path
        for folder in folders.split()
        for path in (SRC / folder).iterdir()
        if path.match("[!_]*.py") or (path / "__init__.py").exists()
    ]
    shared = (
        {path.stem for path in files if "\nRANK = " not in path.read_text()}
        if "engines" in folders
        else {"index_sets"}
    )
    assert set(found()) == {path.stem for path in files} - shared


KERNELS = {"lu_factor", "lu_solve", "sign_of_rows", "cholesky", "solve_triangular", "scatter"}


def members(contract: type) -> set[str]:
    listed = {
        name for c in contract.__mro__ for name in (*vars(c), *vars(c).get("__annotations__", {}))
    }
    return {name for name in listed if not name.startswith("_")}


def imported(module: str) -> set[str]:
    """The names that an `__init__` imports, and so defines."""
    body = ast.parse(FILES[f"{module}.__init__"].read_text()).body[1:]
    return {alias.name for node in body for alias in node.names}


def test_contracts_are_small() -> None:
    assert len(members(FrontEnd)) <= 45
    assert len(members(Rule)) <= 10


@pytest.mark.parametrize("package", ["frontends.jax", "frontends.torch"])
def test_a_front_end_defines_what_is_asked_of_it(package: str) -> None:
    """All that every front end must define, nothing that nobody asks for, and no file by the name
    of something that is, or would be, asked for.
    """
    must, may = members(FrontEndFile), members(FrontEnd)
    files = {name.rpartition(".")[2] for name in FILES if name.startswith(f"{package}.")}
    assert must <= imported(package) <= may
    assert files & may == {"dense"}
    kernels = vars(importlib.import_module(f"ldiv.{package}.dense"))
    assert kernels.keys() >= KERNELS
    assert imported(f"{package}.user") <= members(UserFunctions)


def test_what_a_front_end_leaves_out_is_filled_in() -> None:
    """All that is listed, but for what is asked for only where another part is defined."""
    empty = complete(types.ModuleType("ldiv.frontends.empty"))
    for contract, found, own in (
        (FrontEnd, empty, members(FrontEndFile) | {"check_or_raise", "sparse_parts"}),
        (DenseKernels, empty.dense, KERNELS),
        (UserFunctions, empty.user, {"unrecorded"}),
    ):
        filled = {name for name in vars(found) if not name.startswith("_")}
        assert members(contract) - filled == own
        assert filled <= members(contract)
