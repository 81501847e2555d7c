"""Dense functions, value and gradient over `torch.linalg`: both give the same numbers before they are timed.

python bench/bench_dense.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

SHAPES = [(3, 3), (12, 12), (33, 33), (100, 100), (200, 200)]
BATCHES = [(64, 6, 6), (10_000, 3, 3), (200, 50, 50)]
QUICK = [(3, 3), (64, 6, 6)]
SMALL, BATCH, LARGE = range(3)
linalg = torch.linalg
SYMMETRIC = "eigh", "eigvalsh"


def thin(svd: Callable[..., Any]) -> Callable[..., Any]:
    return partial(svd, full_matrices=False)


def in_any_order(eigvals: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of |w|^2, which no order of the eigenvalues changes."""
    return lambda a: (abs(eigvals(a)) ** 2).sum(-1)


# ldiv's, PyTorch's, rows for each column, goals of n <= 33, batches and n >= 100
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int, tuple[float, ...]]] = {
    "eigh": (ldiv.eigh, linalg.eigh, 1, (1.5, 1.2, 1.2)),
    "eigvalsh": (ldiv.eigvalsh, linalg.eigvalsh, 1, (1.8, 1.2, 1.3)),
    "svd": (thin(ldiv.svd), thin(linalg.svd), 1, (1.7, 1.2, 1.2)),
    "svdvals": (ldiv.svdvals, linalg.svdvals, 1, (1.7, 1.2, 1.2)),
    "eigvals": (in_any_order(ldiv.eigvals), in_any_order(linalg.eigvals), 1, (2, 1.5, 1.2)),
    "inv": (ldiv.inv, linalg.inv, 1, (1.2, 1.2, 1.05)),
    "det": (ldiv.det, linalg.det, 1, (1.2, 1.2, 1.05)),
    "slogdet": (lambda a: ldiv.slogdet(a)[1], lambda a: linalg.slogdet(a)[1], 1, (1.1, 1.5, 1.0)),
    "qr": (ldiv.qr, linalg.qr, 1, (1.4, 1.2, 1.1)),
    "qr of 2 n rows": (ldiv.qr, linalg.qr, 2, (1.4, 1.2, 1.1)),
    "pinv of 2 n rows": (ldiv.pinv, linalg.pinv, 2, (2, 1.5, 1.2)),
    "expm": (ldiv.expm, linalg.matrix_exp, 1, (1.0, 1.0, 0.3)),
    "solve": (ldiv.solve, linalg.solve, 1, (1.1, 1.5, 1.0)),
    "lstsq of 2 n rows": (
        lambda a, b: ldiv.lstsq(a, b)[0],
        lambda a, b: linalg.lstsq(a, b)[0],
        2,
        (1.4, 1.2, 1.1),
    ),
}


def value_and_gradient(f: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    for inputs in calls:
        y = f(*inputs)
        out = y if isinstance(y, tuple) else (y,)
        bars = torch.autograd.grad(out, inputs, [x.detach() for x in out])
    return [*out, *bars]


def case(name: str, shape: tuple[int, ...], rounds: int, calls: int) -> Figure:
    ours, theirs, rows, goals = CASES[name]
    *batch, m, n = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((*batch, rows * m, n)) / np.sqrt(n)
    a += 2 * np.eye(rows * m, n)
    a = a + np.swapaxes(a, -1, -2) if name in SYMMETRIC else a
    given = (a, random.standard_normal((*a.shape[:-1], 2))) if name[0:2] in ("so", "ls") else (a,)

    def fresh(i: int) -> list[tuple[Any, ...]]:
        scales = (1 + (i * calls + k) * 1e-6 for k in range(calls))
        return [tuple(torch.tensor(x * s, requires_grad=True) for x in given) for s in scales]

    found, expected = (value_and_gradient(f, fresh(0)[:1]) for f in (ours, theirs))
    for x, y in zip(found, expected, strict=True):
        x, y = (abs(x), abs(y)) if name in ("eigh", "svd") else (x, y)  # up to signs
        torch.testing.assert_close(x, y, rtol=1e-6, atol=1e-8 * float(y.detach().abs().max()))
    contenders = {
        "ldiv": partial(value_and_gradient, ours),
        "torch": partial(value_and_gradient, theirs),
    }
    goal = goals[BATCH if batch else SMALL if n <= 33 else LARGE]
    text = " x ".join(map(str, (*batch, rows * m, n)))
    return compare(
        side_by_side(contenders, fresh, rounds), f"{name}, {text}", "ldiv", "torch", goal
    )


def main() -> None:
    options = arguments(__doc__ or "")
    figures = []
    for name in CASES:
        for shape in QUICK if options.quick else [*SHAPES, *BATCHES]:
            count = int(np.prod(shape)) * shape[-1]
            calls = max(1, min(100, 300_000 // count))
            size = (shape, 1, 1) if options.quick else (shape, 5 if count < 10**7 else 3, calls)
            figures.append(case(name, *size))
    report("dense", figures, options)


if __name__ == "__main__":
    main()
