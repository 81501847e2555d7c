"""Write the paragraphs that docstrings of sibling functions share: each is kept once, in a table.

    python .ci/shared_paragraphs.py          # puts the texts of the table into the docstrings
    python .ci/shared_paragraphs.py --check  # says which docstrings differ from the table

A paragraph is the first line of an entry, like "b : array (n,)", with the lines indented below it. In the
docstrings that the table names, the entry with this first line is replaced. An entry that `MOST` docstrings
share without the table is an error, too, if its description is `LONG`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TABLE = Path(__file__).with_suffix(".toml")
MOST, LONG = 4, 40


def main(check: bool, package: Path = ROOT / "src" / "ldiv", table: Path = TABLE) -> list[str]:
    """Return what is wrong; without `check` what differs is written instead."""
    shared = {
        (file, name, _head(paragraph["text"].strip())): paragraph["text"].strip()
        for paragraph in tomllib.loads(table.read_text())["paragraph"]
        for file, names in paragraph["of"].items()
        for name in names.split()
    }
    faults, places, seen = [], defaultdict(list), set()
    for path in sorted(package.rglob("*.py")):
        lines, file = path.read_text().split("\n"), str(path.relative_to(package))
        # from below, so that the numbers of the lines above stay
        for name, start, end, text in reversed(list(_entries(lines))):
            place = file, name, _head(text)
            seen.add(place)
            if place not in shared:
                places[text].append(f"{file}:{name}")
            elif text != shared[place]:
                faults += [f"{file}:{name} differs: {_head(text)}"] * check
                indent = re.match(" *", lines[start])[0]
                lines[start:end] = [indent + line for line in shared[place].split("\n")]
        if not check and lines != path.read_text().split("\n"):
            path.write_text("\n".join(lines))
    faults += [f"{file}:{name} lacks {head!r}" for file, name, head in shared.keys() - seen]
    faults += [
        f"{table.name} lacks {text!r} of {' '.join(of)}"
        for text, of in places.items()
        if len(of) >= MOST and len(text) - len(_head(text)) >= LONG
    ]
    return faults


def _entries(lines: list[str]) -> Iterator[tuple[str, int, int, str]]:
    """Each entry of the docstrings: the name of the function, its first line, the line after its last
    one, and its text.
    """
    for name, first, last in _docstrings("", ast.parse("\n".join(lines))):
        start = first + 1  # the first line of a docstring stands behind its quotes
        while start < last:
            indent, end = re.match(" *", lines[start])[0], start + 1
            while lines[start].strip() and lines[end].startswith(indent + "    "):
                end += 1
            if end > start + 1:
                below = (line.removeprefix(indent) for line in lines[start:end])
                yield name, start, end, "\n".join(below)
            start = end


def _docstrings(outer: str, node: ast.AST) -> Iterator[tuple[str, int, int]]:
    """The name of each function and class inside of `node`, and the lines of its docstring."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}".lstrip(".")
            if ast.get_docstring(child):
                yield name, child.body[0].lineno - 1, child.body[0].end_lineno
        yield from _docstrings(name, child)


def _head(text: str) -> str:
    return text.partition("\n")[0]


if __name__ == "__main__":
    faults = main("--check" in sys.argv[1:])
    sys.exit(
        "\n".join([*faults, "Run .ci/shared_paragraphs.py, or change its table."]) if faults else 0
    )
