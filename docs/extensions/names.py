"""`generated/names.inc`: every public name of SciPy's, NumPy's and PyTorch's linear algebra, with what
ldiv's function says of its derivatives, or the sentence that the AttributeError says.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import ldiv
from ldiv.linalg.absent import SENTENCES

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
    """What ldiv has of it."""
    if name not in ldiv.__all__:
        return SENTENCES.get(name, "")
    notes = " ".join((inspect.getdoc(getattr(ldiv, name)) or "").split())
    said = re.search(r"(?:Differentiable|Not different|A constant)[^.:]*[.:]", notes)
    return f"{{py:obj}}`ldiv.{name}`: " + (said.group().rstrip(":.") + "." if said else "here.")


def page(libraries: list[ModuleType]) -> str:
    return "\n".join(part for library in libraries for part in _table(library))


def _table(library: ModuleType) -> list[str]:
    names = public(library)
    here = sum(name in ldiv.__all__ for name in names)
    rows = [f"| `{name}` | {answer(name).replace('|', chr(92) + '|')} |" for name in names]
    return [
        f"## {library.__name__}: {here} of {len(names)}\n",
        "| name | in ldiv |",
        "| --- | --- |",
        *rows,
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
