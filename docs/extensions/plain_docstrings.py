"""Docstrings are written to be read in a terminal: |x| is a norm, x* a star, and what is indented
an equation. For Sphinx they are made reStructuredText, examples and backticks left alone.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

PARAMETER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)( :.*)?$")
CODE = re.compile(r"(`+[^`]*`+)")
MARKUP = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
DESCRIBED = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also")
UNDERLINE = re.compile(r"^-{3,}$")


def escaped(text: str) -> str:
    """Escape markup, except in backticks."""
    parts = CODE.split(text)
    return "".join(part if i % 2 else MARKUP.sub(r"\\\1", part) for i, part in enumerate(parts))


def plain(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText in numpydoc's sections."""
    section, result, equation = "", [], False
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and UNDERLINE.match(lines[i + 1]):
            section = line
        described = section in DESCRIBED
        if section == "Examples" or UNDERLINE.match(line):
            result.append(line)
        elif line.startswith("    ") and not described:
            if not equation:
                result += [".. code-block:: none", ""]
            result.append(line)
            equation = True
            continue
        elif described and (head := PARAMETER.match(line)):
            result.append(head[1] + escaped(head[2] or ""))
        else:
            result.append(escaped(line))
        equation = equation and not line.strip()
    return result


def on_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = plain(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", on_docstring, priority=100)  # before numpydoc
    return {"parallel_read_safe": True}
