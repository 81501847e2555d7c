"""Functions, equations and spectra of dense matrices: value and gradient over `peers/of_scipy.py`, an
autograd.Function around SciPy's pieces: expm and expm_frechet, sqrtm and solve_sylvester, logm of a block
matrix, Lyapunov's equation behind Riccati's, ...

python bench/bench_functions.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side
from peers.of_scipy import BY_HAND

import ldiv

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "expm": ldiv.expm,
    "sqrtm": ldiv.sqrtm,
    "logm": ldiv.logm,
    "cosm": ldiv.cosm,
    "A^0.3": lambda a: ldiv.fractional_matrix_power(a, 0.3),
}
EQUATIONS: dict[str, Callable[..., Any]] = {
    "solve_sylvester": ldiv.solve_sylvester,
    "solve_continuous_lyapunov": ldiv.solve_continuous_lyapunov,
    "solve_continuous_are": lambda a, b, q: ldiv.solve_continuous_are(
        a, b, q, torch.eye(b.shape[1], dtype=b.dtype)
    ),
    "eigvals": ldiv.eigvals,
    "expm_multiply": ldiv.expm_multiply,
}
# n, rounds, calls in each; the last one is where level-3 BLAS matters
SIZES = {"functions": [(8, 9, 100), (100, 7, 2), (300, 3, 1)]}
SIZES["equations"] = [(8, 9, 100), (100, 7, 2), (1000, 2, 1)]
QUICK = [(8, 2, 2)]


def inputs_of(name: str, n: int) -> tuple[Any, ...]:
    """Well conditioned; the real parts of the eigenvalues of A are about 3."""
    random = np.random.default_rng(0)
    a, q, b = (random.standard_normal((n, n)) / np.sqrt(n) for _ in range(3))
    a += 3 * np.eye(n)
    return {
        "solve_sylvester": (a, b + 2 * np.eye(n), q),
        "solve_continuous_lyapunov": (a, q + q.T),
        "solve_continuous_are": (a - 3 * np.eye(n), b[:, : max(n // 4, 2)], np.eye(n)),
        "eigvals": (a,),
        "expm_multiply": (a, q[:, :1]),
    }.get(name, (a,))


def value_and_gradient(f: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Any:
    for inputs in calls:
        y = f(*inputs)
        bars = torch.autograd.grad(y, inputs, y.detach())
    return y, *bars


def case(name: str, ours: Callable[..., Any], n: int, rounds: int, calls: int) -> Figure:
    """Compare at n, after both have given the same numbers."""
    given, theirs = inputs_of(name, n), BY_HAND[name]

    def fresh(i: int) -> list[tuple[Any, ...]]:
        scales = (1 + (i * calls + k) * 1e-6 for k in range(calls))
        return [tuple(torch.tensor(a * s, requires_grad=True) for a in given) for s in scales]

    found, expected = (value_and_gradient(f, fresh(0)[:1]) for f in (ours, theirs))
    if name == "eigvals":  # in any order: the gradient of sum |w|^2 has none
        found, expected = found[1:], expected[1:]
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8 * float(abs(y).max()))
    contenders = {
        "ldiv": partial(value_and_gradient, ours),
        "by hand": partial(value_and_gradient, theirs),
    }
    seconds = side_by_side(contenders, fresh, rounds)
    return compare(seconds, f"{name}, n = {n}", "ldiv", "by hand", 1.3)


def main() -> None:
    options = arguments(__doc__ or "")
    figures = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy doubts its logarithms of block matrices
        for kind, cases in (("functions", FUNCTIONS), ("equations", EQUATIONS)):
            for size in QUICK if options.quick else SIZES[kind]:
                figures += [case(name, ours, *size) for name, ours in cases.items()]
    report("functions", figures, options)


if __name__ == "__main__":
    main()
