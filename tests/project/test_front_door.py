"""The pages by which a stranger enters say what is so: no link is dead in a checkout, every error has
its place, the table of solvers is that of the engines, figures are those of the measurements.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import ldiv
from ldiv import errors, structures
from ldiv.core.frameworks.folders import plugins
from ldiv.engines.registry import answer, engines, is_iterative
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.matrix import Matrix, as_matrix

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("develop/*.md"))]


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as the host makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_link_is_dead_in_a_checkout(path: Path) -> None:
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    ):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists() and "generated" not in there.parts, target
        assert not anchor or anchor in anchors(there), target


def test_a_page_begins_with_what_it_is_for() -> None:
    """The first block below the title is a sentence; pages of tasks have an example or a picture."""
    whole = [path for path in PAGES if path.read_text().startswith("# ")]  # the rest include one
    assert len(whole) > len(PAGES) - 5
    for path in whole:
        first = path.read_text().partition("\n\n")[2]
        assert re.match(r"[\w`*$\[(]", first) and not first.startswith("```"), path.name
    tasks = re.search(r"```{toctree}\n.*?\n\n(.*?)```", page("howto"), re.DOTALL)
    assert tasks
    for name in {*tasks[1].split()} - {"faq"}:
        assert re.search(r"^>>> |^```python|code-block} python|^!\[", page(name), re.MULTILINE), (
            name
        )


def test_every_error_has_its_place() -> None:
    classes = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception) and kind is not errors.Portable
    }
    told = set(re.findall(r"^## (\w+Error)$", page("my_solve_raised"), re.MULTILINE))
    assert told == classes | {"WrongDerivativeError", "TooNoisyError"}


# -- which solver ------------------------------------------------------------------------------

N = 6
BAND = ldiv.diags_array([np.full(N, 4.0), -np.ones(N - 1), -np.ones(N - 1)], offsets=[0, 1, -1])
FULL, COLUMNS = BAND.toarray(), np.ones((N, 2))


def case(kind: str) -> Any:
    """The first square one that the file of a structure offers."""
    draw = np.random.default_rng(0).standard_normal
    found = (
        Matrix(structure, params)
        for module in plugins("structure")
        for structure, params in module.cases(lambda *shape: draw(shape))
    )
    return next(
        matrix for matrix in found if isinstance(matrix.structure, getattr(structures, kind))
    )


MATRICES = {
    "dense": lambda: FULL,
    "sparse": lambda: BAND,
    "banded": lambda: case("Banded"),
    "Toeplitz": lambda: ldiv.toeplitz(np.array([4.0, 1.0, 0.0])),
    "circulant": lambda: ldiv.circulant(np.array([4.0, 1.0, 0.0])),
    "Kronecker product": lambda: ldiv.kron(FULL, FULL),
    "Kronecker product + s I": lambda: ldiv.kron(FULL, FULL, shift=0.5),
    "Kronecker sum": lambda: case("KroneckerSum"),
    "Stein, I - A x B": lambda: case("Stein"),
    "sparse + low rank k": lambda: BAND + ldiv.LowRank(COLUMNS, COLUMNS),
    "blocks of sparse ones": lambda: ldiv.block_array([[BAND, BAND], [BAND, None]]),
    "Gram of a triangle": lambda: ldiv.Gram(np.tril(FULL)),
    "operator, only a product": lambda: ldiv.LinearOperator(
        lambda p, x: p * x, np.array(2.0), shape=(N, N)
    ),
}
SOLVERS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in page("which_solver").splitlines()
    if line.startswith("| ") and "`" in line
]
MAY_LACK = {
    "cholesky",
    "pardiso",
    "ldl",
    "lu",
    "fronts",
    "cudss",
}  # they have no wheel everywhere, or are compiled


@pytest.mark.parametrize("row", SOLVERS, ids=lambda row: f"{row[0]}, {row[1]}")
def test_the_table_of_solvers_is_that_of_the_engines(row: tuple[str, ...]) -> None:
    name, promise, on_cpu, on_gpu, iterated, _ = row
    structure, _ = promised(as_matrix("A", MATRICES[name]()), promise)
    assume_a = definiteness(structure, promise)
    told = {"cpu": re.findall(r"\w+", on_cpu), "cuda:0": re.findall(r"\w+", on_gpu)}
    for device, words in told.items():
        direct, iterative = (
            [
                key
                for key, engine in engines().items()
                if is_iterative(engine) is kind
                and answer(engine, structure, np.dtype(float), device, assume_a) is None
            ]
            for kind in (False, True)
        )
        listed = [
            word for word in words if word != "none" and (word in direct or word not in MAY_LACK)
        ]
        assert direct == listed
        assert iterative[0] == iterated.strip("`")


def test_the_drawing_has_the_engines_of_the_table() -> None:
    drawing = ElementTree.parse(ROOT / "docs" / "static" / "which_solver.svg")
    drawn = [text.text or "" for text in drawing.iterfind(".//{*}text[@class='engine']")]
    listed = {name for row in SOLVERS for cell in row[2:5] for name in re.findall(r"`(\w+)`", cell)}
    assert set(" ".join(drawn).split()) == listed
    by_promise = {
        row[1]: [cell.replace("`", "") for cell in row[2:4]]
        for row in SOLVERS
        if row[0] == "sparse"
    }
    assert drawn[-6:] == [cell for promise in ("pos", "sym", "gen") for cell in by_promise[promise]]


def test_the_drawing_keeps_inside_of_its_frames() -> None:
    """A letter of the monospaced font is as wide as 0.603 of its size, DejaVu's being the widest."""
    drawing = ElementTree.parse(ROOT / "docs" / "static" / "which_solver.svg")
    frames = [
        [float(frame.get(key, "")) for key in ("x", "y", "width", "height")]
        for frame in drawing.iterfind(".//{*}rect[@class]")
    ]
    for kind, size in ("code", 13.0), ("engine", 12.5):
        for text in drawing.iterfind(f".//{{*}}text[@class='{kind}']"):
            left, y = float(text.get("x", "")), float(text.get("y", ""))
            right = left + 0.603 * size * len(text.text or "")
            assert any(
                x < left and right < x + width and top < y < top + height
                for x, top, width, height in frames
            ), text.text


def test_every_matrix_of_the_table_is_asked() -> None:
    assert {row[0] for row in SOLVERS} == {*MATRICES}


# -- figures -----------------------------------------------------------------------------------


def test_the_figures_of_the_league_are_those_of_its_run() -> None:
    rows = json.loads((ROOT / "bench/results/league/league.json").read_text())["rows"]

    def count(*packages: str, verdict: str = "") -> int:
        return sum(r["package"] in packages and r["verdict"].startswith(verdict) for r in rows)

    ours = ("ldiv in PyTorch", "ldiv in JAX")
    assert count(*ours, verdict="wrong") == 0
    assert (
        f"torch had {count('torch', verdict='wrong')} wrong answers of {count('torch')}, "
        f"JAX {count('jax', verdict='wrong')} of {count('jax')}"
    ) in page("why_not")
    assert f"none of ldiv's {count(*ours)} was wrong" in page("why_not")
    wrong = {
        r["problem"] for r in rows if r["package"] in ("torch", "jax") and r["verdict"] == "wrong"
    }
    said = ("repeated", "singular", "eig dense", "damped")  # in words, on the page
    assert all(any(kind in problem for kind in said) for problem in wrong)


def test_the_versions_are_those_of_the_tests() -> None:
    def pins(path: str) -> dict[str, str]:
        return dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / path).read_text(), re.MULTILINE))

    oldest, used = pins(".ci/oldest.txt"), pins("constraints.txt")
    for name, package in (
        ("NumPy", "numpy"),
        ("SciPy", "scipy"),
        ("PyTorch", "torch"),
        ("JAX", "jax"),
    ):
        assert f"| {name} | {oldest[package]} | {used[package]} |" in page("versions")
    assert f"| autograd | | {used['autograd']} |" in page("versions")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    admitted = {"torch": "<2.16", "jax": "<0.13"}
    for extra, bound in admitted.items():
        assert project["optional-dependencies"][extra][0].endswith(bound)


def test_the_gallery_lists_every_example_once() -> None:
    header = (ROOT / "examples" / "GALLERY_HEADER.rst").read_text()
    listed = re.findall(r"sphx_glr_generated_gallery_(\w+)\.py", header)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def test_the_readme_begins_with_what_fits_on_a_screen() -> None:
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[
        :2
    ]
    assert len([line for line in first.splitlines() if line]) <= 8 < len(second.splitlines())
    tasks = (
        (ROOT / "README.md").read_text().partition("| --- | --- | --- |\n")[2].partition("\n\n")[0]
    )
    assert len(tasks.splitlines()) == 6


def test_the_readme_is_read_in_two_minutes() -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    words = re.findall(r"[A-Za-z'-]{2,}", re.sub(r"\]\([^)]*\)", "]", text))
    assert len(words) <= 480  # of 240 a minute, code aside
