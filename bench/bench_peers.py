"""Value and gradient against what a user would pick instead: the sparse solvers for JAX and
PyTorch, in one run, turn by turn.

All solve with new values on a known pattern, in float64 on one thread, JAX after compilation.
Nobody is timed before its value and its gradient agree with ldiv's to 1e-6; who fails, or needs
more than a minute for a call, is named with the reason. ldiv takes part with each engine that is
installed, and with conjugate gradients to 1e-10, as the peers that iterate. The targets: the best
of these is never slower than the best peer, and the best of those that everybody has (SuperLU,
Cholesky, LU, conjugate gradients) takes at most 0.9 of its time.

    python bench/bench_peers.py [--quick]

`peers/of_jax.py` says how to make an environment in which all of them are installed.
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from peers import contenders
from problems import systems
from harness.measure import Figure, arguments, compare, report
from harness.turns import take_turns

DEFAULT = ("ldiv superlu", "ldiv cholesky", "ldiv lu", "ldiv cg")
PROBLEMS: list[tuple[tuple[Any, ...], int]] = [
    (("poisson", 200, 200), 5),
    (("poisson", 500, 500), 3),
    (("poisson", 30, 30, 30), 3),
    (("poisson", 40, 40, 40), 3),
    (("elasticity", 24), 3),
    (("convection", 250, 400), 5),
    (("real", "bcsstk13"), 9),
    (("real", "watt_2"), 9),
    (("real", "adder_dcop_05"), 9),
]
QUICK: list[tuple[tuple[Any, ...], int]] = [(("convection", 20, 20), 2)]


def against_all(spec: tuple[Any, ...], rounds: int) -> tuple[list[Figure], list[str]]:
    """The figures of a problem, and the sentences about those who are missing."""
    try:
        title = systems.make(*spec).title
    except (FileNotFoundError, ImportError) as error:
        return [], [f"Skipped {spec}: {error}."]
    seen = take_turns([*contenders.OURS, *contenders.PEERS], spec, rounds)
    ours, peers = (
        [name for name in seen.seconds if name in group]
        for group in (contenders.OURS, contenders.PEERS)
    )
    figures = [Figure(title, name, median(seen.seconds[name]), "s") for name in (*ours, *peers)]
    target = 1.0 if "ldiv pardiso" in ours else None
    figures += _best(title, seen.seconds, "best engine", ours, peers, target)
    if default := [name for name in DEFAULT if name in ours]:
        figures += _best(title, seen.seconds, "default install", default, peers, 0.9)
    return figures, [f"{title}: {name}: {why}." for name, why in seen.missing.items()]


def _best(
    title: str,
    seconds: Mapping[str, list[float]],
    what: str,
    ours: Sequence[str],
    peers: Sequence[str],
    target: float | None,
) -> list[Figure]:
    """The fastest of ours over the fastest of theirs."""
    if not ours or not peers:
        return []
    one, other = (min(group, key=lambda name: median(seconds[name])) for group in (ours, peers))
    turns = min(len(seconds[one]), len(seconds[other]))
    pair = {name: seconds[name][:turns] for name in (one, other)}
    return [compare(pair, f"{title} ({what})", one, other, target)]


def main() -> None:
    options = arguments(__doc__)
    figures: list[Figure] = []
    missing: list[str] = []
    for spec, rounds in QUICK if options.quick else PROBLEMS:
        found, sentences = against_all(spec, rounds)
        figures, missing = figures + found, missing + sentences
        print(*sentences, sep="\n", flush=True)
    report("peers", figures, options, "\n".join(missing))


if __name__ == "__main__":
    main()
