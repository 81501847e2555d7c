"""Derivatives of programs that degenerate are those of exact fractions, or refused."""

from __future__ import annotations

from collections import Counter

import pytest

from adversarial.programs import KINDS, WAYS, look

pytest.importorskip("torch")
pytest.importorskip("jax")
pytest.importorskip("clarabel")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 10))]
)
def test_right_or_refused(way: str, part: int) -> None:
    found = Counter(
        look(kind, seed, way) for kind in KINDS for seed in range(4 * part, 4 * part + 4)
    )
    assert found["right"] > 6


@pytest.mark.parametrize(
    ("kind", "seed", "verdict"),
    [
        ("near", 500124, "right"),  # rows that nearly coincide: solves leave 2e-5
        ("near", 76008400, "right"),  # a row with slack lent its force
        ("near", 76100264, "a value where rows nearly depend"),
        ("near", 261711433, "a value where rows nearly depend"),  # by 1e-13
        ("near", 166208532, "right"),  # a cotangent rounded beside a row of 1e-13
        ("near", 888000129, "right"),  # rounding of the data moves the derivative by 1e-3
        ("near", 555000695, "a value where rows nearly depend"),  # multipliers of 1e13
        # multiples of 1e-8 and 1e-10 are no rounding: these were called infeasible
        ("near", 333000871, "right"),
        ("near", 333000209, "right"),
        # x is 1e-10 beside multipliers of 1
        ("near", 91001100, "QuadraticProgramError"),
        ("near", 999006826, "SingularMatrixError"),  # feasible for x of .1, not of 1e-13
        ("near", 998000026, "right"),  # one row takes the place of another that it comes before
        ("near", 910048, "a value where rows depend on each other"),
        ("near", 910195, "right"),
        ("redundant", 500320, "a value without a derivative"),  # x = 0 up to rounding
        # determined, and refused as singular: rows that depend on each other to 1e-12, a solver that
        # stops on a slope of 1e-8, a row that leaves where P holds nothing
        ("near", 333000864, "right"),
        ("near", 333000642, "right"),
        ("near", 333000085, "right"),
        ("near", 333000338, "a value without a derivative"),
        ("near", 333000999, "a value without a derivative"),
        ("near", 333002811, "a value where rows nearly depend"),
        # slopes of 1e-13 where P and the rows hold nothing, next to terms of 4
        ("near", 999001772, "a value without a derivative"),
        ("near", 999006097, "a value without a derivative"),
        ("near", 999009238, "a value where rows nearly depend"),
        # determined, and beside it a cotangent that rounding of K, or of z, moves by all that it is
        ("near", 999006389, "a value without a derivative"),
        ("near", 999010028, "a value without a derivative"),
        ("near", 999016782, "a value without a derivative"),
        # a batch kept the factors that lose digits; small multipliers beside some of 1e12
        ("near", 138559212, "right"),
        ("near", 136863637, "a value where rows nearly depend"),
        (
            "near",
            906436499,
            "a value where rows nearly depend",
        ),  # three of four rows say little of x
        ("near", 458791130, "right"),  # a cotangent 2 x + 1 that cancels
        (
            "near",
            333000166,
            "SingularMatrixError",
        ),  # x moves by 1e-2, as bounds of rounding have it
    ],
)
def test_found_before(kind: str, seed: int, verdict: str) -> None:
    assert {look(kind, seed, way) for way in WAYS} == {verdict}
