"""`generated/benchmarks.inc`: one table for every file of bench/results, as the benchmarks wrote it;
`generated/front.inc`: a few of the figures, for the home page.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

BENCH = Path(__file__).parents[2] / "bench"
# the unit of a figure, and what the seconds behind it are
HEAD = ("problem", "what", "figure", "target", "ldiv, s", "the other, s", "")
ORDER = (
    "solve",
    "peers",
    "engines",
    "eigen",
    "iterative",
    "large",
    "jax",
    "spsolve",
    "jacobian",
    "gaussian",
    "calls",
    "gpu",
)

# file, problem, what: what ldiv did, against whom; those that it loses are among them
FRONT = (
    (
        ("peers", "2D Poisson, n = 250,000 (best engine)", "ldiv pardiso / sparsax CHOLMOD"),
        "sparse solve, 2D, 250,000 unknowns, new values",
        "the fastest of six other packages, sparsax with CHOLMOD",
    ),
    (
        ("eigen", "membrane, n = 50,000", "pardiso: value + gradient / scipy forward"),
        "ten eigenpairs of a pencil, 50,000 unknowns",
        "SciPy's `eigsh`, without any gradient",
    ),
    (
        ("jacobian", "five-point stencil, n = 5,041", "ldiv / torch.func.jacrev"),
        "sparse Jacobian, 5,041 unknowns",
        "`torch.func.jacrev`, dense",
    ),
    (
        ("peers", "adder_dcop_05 (best engine)", "ldiv lu / sparsax KLU"),
        "a circuit of 1,813 unknowns",
        "sparsax with KLU, which is made for circuits",
    ),
    (
        ("calls", "dense 4 x 4", "ldiv / torch"),
        "dense, 4 x 4, 40 calls",
        "`torch.linalg.solve`, which checks less",
    ),
)


def front() -> str:
    """A short table of what is won and what is lost."""
    lines = [row(("value and gradient", "ldiv, s", "against", "the other, s", "ratio"))]
    lines.append(row(("---", "---:", "---", "---:", "---:")))
    for (name, problem, what), ours, theirs in FRONT:
        figures = json.loads((BENCH / "results" / f"{name}.json").read_text())["figures"]
        found = [one for one in figures if (one["problem"], one["what"]) == (problem, what)]
        if len(found) != 1:
            raise LookupError(f"the home page shows {problem}, {what}: not in {name}.json")
        one = found[0]
        times = number(one["seconds"]), theirs, number(one["over"])
        lines.append(row((ours, *times, number(one["value"]))))
    return "\n".join(lines)


def page() -> str:
    """The page, in Markdown."""
    files = sorted((BENCH / "results").glob("*.json"), key=lambda path: path.stem)
    files.sort(key=lambda path: ORDER.index(path.stem) if path.stem in ORDER else len(ORDER))
    return "\n".join(line for path in files for line in section(json.loads(path.read_text())))


def section(results: dict[str, Any]) -> Iterator[str]:
    """Return a section: the measured quantity, machine, versions, and the table."""
    sentence = described(results["name"])
    yield f"## {sentence.rstrip('.')}\n"
    machine, figures = results["machine"], results["figures"]
    load = f"load {machine['load']:g} on {machine['cores']} cores"
    yield (
        f"`bench/bench_{results['name']}.py`, on {machine['processor']}, "
        f"{machine['memory_gib']} GiB, {counted(machine['threads'], 'thread')}, {load}, {results['date']}.\n"
    )
    if figures:
        judged = [one["met"] for one in figures if one["met"] is not None]
        if judged:
            yield f"Targets met: {sum(judged)} of {len(judged)}.\n"
        yield row(HEAD)
        yield row(("---", "---", "---:", "---:", "---:", "---:", "---"))
        yield from (row(cells(one)) for one in figures)
        yield ""
    if results["note"]:
        yield "Notes:\n"
        yield from (f"- {line}" for line in results["note"].splitlines())
        yield ""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    yield f"Versions: {versions}.\n"


def described(name: str) -> str:
    """The first sentence of the benchmark's own docstring, up to its colon or semicolon."""
    doc = ast.get_docstring(ast.parse((BENCH / f"bench_{name}.py").read_text())) or name
    return " ".join(doc.split("\n\n")[0].split()).partition(";")[0].partition(": ")[0]


def counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def cells(figure: dict[str, Any]) -> Iterator[str]:
    unit = f" {figure['unit']}" if figure["unit"] else ""
    yield figure["problem"]
    yield figure["what"]
    yield f"{number(figure['value'])}{unit}"
    yield number(figure["target"])
    yield number(figure["seconds"])
    yield number(figure["over"])
    yield {True: "met", False: "**missed**", None: ""}[figure["met"]]


def number(x: float | None) -> str:
    return "" if x is None else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def row(parts: Any) -> str:
    return " | ".join(["", *(part.replace("|", "\\|") for part in parts), ""]).strip()


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    for name, text in (("benchmarks.inc", page()), ("front.inc", front())):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
