"""Every module-level cache and every ContextVar is listed in docs/develop/caches.md, with its bound and
what empties it; `clear_cache` empties those of which this is said.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import ldiv

SRC = Path(ldiv.__file__).parent
TABLE = SRC.parents[1] / "docs" / "develop" / "caches.md"
HOLDS = {
    *("dict", "list", "set", "deque", "OrderedDict", "defaultdict", "Counter", "ContextVar"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "Store", "local"),
}
REMEMBERS = ("cache", "lru_cache", "bounded_cache")


def called(node: ast.expr | None) -> str:
    """The last name of what is called: `OrderedDict` of `collections.OrderedDict()`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def changes(node: ast.expr | None) -> bool:
    """Whether this is a container that can grow."""
    return isinstance(
        node, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    ) or (isinstance(node, ast.Call) and called(node) in HOLDS)


def held(body: list[ast.stmt]) -> Iterator[str]:
    """The names of a module that hold something. Constants are in capitals."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and changes(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (n for n in names if n != n.upper() and not n.startswith("__"))
        elif isinstance(node, ast.Assign) and called(node.value) in REMEMBERS:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.FunctionDef) and any(
            called(each) in REMEMBERS for each in node.decorator_list
        ):
            yield node.name


def in_sources() -> set[str]:
    return {
        ".".join((*path.relative_to(SRC).with_suffix("").parts, name)).replace(".__init__", "")
        for path in SRC.rglob("*.py")
        for name in held(ast.parse(path.read_text()).body)
    }


def listed() -> dict[str, str]:
    """The row of each in docs/develop/caches.md."""
    rows = re.findall(r"^\| `([\w.]+\.\w+)` \|(.*)$", TABLE.read_text(), re.MULTILINE)
    return dict(rows)


def test_every_cache_is_listed() -> None:
    assert in_sources() == listed().keys()


def test_clear_cache_empties_what_it_is_said_to() -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    emptied = [name for name, says in listed().items() if "`clear_cache`" in says]
    homes = {name: importlib.import_module(f"ldiv.{name.rpartition('.')[0]}") for name in emptied}
    A = ldiv.csc_array(scipy.sparse.diags_array([[-1.0] * 9, [4.0] * 10], offsets=[1, 0]).tocsc())
    ldiv.solve(A, np.ones(10))
    ldiv.solve(np.eye(3) + 1, np.ones(3))
    ldiv.clear_cache()
    full = {}
    for name, home in homes.items():
        cache: Any = vars(home)[name.rpartition(".")[2]]
        if hasattr(cache, "cache_info"):
            size = cache.cache_info().currsize
        else:
            size = len(cache._kept if hasattr(cache, "_kept") else cache)
        if size:
            full[name] = size
    assert not full
    assert "engines.factors.analyses._recent" in emptied
