"""Write the paragraphs that docstrings of sibling functions share: each is kept once, in a table.

    python .ci/shared_paragraphs.py          # puts the texts of the table into the docstrings
    python .ci/shared_paragraphs.py --check  # says which docstrings differ from the table

A paragraph is the first line of an entry, like "b : array (n,)", with the lines indented below it. In the
docstrings that the table names, the entry with this first line is replaced. An entry that `MOST` docstrings
share without the table is an error, too, if its description is `LONG`. Functions that share the paragraph of
a parameter declare it alike, with one annotation and one default.
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
    declared: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for path in sorted(package.rglob("*.py")):
        lines, file = path.read_text().split("\n"), str(path.relative_to(package))
        # from below, so that the numbers of the lines above stay
        for name, signature, start, end, text in reversed(list(_entries(lines))):
            place = file, name, _head(text)
            for parameter in _parameters(text) & signature.keys() if place in shared else ():
                declared[shared[place], parameter][signature[parameter]] = f"{file}:{name}"
            seen.add(place)
            if place not in shared:
                places[text].append(f"{file}:{name}")
            elif text != shared[place]:
                faults += [f"{file}:{name} differs: {_head(text)}"] * check
                indent = re.match(" *", lines[start])[0]
                lines[start:end] = [indent + line for line in shared[place].split("\n")]
        if not check and lines != path.read_text().split("\n"):
            path.write_text("\n".join(lines))
    faults += [
        f"{parameter} is declared as "
        + ", but as ".join(f"{how} in {of}" for how, of in ways.items())
        for (_, parameter), ways in declared.items()
        if len(ways) > 1
    ]
    faults += [f"{file}:{name} lacks {head!r}" for file, name, head in shared.keys() - seen]
    faults += [
        f"{table.name} lacks {text!r} of {' '.join(of)}"
        for text, of in places.items()
        if len(of) >= MOST and len(text) - len(_head(text)) >= LONG
    ]
    return faults


def _entries(lines: list[str]) -> Iterator[tuple[str, dict[str, str], int, int, str]]:
    """Each entry of the docstrings: the name of the function, its signature, the first line, the line after
    the last one, and the text.
    """
    for name, node, first, last in _docstrings("", ast.parse("\n".join(lines))):
        start = first + 1  # the first line of a docstring stands behind its quotes
        while start < last:
            indent, end = re.match(" *", lines[start])[0], start + 1
            while lines[start].strip() and lines[end].startswith(indent + "    "):
                end += 1
            if end > start + 1:
                below = (line.removeprefix(indent) for line in lines[start:end])
                yield name, _signature(node), start, end, "\n".join(below)
            start = end


def _docstrings(outer: str, node: ast.AST) -> Iterator[tuple[str, ast.AST, int, int]]:
    """The name of each function and class inside of `node`, its own node, and the lines of its docstring."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}".lstrip(".")
            if ast.get_docstring(child):
                yield name, child, child.body[0].lineno - 1, child.body[0].end_lineno
        yield from _docstrings(name, child)


def _signature(node: ast.AST) -> dict[str, str]:
    """The annotation and the default of each parameter of a function."""
    if not isinstance(node, ast.FunctionDef):
        return {}
    given, optional = node.args, node.args.defaults
    args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    required = len(given.posonlyargs) + len(given.args) - len(optional)
    defaults = [*[None] * required, *optional, *given.kw_defaults]
    return {
        arg.arg: " = ".join(ast.unparse(part) for part in (arg.annotation, default) if part)
        for arg, default in zip(args, defaults, strict=True)
    }


def _parameters(text: str) -> set[str]:
    """The names before the colon in the first line of an entry."""
    names, colon, _ = _head(text).partition(" : ")
    return set(names.split(", ")) if colon else set()


def _head(text: str) -> str:
    return text.partition("\n")[0]


if __name__ == "__main__":
    faults = main("--check" in sys.argv[1:])
    sys.exit(
        "\n".join([*faults, "Run .ci/shared_paragraphs.py, or change its table."]) if faults else 0
    )
