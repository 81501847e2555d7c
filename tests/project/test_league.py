"""The gradient league: what counts as right, its references, its page."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.linalg

ROOT = Path(__file__).parents[2]
LEAGUE = ROOT / "bench" / "league"
BY_SCIPY = {
    "sylvester": lambda A, b: scipy.linalg.solve_sylvester(A, A.T, b @ b.T),
    "care": lambda A, b: scipy.linalg.solve_continuous_are(A, b, np.eye(len(A)), np.eye(1)),
    "dare": lambda A, b: scipy.linalg.solve_discrete_are(A, b, np.eye(len(A)), np.eye(1)),
}


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"league_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))  # as for a script
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verdict() -> ModuleType:
    return loaded(LEAGUE / "verdict.py")


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    pytest.importorskip("mpmath")
    return loaded(LEAGUE / "cases.py")


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ({"got": [1.0, 2.0], "expected": [1.0, 2.0 + 1e-9]}, "right"),
        ({"got": [1.0, 2.0], "expected": [1.0, 2.0 + 1e-6]}, "wrong"),
        ({"got": [math.nan, 2.0], "expected": [1.0, 2.0]}, "wrong"),
        ({"got": [1.0], "expected": [1.0, 2.0]}, "wrong"),
        ({"got": [0.0], "expected": [0.0]}, "right"),
        ({"error": "ValueError: no", "expected": [1.0]}, "refused"),
        ({"died": "the process ended with -11", "expected": [1.0]}, "crashed"),
        # a singular matrix: there is nothing to expect
        ({"error": "LinAlgError: singular"}, "right"),
        ({"got": [1.0]}, "wrong"),
        ({"got": [math.inf]}, "wrong"),
        ({"died": "more than 120 s"}, "crashed"),
    ],
)
def test_verdicts(verdict: ModuleType, answer: dict[str, object], word: str) -> None:
    assert verdict.verdict(answer, "float64")[0] == word


def test_single_precision_is_given_its_digits(verdict: ModuleType) -> None:
    near = {"got": [1.0], "expected": [1.0001]}
    assert [verdict.verdict(near, dtype)[0] for dtype in ("float32", "float64")] == [
        "right",
        "wrong",
    ]


def test_references_are_the_derivatives(cases: ModuleType) -> None:
    """The derivatives of a solve agree with formulas in double precision."""
    problem = cases.Problem("solve dense", False)
    matrices, sides, weights = problem.data
    A = matrices[0] + np.tensordot(cases.AT, matrices[1:], 1)
    x = np.linalg.solve(A, sides[0] + np.array(cases.AT) @ sides[1:])
    lam = np.linalg.solve(A.T, weights[0] + 2 * x)
    gradient = [lam @ (b - M @ x) for b, M in zip(sides[1:], matrices[1:], strict=True)]
    assert problem.reference("value") == pytest.approx([weights[0] @ x + x @ x], rel=1e-12)
    assert problem.reference("reverse") == pytest.approx(gradient, rel=1e-10)
    assert problem.reference("forward") == pytest.approx([np.dot(gradient, cases.U)], rel=1e-10)


def test_second_derivatives_agree_among_themselves(cases: ModuleType) -> None:
    problem = cases.Problem("logdet dense pos", True)
    along = problem.reference("reverse over reverse")
    assert problem.reference("forward over forward") == pytest.approx([np.dot(along, cases.V)])


@pytest.mark.parametrize("is_complex", [False, True])
def test_references_solve_their_equations(cases: ModuleType, is_complex: bool) -> None:
    """Riccati's and Sylvester's, in 60 digits, and what SciPy finds."""
    mp, references = pytest.importorskip("mpmath"), loaded(LEAGUE / "references.py")
    for name in BY_SCIPY:
        matrices, sides, _ = cases.Problem(f"{name} dense", is_complex).data
        A, b = matrices[0], sides[0][:, None]
        with mp.workdps(cases.DIGITS):
            Y = references.MATRICES[name](cases._exactly(A), cases._exactly(b))
        found = np.array(Y.tolist(), complex)
        expected = BY_SCIPY[name](A, b)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * abs(expected).max())


@pytest.mark.parametrize("is_complex", [False, True])
def test_problems_are_what_their_names_say(cases: ModuleType, is_complex: bool) -> None:
    for name in cases.PROBLEMS:
        problem = cases.Problem(name, is_complex)
        matrices, _, _ = problem.data
        A = matrices[0] + np.tensordot(cases.AT, matrices[1:], 1)
        there = np.zeros(A.shape, bool)
        there[problem.pattern] = True
        assert (A[~there] == 0).all() and there.all() != problem.sparse, name
        if problem.symmetric:
            assert (A == A.conj().T).all(), name
            assert np.linalg.eigvalsh(A)[0] > 1, name
        if "repeated" in name:
            assert np.linalg.eigvalsh(A)[:3].tolist() == [2, 2, 5], name
        assert (np.linalg.matrix_rank(A) < min(A.shape)) == ("singular" in name), name


def test_the_page_has_every_package_and_every_failure() -> None:
    pytest.importorskip("sphinx")
    page = loaded(ROOT / "docs" / "extensions" / "league.py")
    record = json.loads(page.RESULTS.read_text())
    text = page.page(record)
    assert all(f"\n| {package} |" in text for package in record["versions"])
    for row in record["rows"]:
        assert row["verdict"] in page.WORDS
        assert ("again" in row) == (row["verdict"] != "right")
    assert {row["package"] for row in record["rows"]} == set(record["versions"])


def test_ldiv_is_never_wrong() -> None:
    record = json.loads((ROOT / "bench" / "results" / "league" / "league.json").read_text())
    ours = [row for row in record["rows"] if row["package"].startswith("ldiv")]
    assert ours and not [row for row in ours if row["verdict"] in ("wrong", "crashed")]
