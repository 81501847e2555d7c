"""Plain English, counted: docstrings that open without a subject or a verb, long sentences, comments.

Each number may only get better. One that is worse than its bound fails, and shows the places; one that
is better by more than its slack fails, too, and asks for a new bound. A bound a little above its number,
and the slack below it, let changes that began beside each other land one after the other.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC, DOCS = ROOT / "src" / "ldiv", ROOT / "docs"

OPENINGS = re.compile(
    r"(?:One (?:that|of|which)|That|Those|These|This|Of|What|By|As|Unless|Where|In|From|Is|Are|Does|Has|"
    r"Have|May|Can|How|Which|For|With|Without|Inside|Within|Between|When|While|Who|Whose|At|On|If|Its?|"
    r"They|Their|To|Along|Under|Over|After|Before|Until|Around|And|N?[Oo]r|So|Another|Told|Not)\b(?!-)"
)
# docstrings that open with one of these; titles of examples are no docstrings of code
MOST_OPENINGS = {"src/ldiv": 0, "tests": 0, "bench": 0, "docs": 0, "examples": 3}
WORDS = 35
MOST_LONG, MOST_LONG_OF_DOCSTRINGS = 0, 0  # sentences with more words: of pages, of docstrings
LEAST_COMMENTS = {"rules": 6.9, "engines": 7.4, "native": 8.9}  # of their own, a hundred lines
SLACK, SLACK_OF_COMMENTS = 12, 0.5


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text:
            yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("room", MOST_OPENINGS)
def test_docstrings_open_with_a_verb_or_a_noun(room: str) -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {opening[0]} ..."
        for path in sorted((ROOT / room).rglob("*.py"))
        if "generated" not in path.parts
        for line, text in docstrings(path)
        if (opening := OPENINGS.match(text))
    ]
    falls(f"MOST_OPENINGS[{room!r}]", MOST_OPENINGS[room], places)


# -- sentences -----------------------------------------------------------------------------------

NOT_PROSE = re.compile(r"```.*?```|^\|[^\n]*$|^#[^\n]*$", re.DOTALL | re.MULTILINE)
END = re.compile(r"(?<=[.!?:])[\s*)]+(?=[A-Z`*\[(_0-9])|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence, without code, tables and headings."""
    return [sentence.split() for sentence in END.split("\n" + NOT_PROSE.sub("\n\n", text))]


def test_sentences_are_short() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("develop/*.md")]
    places = [
        f"{path.relative_to(ROOT)}: {len(words)} words: {' '.join(words[:12])} ..."
        for path in sorted(pages)
        for words in sentences(path.read_text(encoding="utf-8"))
        if len(words) > WORDS
    ]
    falls("MOST_LONG", MOST_LONG, places)


# examples, parameters with their types, equations, rows of tables, titles of sections
NO_TEXT = re.compile(
    r"^>>>.*?(?:\n\n|\Z)|^\S[^\n]* : [^\n]*$|(?<=\n\n) {4}[^\n]*(?:\n +[^\n]*)*"
    r"|^[^\n]*\S {2,}\S[^\n]*(?:\n {5,}[^\n]*)*|^[^\n]+\n-{3,}$",
    re.DOTALL | re.MULTILINE,
)


def test_sentences_of_docstrings_are_short() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line}: {len(words)} words: {' '.join(words[:12])} ..."
        for path in sorted(SRC.rglob("*.py"))
        for line, text in docstrings(path)
        for words in sentences(NO_TEXT.sub("\n\n", text))
        if len(words) > WORDS
    ]
    falls("MOST_LONG_OF_DOCSTRINGS", MOST_LONG_OF_DOCSTRINGS, places)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("One two. Three `four`.\n\nFive", [2, 2, 1]),
        ("- One\n- Two three: Four\n\n```\nno prose\n```\n| a | table |\n", [1, 2, 1]),
        ("A figure of 1.5 is one word. (So is this.)", [7, 3]),
    ],
)
def test_a_sentence_is_found(text: str, counts: list[int]) -> None:
    assert [len(words) for words in sentences(text) if words] == counts


# -- comments ------------------------------------------------------------------------------------

LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def python_lines(path: Path) -> tuple[int, int]:
    """Lines that are a comment, and lines of code, docstrings not counted."""
    comments, code = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in LAYOUT | {tokenize.STRING}:
            code.add(token.start[0])
    return len(comments - code), len(code)


def cpp_lines(path: Path) -> tuple[int, int]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    comments = sum(line.startswith("//") for line in lines)
    return comments, sum(map(bool, lines)) - comments


@pytest.mark.parametrize("room", LEAST_COMMENTS)
def test_comments_stand_where_a_reader_would_stop(room: str) -> None:
    native = room == "native"
    files = (ROOT / room).rglob("*.?pp") if native else (SRC / room).rglob("*.py")
    counted = [cpp_lines(path) if native else python_lines(path) for path in files]
    comments, code = (sum(column) for column in zip(*counted, strict=True))
    share, least = 100 * comments / code, LEAST_COMMENTS[room]
    assert share >= least, f"{room}: {share:.2f} comments a hundred lines, fewer than {least}"
    assert share <= least + SLACK_OF_COMMENTS, (
        f"{room} got better: write {share:.1f} into LEAST_COMMENTS"
    )


def falls(name: str, bound: int, places: list[str]) -> None:
    """Fail if there are more places than the bound, or so few that the bound should follow."""
    listed = "\n".join(places)
    assert len(places) <= bound, (
        f"{len(places)} places, {name} is {bound}; mend yours, or as many others:\n{listed}"
    )
    assert len(places) >= bound - SLACK, (
        f"it got better, {len(places)} places: write {name} = {len(places) + 4}"
    )
