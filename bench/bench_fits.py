"""Least squares with gradients, linear and nonlinear, side by side with the packages that have them.

value + gradient   seconds of x and of the gradient of c^T x, for new data of the same pattern: the shortest of some calls, in a process
                   for each; what is compiled or set up at the first call is not in it, and stands beside it
error              of that gradient, over its largest entry, against 50 digits (problems/fits.py); of large nonlinear ones against ldiv's

A package takes part where it is installed; one that fails, or takes more than 60 s, has a row that says so.

python bench/bench_fits.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from harness.alone import inside, measured
from harness.measure import Figure, arguments, report
from peers.of_fits import LINEAR, NONLINEAR, PEERS
from problems import fits
from problems.fits import Fit

PROBLEMS: dict[str, Callable[[], Fit]] = {
    f"{kind}, n = {n}": partial(fits.fit, side)
    for kind in ("linear", "nonlinear")
    for n, side in (("98", 7), ("968", 22), ("39,762", 141))
}
QUICK = ("linear, n = 98",)


def side_by_side(title: str) -> list[Figure]:
    """All who are here."""
    problem, kind = PROBLEMS[title](), LINEAR if title.startswith("linear") else NONLINEAR
    here = [name for name in kind if find_spec(name.split(",")[0])]
    seen = {name: measured(__file__, title, name) for name in here}
    expected = _gradient(title, problem, seen)
    ours = min(s for name in here if name.startswith("ldiv") for s in seen[name].get("seconds", []))
    figures = []
    for name, found in seen.items():
        if "failed" in found:
            figures.append(Figure(title, f"{name}: {found['failed']}", None, ""))
            continue
        seconds = min(found["seconds"])
        figures.append(Figure(title, f"{name}: value + gradient", seconds, "s"))
        if not name.startswith("ldiv"):
            target = 1.0 if problem.n >= 900 else None
            figures.append(
                Figure(title, f"ldiv / {name}", ours / seconds, "x", target, ours, seconds)
            )
        figures.append(Figure(title, f"{name}: first call", found["first"], "s"))
        error = abs(found["found"]["gradient"] - expected).max() / abs(expected).max()
        figures.append(Figure(title, f"{name}: error", float(error), ""))
    return figures


def _gradient(title: str, problem: Fit, seen: dict[str, Any]) -> Any:
    if title.startswith("linear"):
        return fits.linear_gradient(problem)
    if problem.n <= fits.LARGEST_OF_NEWTON:
        return fits.nonlinear_gradient(problem)
    return seen["ldiv, least_squares"]["found"]["gradient"]


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        title, name, out = sys.argv[2:]
        inside(PEERS[name], PROBLEMS[title](), out)
        return
    options = arguments(__doc__)
    titles = QUICK if options.quick else tuple(PROBLEMS)
    figures = [figure for title in titles for figure in side_by_side(title)]
    report("fits", figures, options)


if __name__ == "__main__":
    main()
