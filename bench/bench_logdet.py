"""Log-determinants of sparse matrices: value and gradient over one factorization of the fastest
engine, and a Hessian-vector product over that gradient.

gradient    ldiv.logdet(A, assume_a="pos") and its gradient in the values of A, new values in each round
engines     ldiv.factorized(A, assume_a="pos", method=...) by every engine here, and the Cholesky
            factorization that the log-determinant uses; the fastest of them in each round counts
hvp         the gradient of gradient . e, by the same factors

python bench/bench_logdet.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side
from problems.systems import convection, poisson, title

import ldiv
from ldiv.engines import registry
from ldiv.engines.direct import cholesky
from ldiv.engines.selected import general
from ldiv.matrices.assumptions import promised

torch.set_num_threads(1)
GRADIENT, HVP, FASTEST, OURS = "value and gradient", "Hessian-vector product", "fastest", "selected"


def values_of(a: Any) -> Callable[[int], Any]:
    """The values of round i: another multiple, so that no factor is found again."""
    return lambda i: torch.from_numpy(a.data * (1 + i / 1000))


def differentiated(pattern: Any, assume_a: str, values: Any, twice: bool) -> Any:
    v = values.requires_grad_()
    matrix = pattern.with_data(v)
    size = ldiv.logdet(matrix, assume_a="pos") if assume_a == "pos" else ldiv.slogdet(matrix)[1]
    (g,) = torch.autograd.grad(size, v, create_graph=twice)
    return torch.autograd.grad(g.sum(), v)[0] if twice else g


def engines(pattern: Any, assume_a: str) -> dict[str, Callable[[Any], Any]]:
    """Every way to factor: by the engines that solve, and by the factors of this benchmark."""
    structure, _ = promised(pattern, assume_a)
    kind = np.dtype("float64")
    able = [
        name
        for name, engine in registry.named("direct").items()
        if registry.answer(engine, structure, kind, "cpu", assume_a) is None
    ]
    module = cholesky if assume_a == "pos" else general
    symbolic = module.analyze(structure)

    def ours(values: Any) -> Any:
        return module.factor(symbolic, structure, values.numpy(), assume_a).logabsdet()

    def by(name: str, values: Any) -> Any:
        return ldiv.factorized(pattern.with_data(values.numpy()), assume_a=assume_a, method=name)

    return {OURS: ours} | {name: partial(by, name) for name in able}


def measured(
    a: Any, assume_a: str, problem: str, rounds: int, targets: tuple[float | None, float | None]
) -> list[Figure]:
    pattern = ldiv.csc_array((a.data, a.indices, a.indptr), shape=a.shape)
    contenders = engines(pattern, assume_a) | {
        GRADIENT: partial(differentiated, pattern, assume_a, twice=False),
        HVP: partial(differentiated, pattern, assume_a, twice=True),
    }
    seconds = side_by_side(contenders, values_of(a), rounds)
    factored = [name for name in contenders if name not in (GRADIENT, HVP)]
    seconds[FASTEST] = [min(seconds[name][i] for name in factored) for i in range(rounds)]
    quickest = min(factored, key=lambda name: median(seconds[name]))
    # the part of a round that is the second derivative alone
    seconds[HVP] = [a - b for a, b in zip(seconds[HVP], seconds[GRADIENT], strict=True)]
    first, second = targets
    return [
        compare(seconds, f"{problem} ({quickest})", GRADIENT, FASTEST, first),
        compare(seconds, problem, HVP, GRADIENT, second),
        *(compare(seconds, problem, GRADIENT, name) for name in factored),
    ]


def main() -> None:
    options = arguments(__doc__)
    tasks: list[tuple[Any, str, str, int, tuple[float | None, float | None]]]
    if options.quick:
        tasks = [(poisson(8, 8), "pos", title(8, 8), 2, (None, None))]
    else:
        tasks = [
            (poisson(100, 100), "pos", title(100, 100), 11, (3.0, 4.0)),
            (poisson(300, 300), "pos", title(300, 300), 3, (2.5, 4.0)),
            (poisson(25, 25, 25), "pos", title(25, 25, 25), 5, (4.0, 4.0)),
            (convection(100, 100), "gen", "2D convection, n = 10,000", 7, (None, None)),
        ]
    figures = [figure for task in tasks for figure in measured(*task)]
    note = "The fastest factorization is in parentheses."
    report("logdet", figures, options, note)


if __name__ == "__main__":
    main()
