"""Every public docstring has the sections that a reader of SciPy looks for, and they say what is
so: the parameters are those of the signature.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

import ldiv

FUNCTIONS = [name for name in ldiv.__all__ if inspect.isfunction(getattr(ldiv, name))]
CLASSES = [name for name in ldiv.__all__ if inspect.isclass(getattr(ldiv, name))]
ORDER = ("Parameters", "Returns", "Yields", "Raises", "See Also", "Notes", "References", "Examples")
# they compute nothing that could be differentiated
SETTINGS = {"cache_info", "clear_cache", "set_cache_limit", "errstate"}
SETTINGS |= {"set_num_threads", "get_num_threads", "jax_export_checks"}


def sections(doc: str) -> dict[str, str]:
    """The text under each heading; what comes before the first one is under the empty one."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", doc, flags=re.MULTILINE)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_all_that_is_asked(name: str) -> None:
    f = getattr(ldiv, name)
    found = sections(inspect.getdoc(f))
    headings = [heading for heading in found if heading]
    assert headings == sorted(headings, key=ORDER.index)
    told = re.findall(
        r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) :", found.get("Parameters", ""), flags=re.MULTILINE
    )
    wanted = [
        {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        for p in inspect.signature(f).parameters.values()
    ]
    assert [one for group in told for one in group.split(", ")] == wanted
    assert "Examples" in found and ">>>" in found["Examples"]
    assert re.match(r"[A-Z][^\n]*\.\n", found[""]), "one sentence, on one line"
    if name not in SETTINGS:
        assert {"Returns", "Notes"} <= found.keys()
        assert "Cost" in found["Notes"] and "ifferentia" in found["Notes"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_says_what_it_is(name: str) -> None:
    doc = inspect.getdoc(getattr(ldiv, name))
    assert re.match(r"[A-Z][^\n]*\.(\n|$)", doc)


def test_there_is_nothing_else() -> None:
    rest = set(ldiv.__all__) - {*FUNCTIONS, *CLASSES}
    assert all(isinstance(getattr(ldiv, name), ModuleType) for name in rest)
