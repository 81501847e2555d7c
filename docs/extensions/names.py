"""The tables of `names.md`: every public name of SciPy's, NumPy's and PyTorch's linear algebra, with what
`tests/what_names_have.py` saw of ldiv's (`static/names.json`), or the sentence of the AttributeError.

    python docs/extensions/names.py        writes them into the page

The site makes links of the names; the page itself has none, so that it reads as it is.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ldiv
from ldiv.linalg.absent import SENTENCES

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "names.md"
BEGIN, END = "<!-- by extensions/names.py -->\n", "<!-- end -->"
SEEN: dict[str, dict[str, Any]] = json.loads((DOCS / "static" / "names.json").read_text())
MODES = ("reverse", "forward", "vmap", "jit")
DTYPES = {"single": "float32", "complex": "complex128"}
HERE = ("name", "modes", "orders", "dtypes", "matrices", "devices")
ABSENT = ("name", "what to write instead")
LIBRARIES = ("scipy.linalg", "scipy.sparse.linalg", "scipy.sparse", "numpy.linalg", "torch.linalg")


def public(library: ModuleType) -> list[str]:
    """The functions and classes of ldiv, without modules."""
    names = getattr(library, "__all__", None) or dir(library)
    return sorted(
        name
        for name in names
        if not name.startswith("_") and not isinstance(getattr(library, name), ModuleType)
    )


def columns(name: str) -> list[str]:
    """The columns: modes, orders, dtypes, matrices, devices; empty for functions without numbers."""
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
    rows = [[f"`{name}`", *columns(name)] for name in here]
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


def written(text: str) -> str:
    """The page with the tables of the libraries as they are installed."""
    before, _, rest = text.partition(BEGIN)
    tables = page([importlib.import_module(name) for name in LIBRARIES])
    return f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}"


def linked(text: str) -> str:
    """Names of ldiv at the beginning of a row as links into the reference."""

    def link(found: re.Match[str]) -> str:
        name = found[1]
        return f"| {{py:obj}}`{name} <ldiv.{name}>` |" if name in ldiv.__all__ else found[0]

    return re.sub(r"^\| `(\w+)` \|", link, text, flags=re.MULTILINE)


def to_links(app: Any, name: str, source: list[str]) -> None:
    if name == "names":
        before, marker, tables = source[0].partition(BEGIN)
        source[0] = before + marker + linked(tables)


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", to_links)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
