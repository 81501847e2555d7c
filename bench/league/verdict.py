"""The verdict on an answer, a word: right, refused, wrong, crashed."""

from __future__ import annotations

import math
from typing import Any

# relative to the largest number of the reference; each derivative costs digits
TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-3}
OF_PROGRAMS = 1e-5  # whose solvers end on a tolerance of their own
WORDS = ("right", "refused", "wrong", "crashed")


def verdict(answer: dict[str, Any], dtype: str) -> tuple[str, str]:
    """(the word, what was seen). Without a reference there is no answer: only a refusal is right."""
    if "died" in answer:
        return "crashed", answer["died"]
    must_refuse = "expected" not in answer
    if "error" in answer:
        return ("right" if must_refuse else "refused"), answer["error"]
    got = answer["got"]
    if must_refuse:
        return "wrong", f"no solution exists, got {shown(got)}"
    error, tolerance = distance(got, answer["expected"]), TOLERANCE[dtype]
    if answer.get("problem", "").startswith("qp"):
        tolerance = max(tolerance, OF_PROGRAMS)
    if error <= tolerance:
        return "right", f"{error:.0e}"
    return "wrong", f"got {shown(got)}, expected {shown(answer['expected'])}"


def distance(got: list[float], expected: list[float]) -> float:
    """The largest error over the largest number; infinite for NaN and for another length."""
    if len(got) != len(expected) or not all(map(math.isfinite, got)):
        return math.inf
    scale = max(map(abs, expected)) or 1.0
    return max(abs(x - y) for x, y in zip(got, expected, strict=True)) / scale


def shown(numbers: list[float]) -> str:
    return "[" + ", ".join(f"{x:.6g}" for x in numbers) + "]"
