"""The gradient league: every package that claims a derivative, under the same rules; a table in JSON.

Each package runs from its wheel in an environment of its own, in a process that a crash or an endless loop
takes down alone: the next one goes on behind the mode that did it.

    python bench/league --install        makes out/league/<package> for those that are missing
    python bench/league                  runs all (about half an hour), writes bench/results/league/league.json
    python bench/league --only torch lineax --problems "lstsq dense"    these; what else was found stays
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import PROBLEMS, Problem  # noqa: E402
from contestants import ALL  # noqa: E402
from verdict import verdict  # noqa: E402

ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / "out" / "league"
RESULTS = ROOT / "bench" / "results" / "league" / "league.json"
DTYPES = ("float64", "complex128", "float32")
LIMIT = 120.0  # seconds for one mode
ONE_THREAD = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL")}


def python_of(name: str) -> Path:
    return ENVIRONMENTS / ALL[name][1] / "bin" / "python"


def install(name: str) -> None:
    _, environment, requirements, _ = ALL[name]
    if not python_of(name).exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENTS / environment], check=True)
        pip = [python_of(name), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *requirements, "mpmath"], cwd=ROOT, check=True)


def versions(name: str) -> dict[str, str]:
    """The versions of the packages of an environment, and of its framework."""
    framework, environment, _, _ = ALL[name]
    wanted = (environment, framework, "numpy")
    code = (
        "import json, sys\nfrom importlib.metadata import distributions\n"
        "found = {one.metadata['Name'].lower(): one.version for one in distributions()}\n"
        "print(json.dumps({name: found[name] for name in sys.argv[1:] if name in found}))"
    )
    command = [python_of(name), "-c", code, *dict.fromkeys(wanted)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(said.stdout)
    return found


def answers(name: str, dtype: str, problems: Sequence[str] = PROBLEMS) -> Iterator[dict[str, Any]]:
    """Each with its problem and mode; "died" where the process did."""
    done: list[list[str]] = []
    while True:
        begun = None
        for said in lines(name, dtype, done, problems):
            place = [said["problem"], said["mode"]] if "problem" in said else begun
            if "died" in said:
                if begun is None:
                    return  # it came to its end, or cannot be started at all
                said = {"problem": begun[0], "mode": begun[1], "died": said["died"]}
                place = begun
            elif len(said) == 2:
                begun = place
                continue
            done.append(place)
            begun = None
            yield said


def lines(
    name: str, dtype: str, done: list[list[str]], problems: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The output of the process, and its end."""
    command = [python_of(name), HERE / "attempt.py", name, dtype, json.dumps(done), *problems]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | ONE_THREAD | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": ""},
    )
    heard: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            heard.put(line)
        heard.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            line = heard.get(timeout=LIMIT)
        except queue.Empty:
            process.kill()
            yield {"died": f"more than {LIMIT:g} s"}
            return
        if line is None:
            yield {"died": f"the process ended with {process.wait()}"}
            return
        if line.startswith("LEAGUE "):
            yield json.loads(line.removeprefix("LEAGUE "))


@cache
def reference(problem: str, is_complex: bool, mode: str) -> list[float]:
    return Problem(problem, is_complex).reference(mode)


def judged(name: str, dtype: str, said: dict[str, Any]) -> dict[str, str]:
    problem, mode = said["problem"], said["mode"]
    if not problem.startswith("singular"):
        said["expected"] = reference(problem, dtype == "complex128", mode)
    word, seen = verdict(said, dtype)
    row = {"package": name, "problem": problem, "dtype": dtype, "mode": mode}
    row |= {"verdict": word, "seen": seen}
    if word != "right":
        python = f"out/league/{ALL[name][1]}/bin/python"
        row["again"] = f'{python} bench/league/attempt.py "{name}" {dtype} "{problem}" "{mode}"'
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--install", action="store_true", help="make the environments, and stop")
    parser.add_argument("--only", nargs="+", choices=list(ALL), help="these packages")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, help="these problems")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = options.only or list(ALL)
    if options.install:
        for name in names:
            install(name)
        return
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "versions": {},
        "rows": [],
    }
    problems = options.problems or PROBLEMS
    if options.out.exists() and (options.only or options.problems):
        record = json.loads(options.out.read_text())
        record["rows"] = [
            row
            for row in record["rows"]
            if row["package"] not in names or row["problem"] not in problems
        ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        record["versions"][name] = versions(name)
        for dtype in DTYPES:
            mine = [judged(name, dtype, said) for said in answers(name, dtype, problems)]
            record["rows"] += mine
            count = sum(row["verdict"] == "right" for row in mine)
            print(f"{name}, {dtype}: {count} of {len(mine)} right", flush=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
