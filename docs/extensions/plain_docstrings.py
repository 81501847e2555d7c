"""Docstrings are written to be read in a terminal: |x| is a norm, x* a star, and what is indented
an equation. For Sphinx they are made reStructuredText, equations by `formulas`, examples and backticks left alone.
"""

from __future__ import annotations

import re
from typing import Any

from formulas import latex
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
    section = ""
    result: list[str] = []
    equation: list[str] = []
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and UNDERLINE.match(lines[i + 1]):
            section = line
        described = section in DESCRIBED
        if not line.startswith("    "):
            result += typeset(equation)
            equation = []
        if section == "Examples" or UNDERLINE.match(line):
            result.append(line)
        elif line.startswith("    ") and not described:
            equation.append(line[4:])
        elif described and (head := PARAMETER.match(line)):
            result.append(head[1] + escaped(head[2] or ""))
        else:
            result.append(escaped(line))
    return result + typeset(equation)


def typeset(equation: list[str]) -> list[str]:
    """The lines of an equation as a block of mathematics, or of code."""
    if not equation:
        return []
    formula = latex(equation)
    if formula is None:
        return [".. code-block:: none", "", *(f"    {line}" for line in equation)]
    return [".. math::", "", f"    {formula}"]


def on_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = plain(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", on_docstring, priority=100)  # before numpydoc
    return {"parallel_read_safe": True}
