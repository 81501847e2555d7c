"""`generated/names.inc`: every public name of SciPy's, NumPy's and PyTorch's linear algebra, with what
`tests/what_names_have.py` saw of ldiv's (`static/names.json`), or the sentence that the AttributeError says.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ldiv
from ldiv.linalg.absent import SENTENCES

SEEN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "static" / "names.json").read_text()
)
MODES = ("reverse", "forward", "vmap", "jit")
DTYPES = {"single": "float32", "complex": "complex128"}
HERE = ("name", "modes", "orders", "dtypes", "matrices", "devices")
ABSENT = ("name", "what to write instead")
LIBRARIES = ("scipy.linalg", "scipy.sparse.linalg", "scipy.sparse", "numpy.linalg", "torch.linalg")


def public(library: ModuleType) -> list[str]:
    """Its functions and classes; modules are none."""
    names = getattr(library, "__all__", None) or dir(library)
    return sorted(
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(library, name), ModuleType)
    )


def columns(name: str) -> list[str]:
    """What was seen: modes, orders, dtypes, matrices, devices; nothing of what takes no numbers."""
    seen = SEEN.get(name)
    if seen is None:
        return [""] * 5
    has = seen["derivatives"]
    modes = [mode for mode in has if mode != "second"]
    orders = "" if not modes else "every" if "second" in has else "first"
    dtypes = ["double", *(word for word, dtype in DTYPES.items() if dtype in seen["dtypes"])]
    return [
        _together(modes, MODES),
        orders,
        _together(dtypes, ("double", *DTYPES)),
        ", ".join(seen["matrices"]),
        seen["device"],
    ]


def _together(found: Sequence[str], possible: Sequence[str]) -> str:
    return "all" if list(found) == list(possible) else ", ".join(found)


def page(libraries: list[ModuleType]) -> str:
    return "\n".join(part for library in libraries for part in _section(library))


def _section(library: ModuleType) -> list[str]:
    names = public(library)
    here = [name for name in names if name in ldiv.__all__]
    rows = [[f"{{py:obj}}`{name} <ldiv.{name}>`", *columns(name)] for name in here]
    absent = [[f"`{name}`", SENTENCES.get(name, "")] for name in names if name not in here]
    return [
        f"## {library.__name__}: {len(here)} of {len(names)}\n",
        *_table(HERE, rows),
        *_table(ABSENT, absent),
    ]


def _table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    lines = [[*head], ["---"] * len(head), *rows]
    return [
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines),
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
