"""`generated/league.inc`: the gradient league, as `python bench/league` wrote it: a row for each package, and
every failure with the line that does it again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "league" / "league.json"
WORDS = ("right", "refused", "wrong", "crashed")
SHORT = 160  # of what was seen, characters


def page(record: dict[str, Any]) -> str:
    return "\n".join(line for part in (summary(record), failures(record)) for line in part)


def summary(record: dict[str, Any]) -> Iterator[str]:
    """A table of counts, one of modes, the versions."""
    rows = record["rows"]
    yield row(("package", "claims, cases", *WORDS))
    yield row(("---", "---:", "---:", "---:", "---:", "---:"))
    for package in record["versions"]:
        mine = [one for one in rows if one["package"] == package]
        count = Counter(one["verdict"] for one in mine)
        yield row((package, str(len(mine)), *(str(count[word]) for word in WORDS)))
    yield ""
    yield "Right, of all cases in which the package claims the problem, by mode:\n"
    modes = list(dict.fromkeys(one["mode"] for one in rows))
    yield row(("package", *modes))
    yield row(("---", *("---:" for _ in modes)))
    for package in record["versions"]:
        yield row((package, *(share(rows, package, mode) for mode in modes)))
    yield ""
    yield f"Run on {record['date']} with Python {record['python']}. Versions:\n"
    for package, versions in record["versions"].items():
        yield f"- {package}: {', '.join(f'{name} {v}' for name, v in versions.items())}"
    yield ""


def share(rows: list[dict[str, str]], package: str, mode: str) -> str:
    mine = [one["verdict"] for one in rows if (one["package"], one["mode"]) == (package, mode)]
    return f"{mine.count('right')}/{len(mine)}" if mine else ""


def failures(record: dict[str, Any]) -> Iterator[str]:
    """The failures by package, one line for dtypes that fail alike."""
    yield "## What was not right\n"
    for package in record["versions"]:
        bad = [
            one for one in record["rows"] if one["package"] == package and one["verdict"] != "right"
        ]
        yield f"### {package}\n"
        if not bad:
            yield "Nothing.\n"
            continue
        yield f"The first of them again: `{bad[0]['again']}`\n"
        yield row(("problem", "mode", "dtypes", "verdict", "seen"))
        yield row(("---", "---", "---", "---", "---"))
        groups: dict[tuple[str, str, str], list[dict[str, str]]] = {}
        for one in bad:
            groups.setdefault((one["problem"], one["mode"], one["verdict"]), []).append(one)
        for (problem, mode, word), alike in groups.items():
            dtypes = ", ".join(one["dtype"] for one in alike)
            said = f"**{word}**" if word in ("wrong", "crashed") else word
            yield row((problem, mode, dtypes, said, short(alike[0]["seen"])))
        yield ""


def short(text: str) -> str:
    kept = text if len(text) <= SHORT else f"{text[:SHORT]} ..."
    return "`" + kept.replace("`", "'") + "`"


def row(parts: Any) -> str:
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    path, text = folder / "league.inc", page(json.loads(RESULTS.read_text()))
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
