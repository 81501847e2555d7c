"""Differences and the comparison that all suites share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree, leaves, rebuild


def assert_close(law: str, actual: Any, expected: Any, tol: float = 1e-12) -> None:
    """Equal up to `tol` times the larger of 1 and the largest expected number."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (
        f"{law}: expected shape {expected.shape}, got {actual.shape}"
    )
    if expected.size:
        error = np.abs(actual - expected).max() / max(1.0, np.abs(expected).max())
        assert error <= tol, f"{law}: off by {error:.1e}, allowed {tol:.1e}"


def raised(kind: Any, law: str, f: Callable[..., Any], *args: Any) -> BaseException:
    """The error of this kind, which f must raise."""
    try:
        f(*args)
    except kind as error:
        found: BaseException = error
        return found
    raise AssertionError(law)


def difference(
    f: Callable[[Tree], Array], at: Tree, along: Tree, h: float = 2e-5, levels: int = 2
) -> Array:
    """df(at)[along] by central differences, extrapolated in h^2 (Richardson): truncated at h^4,
    rounded at eps / h.

    The steps are small enough to pass as rounding where a structure promises symmetry.
    """

    def central(h: float) -> Array:
        plus, minus = (
            rebuild(at, [x + s * h * d for x, d in zip(leaves(at), leaves(along), strict=True)])
            for s in (1, -1)
        )
        return (f(plus) - f(minus)) / (2 * h)

    row = [central(h / 2**i) for i in range(levels)]
    for j in range(1, levels):
        row = [(4**j * fine - coarse) / (4**j - 1) for coarse, fine in pairwise(row)]
    return row[0]
