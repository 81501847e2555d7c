"""The site: every public name is in the reference, every page is reached, every figure of the home
page is there, and docstrings become reStructuredText that says the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import ldiv

DOCS = Path(__file__).parents[2] / "docs"
LISTED = re.findall(r"^`([\w.]+)`$", (DOCS / "reference.md").read_text(), re.MULTILINE)
sys.path.append(str(DOCS / "extensions"))  # they import each other


def extension(name: str) -> ModuleType:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location(name, DOCS / "extensions" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference_once() -> None:
    assert len(LISTED) == len(set(LISTED))
    assert {name for name in LISTED if "." not in name} == set(ldiv.__all__) - {"structures"}


def test_the_reference_reads_on_a_host_of_repositories() -> None:
    """The page has no directive; here its lists of names become tables, each with all of its names."""
    text = (DOCS / "reference.md").read_text()
    assert "{eval-rst}" not in text
    source, reference = [text], extension("reference")
    reference.to_tables(None, "reference", source)
    assert re.findall(r"^   (\w[\w.]*)$", source[0], re.MULTILINE) == LISTED
    assert len(reference.NAMES.findall(text)) == source[0].count("autosummary::") > 10


def test_every_structure_is_in_the_reference() -> None:
    listed = {name.partition(".")[2] for name in LISTED if name.startswith("structures.")}
    # Composed is what others are made with
    assert listed == set(ldiv.structures.__all__) - {"Composed"}


def test_every_example_has_a_picture_and_a_field() -> None:
    examples = {path.stem for path in (DOCS.parent / "examples").glob("*.py")}
    pictures = list((DOCS / "static" / "gallery").glob("*.png"))
    assert {path.stem for path in pictures} == examples
    assert set(extension("gallery").listed()) == examples
    assert max(path.stat().st_size for path in pictures) < 50_000


def test_every_page_is_reached() -> None:
    """A toctree of another page, or its pattern, leads to every page."""
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for pattern in ("*.md", "develop/*.md")
        for path in DOCS.glob(pattern)
    }
    trees = [
        entry
        for path in DOCS.glob("*.md")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(), re.DOTALL)
        for entry in tree.split()
    ]
    assert {page for page in pages if any(Path(page).match(entry) for entry in trees)} == (
        pages - {"index"}
    )


def test_the_page_of_names_answers_each() -> None:
    names = extension("names")
    found = [importlib.import_module(name) for name in ("scipy.linalg", "scipy.sparse.linalg")]
    text = names.page(found)
    here = set(re.findall(r"^\| {py:obj}`(\w+) <ldiv\.\w+>` \|", names.linked(text), re.MULTILINE))
    absent = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", names.linked(text), re.MULTILINE))
    of_libraries = {name for one in found for name in names.public(one)}
    assert here == of_libraries & set(ldiv.__all__)
    assert set(absent) == of_libraries - here
    assert here - set(names.SEEN) <= {"LinearOperator", "issparse"}, "tests/what_names_have.py"


def test_the_page_of_names_has_its_tables() -> None:
    """The tables are in the page as it is read; `python docs/extensions/names.py` writes them."""
    pytest.importorskip("torch")
    names = extension("names")
    pins = dict(
        re.findall(
            r"^([\w-]+)==([\w.]+)$", (DOCS.parent / "constraints.txt").read_text(), re.MULTILINE
        )
    )
    for package in ("numpy", "scipy", "torch"):
        if metadata.version(package).partition("+")[0] != pins[package]:
            pytest.skip(f"{package} is not the one of constraints.txt")
    text = names.PAGE.read_text()
    assert names.written(text) == text, "run python docs/extensions/names.py"


def test_the_figures_of_the_home_page_are_those_of_the_benchmarks() -> None:
    lines = extension("benchmarks").front().splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert all("| ---" in line or re.search(r"\d", line) for line in lines[1:])


def test_every_file_of_results_is_on_the_page() -> None:
    bench = extension("benchmarks")
    page = bench.page()
    for path in (bench.BENCH / "results").glob("*.json"):
        assert f"bench_{path.stem}.py" in page
    assert page.count("**missed**") + page.count("| met |") > 50


DOCSTRING = """Solve.

    |b - A x| <= rtol |b|
    for x_i in "y"

    A_bar = -lam x^H

Of `A*` and x_ and |x|.

Parameters
----------
*args : array (*batch, n)
    Of norm |x|.

Examples
--------
>>> x_ = 2 * 3
"""

MARKED = r"""Solve.

.. code-block:: none

    |b - A x| <= rtol |b|
    for x_i in "y"

.. math::

    \overline{A} = -\lambda  x^{\mathrm{H}}

Of `A*` and x\_ and \|x\|.

Parameters
----------
*args : array (\*batch, n)
    Of norm \|x\|.

Examples
--------
>>> x_ = 2 * 3
"""


FORMULAS = {
    "x^T P x / 2,    G x <= h": r"x^{\mathrm{T}} P x / 2,\qquad G x \le  h",
    "A x B,  A x": r"A \otimes  B,\qquad A x",
    "tr(A_ij^(1/2))": r"\operatorname{tr}(A_{ij}^{1/2})",
    "dL = <y_bar, dy>": r"\mathrm{d} L = \langle \overline{y}, \mathrm{d} y\rangle",
    "sum_i L1 with a real x*": r"\sum _{i} L_{1}\ \text{with}\ \text{a}\ \text{real}\ x^{*}",
}


@pytest.mark.parametrize("plain", FORMULAS)
def test_formulas_in_plain_notation_are_typeset(plain: str) -> None:
    formulas = extension("formulas")
    assert formulas.latex([plain]) == FORMULAS[plain]
    assert "<math" in formulas.tex2mathml(FORMULAS[plain])


def test_lines_of_formulas_keep_their_columns() -> None:
    lines = ["A = L U    for m = n", "X = B      for m < n", "    + C"]
    rows = r"& A = L U && \text{for}\ m = n", r"& X = B && \text{for}\ m < n", r"& \qquad + C && "
    expected = r"\begin{aligned} " + r" \\ ".join(rows) + r" \end{aligned}"
    assert extension("formulas").latex(lines) == expected


def test_code_and_tables_are_left_alone() -> None:
    formulas = extension("formulas")
    assert formulas.latex(["F.solve(b)"]) is formulas.latex(['mode="left"']) is None
    fenced = "```\nx\n\n    A = L U\n\n```\n"
    assert formulas.typeset(fenced) == fenced
    page = "So\n\n    A = L U\n\nand"
    assert formulas.typeset(page) == "So\n\n```{math}\nA = L U\n```\n\nand"


def test_a_docstring_says_the_same_as_restructured_text() -> None:
    plain = extension("plain_docstrings").plain
    assert "\n".join(plain(DOCSTRING.split("\n"))) == MARKED


@pytest.mark.parametrize("name", sorted(set(ldiv.__all__) - {"structures"}))
def test_the_sections_of_a_docstring_can_be_read(name: str) -> None:
    """The docstrings parse with numpydoc: `name : description` in See Also, and so on."""
    docscrape = pytest.importorskip("numpydoc.docscrape")
    lines = (inspect.getdoc(getattr(ldiv, name)) or "").split("\n")
    docscrape.NumpyDocString("\n".join(extension("plain_docstrings").plain(lines)))
