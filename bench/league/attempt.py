"""One package in its own environment: a line of JSON for each mode of each problem, once it is known.

    out/league/torch/bin/python bench/league/attempt.py torch float64 "solve dense" "forward over forward"

does one of them again, and prints the reference, too.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from cases import Problem
from contestants import ALL
from modes import modes_of


def attempt_all(name: str, dtype: str, done: set[tuple[str, str]], problems: list[str]) -> None:
    """Everything that the package claims, but for what is done."""
    for problem_name in problems:
        for mode, run in runs(name, dtype, problem_name).items():
            if (problem_name, mode) not in done:
                about = {"problem": problem_name, "mode": mode}
                say(about)
                say(about | answer(run))


def runs(name: str, dtype: str, problem_name: str) -> dict[str, Callable[[], Any]]:
    framework, _, _, claim = ALL[name]
    problem = Problem(problem_name, dtype == "complex128")
    return modes_of(framework, problem, claim, dtype == "float32")


def answer(run: Callable[[], Any]) -> dict[str, Any]:
    try:
        out = run()
        out = out.detach() if hasattr(out, "detach") else out
        return {"got": [float(x) for x in np.asarray(out, float).ravel()]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def say(what: dict[str, Any]) -> None:
    print("LEAGUE", json.dumps(what), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, dtype, *rest = sys.argv[1:]
    if rest[0].startswith("["):
        done = {(problem, mode) for problem, mode in json.loads(rest[0])}
        attempt_all(name, dtype, done, rest[1:])
    else:
        problem_name, mode = rest
        print(answer(runs(name, dtype, problem_name)[mode]))
        if not problem_name.startswith("singular"):
            expected = Problem(problem_name, dtype == "complex128").reference(mode)
            print({"expected": expected})
