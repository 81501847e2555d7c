"""Formulas as MathML, which browsers set without a script and without a network. In a sentence of a page a
formula is LaTeX, `$A^{-1} b$`, as hosts of repositories take it. On lines of its own, in docstrings and pages,
it is plain text, `x = A^-1 b`, as a terminal shows it, and is made LaTeX here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from textwrap import dedent
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

GREEK = (
    "alpha",
    "beta",
    "gamma",
    "theta",
    "kappa",
    "lam",
    "mu",
    "pi",
    "rho",
    "sigma",
    "tau",
    "phi",
)
GREEK += ("omega", "Lam", "Sigma", "eps", "delta", "Lambda")
NAMES = (
    "argmin",
    "circulant",
    "cond",
    "conj",
    "cos",
    "cosh",
    "det",
    "diag",
    "exp",
    "Im",
    "KL",
    "log",
)
NAMES += (
    "op",
    "outer",
    "rank",
    "Re",
    "sign",
    "sin",
    "sinh",
    "span",
    "tan",
    "tanh",
    "toeplitz",
    "tr",
)
LIMITS = ("sum", "int", "max", "min")
MARKS = {"<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "<-": r"\leftarrow ", "->": r"\to "}
MARKS |= {"{": r"\{", "}": r"\}", "#": r"\#", "~": r"\sim ", "..": r"\ldots ", "...": r"\ldots "}

TOKEN = re.compile(
    r"(?P<gap>\s{2,})|(?P<space>\s)|(?P<script>[_^](?:-?\d+|-?[A-Za-z]+|\*|\())"
    r"|(?P<name>\w+=\w+|[a-z]{3,}-[a-z]{3,}|[a-z]{3,}_[a-z]{3,}(?=\()|\w+'s)|(?P<bar>[A-Za-z]+_bar)|(?P<word>[A-Za-z]+)"
    r"|(?P<number>\d+(?:\.\d+)?!?)|(?P<mark><=|>=|!=|<-|->|\.\.\.?|.)"
)
CELL = re.compile(r"\S+(?: \S+)*")
CODE = re.compile(
    r"[a-zA-Z]\w*\.[a-zA-Z]|[\"`@]|\+=|\*\w"
)  # attributes, strings, operators of Python

DIFFERENTIAL = re.compile("d[A-Za-z]")
ARTICLE = r" (?!for|with|in|where|of|or|and)[a-z]{2}"  # what follows an "a" that is no symbol
# `A x B` is a Kronecker product, `A x` is one with a vector
CAPITAL_BEFORE = re.compile(r"([A-Z](_\w+)?(\^-?\w+)?|\)) $")
CAPITAL_AFTER = re.compile(r" ([A-Z](?![a-z])|\()")


def latex(lines: list[str]) -> str | None:
    """LaTeX of a formula in plain notation; None where the lines are code."""
    text = re.sub(r"([_^])\{([^}]*)\}", r"\1(\2)", dedent("\n".join(lines)))
    if CODE.search(text):
        return None
    cells = [list(CELL.finditer(line)) for line in text.split("\n")]
    starts = Counter(cell.start() for line in cells for cell in line)
    columns = sorted({0} | {start for start in starts if starts[start] > 1})
    rows = [aligned(line, columns) for line in cells]
    if len(rows) == 1:
        return rows[0].strip("& ")
    return r"\begin{aligned} " + r" \\ ".join(rows) + r" \end{aligned}"


def aligned(cells: list[re.Match[str]], columns: list[int]) -> str:
    """LaTeX of one line, whose cells stand in columns, or follow one that does."""
    parts = [""] * len(columns)
    for cell in cells:
        column = max(bisect_right(columns, cell.start()) - 1, 0)
        follows = bool(parts[column]) or cell.start() not in columns
        parts[column] += r"\qquad " * follows + row(cell[0])
    return "& " + " && ".join(parts)


def row(text: str) -> str:
    """LaTeX of one line."""
    tokens = list(TOKEN.finditer(text))
    made: list[str] = []
    braces: list[bool] = []  # for each open parenthesis, whether a script opened it
    for i, token in enumerate(tokens):
        before, after = text[: token.start()], text[token.end() :]
        kind, found = token.lastgroup, token[0]
        if kind == "gap":
            made.append(r"\qquad ")
        elif kind == "space":
            beside = tokens[i - 1], tokens[i + 1]
            words = any(english(text, other) for other in beside)
            functions = any(other[0] in (*NAMES, *LIMITS) for other in beside)
            made.append(r"\ " if words else r"\, " if functions else " ")
        elif kind == "script":
            made.append(script(found))
            braces += [True] * found.endswith("(")
        elif kind in ("word", "name") and english(text, token):
            made.append(rf"\text{{{found}}}")
        elif kind == "word":
            made.append(letter(found, before, after))
        elif kind == "bar":
            made.append(rf"\overline{{{letter(found.removesuffix('_bar'), before, after)}}}")
        elif kind == "number":
            made.append("_{" + found + "}" if before[-1:].isalpha() else found)
        elif found == "(":
            braces.append(False)
            made.append(found)
        elif found == ")" and braces and braces.pop():
            made.append("}")
        elif found == "*" and before[-1:].isalpha():
            made.append("^{*}")
        elif found == "<" and not after.startswith(" "):
            made.append(r"\langle ")
        elif found == ">" and not before.endswith(" "):
            made.append(r"\rangle ")
        else:
            made.append(MARKS.get(found, found))
    return "".join(made)


def english(text: str, token: re.Match[str]) -> bool:
    """Whether a token is a word of English, or a name of code, and no symbol of mathematics."""
    found, after = token[0], text[token.end() :]
    if found in ("a", "sum"):
        return bool(re.match(ARTICLE if found == "a" else " of | over | to ", after))
    symbol = len(found) == 1 or found in (*GREEK, *NAMES, *LIMITS) or DIFFERENTIAL.fullmatch(found)
    return token.lastgroup == "name" or (token.lastgroup == "word" and not symbol)


def script(text: str) -> str:
    """LaTeX of an index or exponent: `_ij`, `^-1`, `^H`, or the beginning of one in parentheses."""
    if text.endswith("("):
        return text[0] + "{"
    inner = text[1:]
    sign, name = ("-", inner[1:]) if inner.startswith("-") else ("", inner)
    upright = (text[0] == "^" and name in "HT") or (name.isalpha() and len(name) > 2)
    return text[0] + "{" + sign + (rf"\mathrm{{{name}}}" if upright else name) + "}"


def letter(name: str, before: str, after: str) -> str:
    """LaTeX of a letter, a differential, or the name of a function."""
    if name == "x" and CAPITAL_BEFORE.search(before) and CAPITAL_AFTER.match(after):
        return r"\otimes "
    if name in GREEK:
        return "\\" + {"lam": "lambda", "Lam": "Lambda", "eps": "varepsilon"}.get(name, name) + " "
    if name in LIMITS:
        return rf"\{name} "
    if name in NAMES:
        return rf"\operatorname{{{name}}}"
    return rf"\mathrm{{d}} {name[1]}" if DIFFERENTIAL.fullmatch(name) else name


# -- pages -------------------------------------------------------------------------------------------

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)((?: {4}.*\n)+)(?=\n)")


def typeset(text: str) -> str:
    """A page of Markdown with its indented formulas as blocks of LaTeX."""

    def block(found: re.Match[str]) -> str:
        made = latex([line[4:] for line in found[1].splitlines()])
        return found[0] if made is None else f"```{{math}}\n{made}\n```\n"

    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [INDENTED.sub(block, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, INDENTED.sub(block, text[end:])])


LITERAL = re.compile(r"^((?!\.\. )\S.*?):: *\n\n((?: {4}.*\n)+)", re.MULTILINE)


def typeset_example(text: str) -> str:
    """A page of the gallery, in reStructuredText, with its literal blocks of formulas set."""

    def block(found: re.Match[str]) -> str:
        made = latex(found[2].splitlines())
        opening = found[1].rstrip() + ":" * (not found[1].endswith(("?", " ")))
        return found[0] if made is None else f"{opening}\n\n.. math::\n\n    {made}\n"

    return LITERAL.sub(block, text)


def on_source(app: Sphinx, page: str, source: list[str]) -> None:
    if page.startswith("generated/gallery/"):
        source[0] = typeset_example(source[0])
    elif app.env.doc2path(page).suffix == ".md":
        source[0] = typeset(source[0])


def inline(self: Any, node: nodes.Element) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def displayed(self: Any, node: nodes.Element) -> None:
    self.body.append(f'<div class="equation">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.connect("source-read", on_source)
    return {"parallel_read_safe": True}
