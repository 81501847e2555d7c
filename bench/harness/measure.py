"""Side by side: the contenders take turns in one run, each round gives one ratio, and the median of
the ratios counts.

Turns in one run share the state of the machine, so that its noise falls on all of them; the order
of the turns is reversed in every other round. Figures go to a table on the screen and, with the
machine and the versions, to <out>/<name>.json. Tables are printed by rich: pip install 'ldiv[cli]'.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

BENCH = Path(__file__).parents[1]
PACKAGES = (
    "numpy",
    "scipy",
    "pymetis",
    "mkl",
    "scikit-sparse",
    "pyamg",
    "torch",
    "jax",
    "jaxlib",
    "sparsax",
    "klujax",
    "solvax",
    "lineax",
    "asdex",
    "torch-sla",
    "torchsparsegradutils",
    "xitorch",
    "asdex",
    "petsc4py",
    "mpi4py",
)


@dataclass(frozen=True)
class Figure:
    """One measured number, None where nothing came of it; a target is an upper bound."""

    problem: str
    what: str
    value: float | None
    unit: str
    target: float | None = None
    seconds: float | None = None  # the median of the contender
    over: float | None = None  # the median of what it is compared with

    @property
    def met(self) -> bool | None:
        return None if self.target is None or self.value is None else self.value <= self.target


def side_by_side(
    contenders: Mapping[str, Callable[[Any], Any]], fresh: Callable[[int], Any], rounds: int
) -> dict[str, list[float]]:
    """Seconds of every contender in every round, after one round that does not count; `fresh(i)`
    makes the input of round i, not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for i in range(rounds + 1):
        for name in list(contenders)[:: 1 if i % 2 else -1]:
            argument = fresh(i)
            gc.collect()
            start = time.perf_counter()
            result = contenders[name](argument)
            elapsed = time.perf_counter() - start
            del result, argument
            if i:
                seconds[name].append(elapsed)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], name: str, over: str) -> float:
    """The median over the rounds of one contender's time over another's."""
    return median(a / b for a, b in zip(seconds[name], seconds[over], strict=True))


def compare(
    seconds: Mapping[str, Sequence[float]],
    problem: str,
    name: str,
    over: str,
    target: float | None = None,
) -> Figure:
    """Return that ratio as a figure."""
    return Figure(
        problem,
        f"{name} / {over}",
        ratio(seconds, name, over),
        "x",
        target,
        median(seconds[name]),
        median(seconds[over]),
    )


def arguments(about: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """--quick and --out, which every benchmark understands."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and few rounds: does it run at all?"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="the folder for the JSON file (bench/results; out/bench with --quick)",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.out = options.out or (Path("out/bench") if options.quick else BENCH / "results")
    return options


def report(
    name: str, figures: Sequence[Figure], options: argparse.Namespace, note: str = ""
) -> None:
    """The table, and the JSON file."""
    Console(width=150).print(_table(name, figures), *([note] if note else []))
    rows = [asdict(figure) | {"met": figure.met} for figure in figures]
    record = {
        "name": name,
        "quick": options.quick,
        "date": date.today().isoformat(),
        "note": note,
        "machine": machine(),
        "versions": versions(),
        "figures": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=2, allow_nan=False)
    (options.out / f"{name}.json").write_text(text + "\n")


def _table(name: str, figures: Sequence[Figure]) -> Table:
    table = Table("problem", "what", title=name)
    for heading in ("seconds", "over", "figure", "target"):
        table.add_column(heading, justify="right")
    for f in figures:
        times = ["" if s is None else f"{s:.3g}" for s in (f.seconds, f.over)]
        verdict = (
            ""
            if f.target is None
            else f"[{'green' if f.met else 'red'}]{'' if f.met else 'missed: '}<= {f.target:g}"
        )
        value = "" if f.value is None else f"{f.value:.3g} {f.unit}"
        table.add_row(f.problem, f.what, *times, value, verdict)
    return table


def machine() -> dict[str, Any]:
    """The machine of the measurements, without names."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    here = {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "processor": _processor(),
        "system": platform.system(),
    }
    return here | {"threads": 1, "load": round(load, 1)}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def versions() -> dict[str, str]:
    """The versions of Python, ldiv and its dependencies."""
    import ldiv

    return {"python": platform.python_version(), "ldiv": ldiv.__version__} | {
        p: v for p in PACKAGES if (v := _version(p))
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
