"""Value and gradient of a sparse solve over raw SuperLU: a first call, a loop with a fixed pattern,
and the overhead of a call.

first       a pattern never seen before: ordering, factorization, two solves; by hand the same with METIS and SuperLU
loop        new values on a known pattern; by hand one factorization of the permuted matrix and two solves
overhead    the same loop at n = 100, in microseconds over the raw calls

python bench/bench_solve.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import copy
from statistics import median
from typing import Any

from peers import by_torch
import numpy as np
from problems import systems
from peers import raw
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

RAW, SCRATCH = "raw SuperLU", "raw METIS + SuperLU"


def scaled(a: Any, i: int) -> Any:
    """New values in every round, so that no factorization is remembered from the one before."""
    return a * (1 + i / 1000)


def first_call(sides: tuple[int, ...], rounds: int) -> list[Figure]:
    """Everything from nothing, the pattern's analysis on both sides."""
    a, (b, c) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    b_torch, c_torch = torch.from_numpy(b), torch.from_numpy(c)

    def fresh(i: int) -> Any:
        ldiv.clear_cache()
        return scaled(a, i)

    def by_ldiv(assume_a: str) -> Any:
        def run(a: Any) -> Any:
            A = by_torch.array(a)
            result = by_torch.value_and_gradient(A, A.data, b_torch, c_torch, assume_a)
            assert ldiv.cache_info().analyses == 1
            return result

        return run

    contenders = {
        SCRATCH: lambda a: raw.from_scratch(a, b, c),
        "first, gen": by_ldiv("gen"),
        "first, pos": by_ldiv("pos"),
    }
    seconds = side_by_side(contenders, fresh, rounds)
    return [
        compare(seconds, systems.title(*sides), name, SCRATCH, 1.10)
        for name in list(contenders)[1:]
    ]


def loop(sides: tuple[int, ...], rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds for `calls` calls, each with new values on a known pattern."""
    a, (b, c) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    A, b_torch, c_torch = by_torch.array(a), torch.from_numpy(b), torch.from_numpy(c)
    order = raw.order_of_ldiv(a)
    in_order, b_raw, c_raw = raw.permuted(a, order), b[order], c[order]
    _agree(
        by_torch.value_and_gradient(A, A.data, b_torch, c_torch),
        raw.two_solves(in_order, b_raw, c_raw),
        order,
    )

    def one(i: int) -> Any:
        new = copy.copy(in_order)  # its indices stay checked
        new.data = scaled(in_order.data, i)
        return torch.from_numpy(scaled(a.data, i)), new

    contenders = {
        RAW: lambda new: raw.two_solves(new[1], b_raw, c_raw),
        "loop, gen": lambda new: by_torch.value_and_gradient(A, new[0], b_torch, c_torch),
        "loop, pos": lambda new: by_torch.value_and_gradient(A, new[0], b_torch, c_torch, "pos"),
    }
    ldiv.clear_cache()
    each = {
        name: lambda many, run=run: [run(new) for new in many][-1]
        for name, run in contenders.items()
    }
    seconds = side_by_side(each, lambda i: [one(i * calls + k) for k in range(calls)], rounds)
    # none was remembered from the round before
    assert ldiv.cache_info().factorizations == 2 * (rounds + 1) * calls
    return seconds


def _agree(by_ldiv: Any, by_hand: Any, order: Any) -> None:
    """Both compute the same thing."""
    x, _, lam = by_ldiv
    for ours, theirs in zip((x, lam), by_hand, strict=True):
        np.testing.assert_allclose(ours[order], theirs, rtol=1e-8, atol=1e-8 * np.abs(theirs).max())


def ratios(sides: tuple[int, ...], rounds: int) -> list[Figure]:
    seconds = loop(sides, rounds)
    return [compare(seconds, systems.title(*sides), name, RAW, 1.10) for name in list(seconds)[1:]]


def overhead(sides: tuple[int, ...], rounds: int, calls: int = 50) -> list[Figure]:
    """Microseconds of a call that are not SuperLU's."""
    seconds = loop(sides, rounds, calls)
    figures = []
    for name in list(seconds)[1:]:
        times, over = (median(seconds[s]) / calls for s in (name, RAW))
        extra = median(t - o for t, o in zip(seconds[name], seconds[RAW], strict=True)) / calls
        figures.append(
            Figure(systems.title(*sides), f"{name} - {RAW}", 1e6 * extra, "us", 300, times, over)
        )
    return figures


def main() -> None:
    options = arguments(__doc__)
    if options.quick:
        figures = [
            *first_call((20, 20), 2),
            *ratios((20, 20), 2),
            *ratios((6, 6, 6), 2),
            *overhead((10, 10), 2, 5),
        ]
    else:
        figures = overhead((10, 10), 30)
        for sides, rounds in (((30, 30, 30), 15), ((500, 500), 9)):
            figures += [*ratios(sides, rounds), *first_call(sides, rounds // 3)]
    report("solve", figures, options)


if __name__ == "__main__":
    main()
