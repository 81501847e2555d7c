"""State at every moment: arrays changed in place, threads, processes, interrupts, copies, and what
stays alive.

The checks are in `changes`, `threads`, `processes`, `interrupts` and `lifetimes`; those that fork,
are interrupted or count what lives run in a process of their own.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from adversarial import changes, interrupts, lifetimes, threads
from adversarial.case import Case
from adversarial.functions import FUNCTIONS
from adversarial.processes import in_a_process
from ldiv.engines.libraries import mkl_pardiso, native

TAPES = ("gemm", "solve_triangular", "lu", "cholesky", "solve")
# PARDISO where there is one
ENGINES = ("auto", "superlu", *["pardiso"] * (mkl_pardiso.path() is not None))
Check = tuple[str, str, tuple[Any, ...]]  # module, function, arguments


def here() -> list[Check]:
    """All checks that are done in this process, in milliseconds each."""
    moments = [(name, moment) for name in FUNCTIONS for moment in changes.MOMENTS]
    checks: list[Check] = [
        ("changes", f"of_{framework}", at) for framework in ("numpy", "torch") for at in moments
    ]
    checks += [
        ("changes", "of_kept", (name, form)) for name in changes.KEPT for form in changes.FORMS
    ]
    checks += [("changes", "of_patterns", (form,)) for form in ("coo", "csr")]
    return checks + [("changes", "of_tape", (operation,)) for operation in TAPES]


def of_threads(seed: int) -> list[Check]:
    checks: list[Check] = [
        ("threads", "of_functions", (seed, framework)) for framework in ("numpy", "torch")
    ]
    checks += [("threads", f"of_{what}", (seed,)) for what in ("engines", "one_pattern")]
    return checks + [
        ("threads", "of_one_factorized", (seed, method))
        for method in (*ENGINES, *["lu"] * (native.native is not None))
    ]


def apart(seed: int) -> list[Check]:
    """The cases that need a process of their own, seconds each."""
    checks: list[Check] = [
        ("lifetimes", "of_loop", (name, 4 + seed % 7, 10_000, kept))
        for name in lifetimes.LOOPS
        for kept in (False, True)
    ]
    checks += [
        ("lifetimes", "of_every_graph", ()),
        ("lifetimes", "of_every_function", ("numpy",)),
        ("lifetimes", "of_every_function", ("torch",)),
    ]
    checks += [
        ("lifetimes", "of_exceptions", (form, kept))
        for form in ("dense", "sparse")
        for kept in (False, True)
    ]
    checks += [("interrupts", "of_signals", (name, 100 + seed % 50)) for name in interrupts.WORK]
    checks += [
        ("interrupts", "of_every_call", (form, 1 + seed % 5, 5)) for form in ("dense", "sparse")
    ]
    checks += [("processes", "of_fork_under_threads", ())]
    for framework in ("numpy", "torch"):
        checks += [("processes", "of_fork", (framework, method)) for method in ENGINES]
        for start in ("fork", "spawn"):
            checks += [
                ("processes", f"of_{way}", (start, before, framework))
                for way in ("pool", "executor")
                for before in (True, False)
            ]
    return checks + [
        ("processes", "of_loader", (start, before))
        for start in ("fork", "spawn")
        for before in (True, False)
    ]


def in_turn(checks: tuple[Check, ...]) -> str:
    """Checks of lifetimes, several in one process."""
    for _, name, args in checks:
        gc.collect()  # what the last one's errors hold in cycles
        print(name, args, outcome := getattr(lifetimes, name)(*args), flush=True)
        if outcome != "right":
            return str(outcome)
    return "right"


def look(module: str, name: str, *args: Any) -> str:
    """The outcome of a check, here or in a process of its own."""
    if module in ("changes", "threads"):
        return str(getattr({"changes": changes, "threads": threads}[module], name)(*args))
    # lifetimes are work, one after the other, and wait for nobody
    limit = {"seconds": 500} if name == "in_turn" else {}
    return in_a_process(module, name, *args, **limit)


def case(check: Check) -> Case:
    module, name, args = check
    source = f"from adversarial.state import look\nlook({module!r}, {name!r}, *{args!r})"
    return Case(f"{module}, {name}", 1, partial(look, *check[:2], *args), partial(str, source))


def cases(seed: int) -> Iterator[Case]:
    """Endlessly: what changes in place once, in random order, and threads and processes between,
    with other numbers every time.
    """
    rng = np.random.default_rng(seed)
    quick = here()
    rest = iter([quick[i] for i in rng.permutation(len(quick))])
    for round_ in count():
        slow = [*of_threads(seed + round_), *apart(seed + round_)]
        for i in rng.permutation(len(slow)):
            yield from (case(check) for check, _ in zip(rest, range(8), strict=False))
            yield case(slow[i])
