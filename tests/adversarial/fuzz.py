"""Try cases of every kind for as long as one likes, and show the smallest Python that fails, of
each failure.

    make fuzz SECONDS=600 SEED=0 KIND=solves        or        PYTHONPATH=tests python -m adversarial.fuzz --seconds 600

A kind is a module of this folder with `cases(seed)`; adding one is a file, and its name in KINDS.
`case.py` says what a case is. Cases run in a process of their own, one after another: one that
kills it, or takes longer than PATIENCE seconds, is a failure, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection
from typing import NamedTuple

from adversarial.case import Case, Wrong

KINDS = (
    "solves",
    "modes",
    "backwards",
    "state",
    "bad_calls",
    "partners",
    "scales",
    "programs",
    "determined",
    "turns",
    "members",
    "marginals",
)
# of PyTorch itself, on the first use of forward mode and of sparse tensors
OF_TORCH = (
    "`torch.jit.script` is deprecated",
    "Sparse .* beta",
    "Sparse invariant checks",
    "There is a performance drop",
)
PATIENCE = 120.0
SHRINK = 5.0  # seconds spent on making a failing case smaller

Outcome = tuple[str, str]  # label, and what came of it or the complaint


class Found(NamedTuple):
    """The count of each outcome, and the smallest (size, source) of the failures."""

    outcomes: Counter[Outcome]
    smallest: dict[Outcome, tuple[int, str]]

    def add(self, label: str, outcome: str, failure: tuple[int, str] | None) -> None:
        self.outcomes[label, outcome] += 1
        if failure is not None and failure < self.smallest.get((label, outcome), (sys.maxsize, "")):
            self.smallest[label, outcome] = failure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="in all, shared by the kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("all", *KINDS), default="all")
    asked = parser.parse_args()
    kinds = KINDS if asked.kind == "all" else (asked.kind,)
    return sum([fuzz(kind, asked.seconds / len(kinds), asked.seed) for kind in kinds]) > 0


def fuzz(kind: str, seconds: float, seed: int, patience: float = PATIENCE) -> int:
    """The number of distinct failures of a kind, after a table of outcomes and the reproducers
    were printed.
    """
    found, until, first = Found(Counter(), {}), time.monotonic() + seconds, 0
    while first >= 0:
        first = supervise(kind, seed, first, until, patience, found)
    print(f"\n{kind}, seed {seed}: {found.outcomes.total()} cases")
    for (label, outcome), number in sorted(found.outcomes.items()):
        print(f"{number:8}  {label}: {outcome}")
    for (label, complaint), (size, source) in found.smallest.items():
        print(f"\n--- {label}: {complaint} (size {size})\n{source}")
    return len(found.smallest)


def supervise(kind: str, seed: int, first: int, until: float, patience: float, found: Found) -> int:
    """Run the cases from the first on in a process; the number of the one to go on with after a
    case that killed it, -1 at the end.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    worker = context.Process(target=work, args=(there, kind, seed, first, until), daemon=True)
    worker.start()
    there.close()
    number, fate, wait = first, "it hung", PATIENCE  # for the imports
    try:
        while here.poll(wait):
            message, wait = here.recv(), patience
            if message is None:
                worker.join()
                return -1
            if isinstance(message, int):
                number = message
            else:
                found.add(*message)
    except EOFError:
        worker.join()
        fate = f"it killed the process, exit code {worker.exitcode}"
    worker.kill()
    case = next(islice(import_module(f"adversarial.{kind}").cases(seed), number, None))
    found.add(case.label, fate, (case.size, case.source()))
    return number + 1


def work(there: Connection, kind: str, seed: int, first: int, until: float) -> None:
    """Send the number of each case before it runs, and (label, outcome, None or (size, source))
    after it; None at the end.
    """
    warnings.simplefilter("error")
    for message in OF_TORCH:
        warnings.filterwarnings("ignore", message)
    smallest: dict[Outcome, int] = {}
    for number, case in enumerate(import_module(f"adversarial.{kind}").cases(seed)):
        if time.monotonic() > until:
            break
        if number < first:
            continue
        there.send(number)
        outcome, is_fault = attempt(case)
        failure = None
        if is_fault and case.size < smallest.get((case.label, outcome), sys.maxsize):
            case = shrunk(case, outcome)
            smallest[case.label, outcome] = case.size
            failure = case.size, f"{case.source()}\n# case {number} of seed {seed}: {said(case)}"
        there.send((case.label, outcome, failure))
    there.send(None)


def attempt(case: Case) -> tuple[str, bool]:
    """(outcome, False), or (complaint, True)."""
    try:
        return case.check(), False
    except Wrong as wrong:
        return wrong.complaint, True
    except Exception as error:
        return f"{type(error).__name__}: " + re.sub(r"[\d.]+(e[+-]?\d+)?", "#", str(error))[
            :80
        ], True


def shrunk(case: Case, complaint: str) -> Case:
    """The first smaller case that fails alike, of that the first smaller one, and so on."""
    until = time.monotonic() + SHRINK

    def fails(smaller: Case) -> bool:
        return time.monotonic() < until and attempt(smaller) == (complaint, True)

    def steps() -> Iterator[Case]:
        at: Case | None = case
        while at is not None:
            yield at
            at = next(filter(fails, at.smaller()), None)

    *_, last = steps()
    return last


def said(case: Case) -> str:
    try:
        return case.check()
    except Exception as error:
        return str(error)[:300]


if __name__ == "__main__":
    sys.exit(main())
