"""Functions of matrices: value and gradient over an autograd.Function around SciPy's pieces.

by hand     expm: expm and expm_frechet; sqrtm: sqrtm and solve_sylvester(X^H, X^H, G); logm, cosm,
            powers: the function of [[A^T, G], [0, A^T]]

python bench/bench_functions.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

Function = Callable[[Any], Any]


def of_block(f: Function, a: Any, _: Any, g: Any) -> Any:
    """D f(A^T)[G], the upper right block of f([[A^T, G], [0, A^T]])."""
    n = len(a)
    return f(np.block([[a.T, g], [np.zeros_like(a), a.T]]))[:n, n:]


def by_hand(f: Function, derivative: Callable[[Any, Any, Any], Any]) -> Function:
    """f with that derivative, of A, f(A) and the cotangent, by SciPy on the host."""

    class ByHand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            y = torch.from_numpy(np.asarray(f(a.detach().numpy())))
            ctx.save_for_backward(a, y)
            return y

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            a, y = (x.detach().numpy() for x in ctx.saved_tensors)
            return torch.from_numpy(np.asarray(derivative(a, y, bars[0].numpy())))

    return ByHand.apply


def _frechet(a: Any, _: Any, g: Any) -> Any:
    return scipy.linalg.expm_frechet(a.T, g, compute_expm=False)


def _sylvester(_: Any, x: Any, g: Any) -> Any:
    return scipy.linalg.solve_sylvester(x.T, x.T, g)


def _power(a: Any) -> Any:
    return scipy.linalg.fractional_matrix_power(a, 0.3).real


CASES: dict[str, tuple[Function, Function]] = {
    "expm": (ldiv.expm, by_hand(scipy.linalg.expm, _frechet)),
    "sqrtm": (ldiv.sqrtm, by_hand(scipy.linalg.sqrtm, _sylvester)),
    "logm": (ldiv.logm, by_hand(scipy.linalg.logm, partial(of_block, scipy.linalg.logm))),
    "cosm": (ldiv.cosm, by_hand(scipy.linalg.cosm, partial(of_block, scipy.linalg.cosm))),
    "A^0.3": (
        lambda a: ldiv.fractional_matrix_power(a, 0.3),
        by_hand(_power, partial(of_block, _power)),
    ),
}


def value_and_gradient(f: Function, inputs: list[Any]) -> Any:
    for a in inputs:
        y = f(a)
        (bar,) = torch.autograd.grad(y, a, y.detach())
    return y, bar


def case(name: str, n: int, rounds: int, calls: int) -> Figure:
    ours, theirs = CASES[name]
    a = np.random.default_rng(0).standard_normal((n, n)) / np.sqrt(n) + 3 * np.eye(n)

    def fresh(i: int) -> list[Any]:
        scales = (1 + (i * calls + k) * 1e-6 for k in range(calls))
        return [torch.tensor(a * s, requires_grad=True) for s in scales]

    found, expected = (value_and_gradient(f, fresh(0)[:1]) for f in (ours, theirs))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
    contenders = {
        "ldiv": partial(value_and_gradient, ours),
        "by hand": partial(value_and_gradient, theirs),
    }
    seconds = side_by_side(contenders, fresh, rounds)
    return compare(seconds, f"{name}, n = {n}", "ldiv", "by hand", 1.3)


def main() -> None:
    options = arguments(__doc__ or "")
    sizes = [(8, 2, 2)] if options.quick else [(8, 9, 100), (100, 7, 2), (300, 3, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy doubts its logarithms of block matrices
        figures = [case(name, *size) for size in sizes for name in CASES]
    report("functions", figures, options)


if __name__ == "__main__":
    main()
