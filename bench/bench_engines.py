"""Each direct engine of ldiv over the engine itself, called by hand: time, memory, and how both
grow with n.

loop        value and gradient with new values on a known pattern; by hand one factorization and two solves
peers       the same of ldiv's own engines over the fastest other one for these matrices, also under jit
memory      what the first value and gradient take beyond what the process held before, in a process of its own; by hand the same, the
            factorization and two solves
float32     the same of factor_dtype="float32" over the matrix's own precision
growth      the exponent p of n^p fitted to the times of the loop, and a plot of them: engines.png beside the JSON file

    python bench/bench_engines.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from problems import systems
from harness.measure import Figure, arguments, compare, report
from harness.turns import Seen, take_turns

ENGINES = ("superlu", "pardiso")
RAW = {"superlu": "raw superlu", "pardiso": "raw pardiso"}
# (problem, ours, the other one, goal)
PEERS = [
    *(
        (spec, ["ldiv ldl"], "raw pardiso", 1.1)
        for spec in (
            ("stokes", 80),
            ("helmholtz", 179),
            ("program", 30_000, 10_000),
            ("shifted", 30),
        )
    ),
    *(
        (("poisson", side, side), ["ldiv cholesky", "jit cholesky"], "sparsax CHOLMOD", 1.0)
        for side in (173, 346)
    ),
    (("circuit", 30_000), ["ldiv lu", "jit lu"], "sparsax KLU", 1.0),
]
FEW_PEERS = [(("stokes", 5), ["ldiv ldl"], "raw pardiso", 1.1)]
TARGETS = {2: 1.10, 3: 1.05}
MEMORY = 1.2
HALF = 0.75  # of the memory: neither indices nor the matrix are halved
IN_2D = [("poisson", side, side) for side in (100, 200, 300, 500)]
IN_3D = [("poisson", side, side, side) for side in (16, 22, 30, 40)]
COUNTED = {IN_2D[1], IN_2D[3], IN_3D[2], IN_3D[3]}  # the sizes that the targets are for

Line = tuple[list[int], list[float]]  # (n, seconds)


def one_size(engine: str, spec: tuple[Any, ...], rounds: int) -> tuple[list[Figure], Seen]:
    names = f"ldiv {engine}", RAW[engine]
    seen = take_turns(names, spec, rounds)
    if seen.missing:
        return [], seen
    problem = systems.make(*spec)
    ours, raw = (max(seen.memory[name], 1e-3) for name in names)
    figures = [compare(seen.seconds, problem.title, *names, TARGETS[problem.dimensions])]
    return [*figures, Figure(problem.title, f"memory, {engine}", ours / raw, "x", MEMORY)], seen


def growth(
    engine: str, specs: Sequence[tuple[Any, ...]], rounds: int
) -> tuple[list[Figure], dict[str, Line], list[str]]:
    """The figures of all sizes, the lines of the plot, and the sentences about what is missing."""
    figures: list[Figure] = []
    lines: dict[str, Line] = {name: ([], []) for name in (f"ldiv {engine}", RAW[engine])}
    for spec in specs:
        found, seen = one_size(engine, spec, rounds)
        if seen.missing:
            return [], {}, [f"{name}: {why}." for name, why in seen.missing.items()]
        figures += found if spec in COUNTED or len(COUNTED.intersection(specs)) == 0 else []
        for name, (sizes, seconds) in lines.items():
            sizes.append(int(np.prod(spec[1:])))
            seconds.append(median(seen.seconds[name]))
    kind = systems.NAMES[len(specs[0]) - 1]
    figures += [
        Figure(kind, f"exponent, {name}", exponent(line), "") for name, line in lines.items()
    ]
    return figures, lines, []


def over_peer(
    spec: tuple[Any, ...], ours: list[str], other: str, target: float, rounds: int
) -> tuple[list[Figure], list[str]]:
    seen = take_turns([*ours, other], spec, rounds)
    figures = [
        compare(seen.seconds, systems.make(*spec).title, name, other, target)
        for name in ours
        if {name, other} <= seen.seconds.keys()
    ]
    return figures, [f"{name}: {why}." for name, why in seen.missing.items()]


def in_single(spec: tuple[Any, ...], rounds: int) -> list[Figure]:
    """Time and memory of a factor in single precision over those of one in double."""
    names = "ldiv cholesky, float32", "ldiv cholesky"
    seen = take_turns(names, spec, rounds)
    if seen.missing:
        return []
    title = systems.make(*spec).title
    single, double = (max(seen.memory[name], 1e-3) for name in names)
    return [
        compare(seen.seconds, title, *names),
        Figure(title, "memory, float32", single / double, "x", HALF),
    ]


def exponent(line: Line) -> float:
    """The exponent p of n^p, by least squares on logarithms."""
    n, seconds = map(np.log, line)
    return float(np.polyfit(n, seconds, 1)[0])


def plot(panels: dict[str, dict[str, Line]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 4.2), layout="constrained", squeeze=False
    )
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for name, line in lines.items():
            kind, engine = name.split()
            style = {
                "color": f"C{ENGINES.index(engine)}",
                "linestyle": "-" if kind == "ldiv" else "--",
                "marker": "o" if kind == "ldiv" else "x",
            }
            axis.loglog(*line, label=f"{name}, n^{exponent(line):.2f}", **style)
        axis.set(title=title, xlabel="n", ylabel="seconds for value and gradient")
        axis.grid(which="both", alpha=0.3)
        axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    options = arguments(__doc__)
    kinds, rounds = (
        ([IN_2D, IN_3D], 5)
        if not options.quick
        else ([[("poisson", 10, 10), ("poisson", 50, 50)]], 2)
    )
    figures: list[Figure] = []
    missing: dict[str, None] = {}
    panels: dict[str, dict[str, Line]] = {}
    for specs in kinds:
        panel = panels.setdefault(systems.NAMES[len(specs[0]) - 1], {})
        for engine in ENGINES:
            found, lines, sentences = growth(engine, specs, rounds)
            figures += found
            panel |= lines
            missing |= dict.fromkeys(sentences)
        figures += in_single(specs[-1], rounds)
    for spec, ours, other, target in FEW_PEERS if options.quick else PEERS:
        found, sentences = over_peer(spec, ours, other, target, rounds)
        figures += found
        missing |= dict.fromkeys(sentences)
    plot(panels, options.out / "engines.png")
    report("engines", figures, options, "\n".join(missing))


if __name__ == "__main__":
    main()
