"""A slice of the hard problems, by every engine; `make fuzz` runs more of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from adversarial import families, problems, solves
from adversarial.fuzz import attempt, shrunk

FEW, SLICES, PROBLEMS = 2, 6, 100  # slices in `make test`, and in all


@pytest.mark.parametrize(
    "part",
    [pytest.param(i, marks=pytest.mark.exhaustive if i >= FEW else ()) for i in range(SLICES)],
)
@pytest.mark.parametrize(
    "forms", [("csc", "csr", "coo"), ("dense", "banded")], ids=["sparse", "dense"]
)
def test_solves(forms, part, capfd):
    """Right, or refused as it should be, without a word on the terminal."""
    failed = {}
    for number in range(part * PROBLEMS, (part + 1) * PROBLEMS):
        for case in solves.of_number(0, number, forms):
            outcome, is_fault = attempt(case)
            if is_fault and (outcome not in failed or case.size < failed[outcome].size):
                failed[outcome] = case
    assert capfd.readouterr() == ("", "")
    assert not failed, "\n\n".join(
        f"{case.label}: {outcome}\n{shrunk(case, outcome).source()}"
        for outcome, case in failed.items()
    )


def test_the_slice_is_of_all_kinds():
    """Every family, verdict and dtype occurs among the problems that are tried."""
    drawn = [problems.draw(np.random.default_rng([0, number])) for number in range(FEW * PROBLEMS)]
    names = Counter(problem.family.removeprefix("scaled ") for problem in drawn)
    assert {f.__name__ for f in (*families.REGULAR, *families.SINGULAR)} == set(names)
    assert {problem.a.dtype.name for problem in drawn} == set(problems.DTYPES)
    verdicts = Counter(verdict for problem in drawn for verdict in problem.assumptions.values())
    assert min(verdicts[v] for v in ("regular", "singular", "indefinite")) >= 20


KNOWN = [
    ("regular", np.array([[2.0, 1.0], [1.0, 3.0]]), False),
    ("regular", np.diag([1e200, 1e-200]), False),
    ("regular", np.diag([2.0**-60, 1.0, 2.0**60]).astype("float32"), False),
    ("singular", np.array([[1.0, 2.0], [2.0, 4.0]]), False),
    ("singular", np.array([[1.0, 1j], [1j, -1.0]]), False),
    ("singular", np.array([[0.0, 1.0], [0.0, 1.0]]), False),
    ("singular", np.zeros((1, 1)), False),
    ("singular", np.outer([0.1, 0.2, 0.3], [0.7, 0.11, 0.13]), True),
    ("between", np.vander(np.linspace(0, 1, 20)), False),
]


@pytest.mark.parametrize(("verdict", "a", "deficient"), KNOWN)
def test_verdict(verdict, a, deficient):
    assert problems.Problem("known", a, deficient).verdict == verdict


def test_units_are_not_unique():
    """Badly scaled systems in single precision whose residuals are small in the units of the verdict,
    and not in another pair that makes rows and columns alike; or with a condition of 5e4 in one, and
    3 in the other, where they must be solved.
    """
    posed = problems.draw(np.random.default_rng([31, 258]))
    assert posed.condition < 10 < 1e4 < np.linalg.cond(problems.equilibrated(posed.a)[0])
    assert posed.verdict == "regular"
    for seed, number in ((2026, 2363), (2026, 3049), (32, 1283), (31, 258)):
        for case in solves.of_number(seed, number):
            case.check()


def test_a_wrong_solution_is_found(monkeypatch):
    """Solutions and gradients with an error in the last half of their digits do not pass."""
    right = solves.ldiv.vjp

    def wrong(f, A, b):
        x, pullback = right(f, A, b)
        return x, lambda c: tuple(g * (1 + 1e-8) for g in pullback(c))

    a = np.random.default_rng(0).standard_normal((4, 4))
    case = solves.Solve(
        problems.Problem("random", a), "csc", "gen", "T", "superlu", a[0], a[1]
    ).case
    monkeypatch.setattr(solves.ldiv, "vjp", wrong)
    assert attempt(case) == ("cotangent of b", True)
    monkeypatch.setattr(solves.ldiv, "vjp", lambda f, A, b: (right(f, A, b)[0] * (1 + 1e-8), None))
    assert attempt(case)[1]
