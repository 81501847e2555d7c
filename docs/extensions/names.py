"""`generated/names.inc`: every public name of SciPy's, NumPy's and PyTorch's linear algebra, with what
`tests/what_names_have.py` saw of ldiv's (`static/names.json`) and what it says of its derivatives,
or the sentence that the AttributeError says.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import ldiv
from ldiv.linalg.absent import SENTENCES

SEEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "static" / "names.json").read_text()
)
DTYPES = {"32": "float32", "complex": "complex128"}
HEAD = "name | modes | orders | dtypes | matrices | devices | in ldiv"
LIBRARIES = ("scipy.linalg", "scipy.sparse.linalg", "scipy.sparse", "numpy.linalg", "torch.linalg")


def public(library: ModuleType) -> list[str]:
    """Its functions and classes; modules are none."""
    names = getattr(library, "__all__", None) or dir(library)
    return sorted(
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(library, name), ModuleType)
    )


def answer(name: str) -> str:
    """What ldiv has of it, in words."""
    if name not in ldiv.__all__:
        return SENTENCES.get(name, "")
    notes = " ".join((inspect.getdoc(getattr(ldiv, name)) or "").split())
    said = re.search(r"(?<!Not)(?:Differentiable|Not different|A constant)[^.:]*[.:]", notes)
    words = said.group().rstrip(":.") if said else ""
    if not said and "NotDifferentiableError" in notes:
        words = "where there is no derivative, NotDifferentiableError"
    return f"{{py:obj}}`ldiv.{name}`" + f": {words}." * bool(words)


def columns(name: str) -> list[str]:
    """What was seen: modes, orders, dtypes, matrices, devices; nothing of what takes no numbers."""
    seen = SEEN.get(name)
    if seen is None:
        return [""] * 5
    has = seen["derivatives"]
    modes = [mode for mode in has if mode != "second"]
    orders = "" if not modes else "every" if "second" in has else "first"
    dtypes = ["64", *(word for word, dtype in DTYPES.items() if dtype in seen["dtypes"])]
    return [
        ", ".join(modes),
        orders,
        ", ".join(dtypes),
        ", ".join(seen["matrices"]),
        seen["device"],
    ]


def page(libraries: list[ModuleType]) -> str:
    return "\n".join(part for library in libraries for part in _table(library))


def _table(library: ModuleType) -> list[str]:
    names = public(library)
    here = sum(name in ldiv.__all__ for name in names)
    rows = [[f"`{name}`", *columns(name), answer(name)] for name in names]
    return [
        f"## {library.__name__}: {here} of {len(names)}\n",
        f"| {HEAD} |",
        "| --- " * len(HEAD.split("|")) + "|",
        *(
            "| " + " | ".join(cell.replace("|", chr(92) + "|") for cell in row) + " |"
            for row in rows
        ),
        "",
    ]


def write(app: Any) -> None:

    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    found = [importlib.import_module(name) for name in LIBRARIES]
    path, text = folder / "names.inc", page(found)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
