"""Gaussian KL, value and gradient, over torch.linalg written well and naively; LU, value and
gradient; how near large problems come to the rate of a matrix product; the overhead of small operations.

KL          log-determinants and tr(Sigma2^-1 Sigma1) by the Cholesky factors L1, L2, gradient in both
            well: |solve_triangular(L2, L1)|^2;   naively: the trace of torch.linalg.solve(L2 @ L2.T, L1 @ L1.T)
LU          packed factors, and the gradient of a weighted sum of them; pivots on both sides
share       n = 2,048: value and gradient over a matrix product of as many operations
overhead    n = 4, no gradient wanted: microseconds over torch's own operation; and with the gradient

python bench/bench_gaussian.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

torch.set_num_threads(1)
OURS, WELL, NAIVE, TORCH = "ldiv", "torch, well", "torch, naively", "torch"
Contenders = dict[str, Callable[..., Any]]


def triangle(n: int, seed: int) -> Any:
    """A well-conditioned Cholesky factor."""
    draw = np.random.default_rng(seed).standard_normal((n, n))
    return torch.from_numpy(np.tril(draw) / (2 * n**0.5) + 2 * np.eye(n))


def kl_by(trace: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The divergence from a trace."""

    def kl(L1: Any, L2: Any) -> Any:
        return (
            (trace(L1, L2) - L1.shape[0]) / 2
            + L2.diagonal().log().sum()
            - L1.diagonal().log().sum()
        )

    return kl


def well(L1: Any, L2: Any) -> Any:
    return torch.linalg.solve_triangular(L2, L1, upper=False).square().sum()


def naively(L1: Any, L2: Any) -> Any:
    return torch.linalg.solve(L2 @ L2.T, L1 @ L1.T).trace()


KL: Contenders = {OURS: ldiv.gaussian_kl, WELL: kl_by(well), NAIVE: kl_by(naively)}


def value_and_gradient(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, ...]:
    leaves = [x.detach().requires_grad_() for x in args]
    y = f(*leaves)
    return y.detach(), *torch.autograd.grad(y, leaves)


def kl(n: int, rounds: int) -> list[Figure]:
    L1, L2 = triangle(n, 1), triangle(n, 2)
    _agree([value_and_gradient(f, (L1, L2)) for f in KL.values()])
    contenders = {name: lambda args, f=f: value_and_gradient(f, args) for name, f in KL.items()}
    seconds = side_by_side(contenders, lambda i: (L1 * (1 + i / 1000), L2), rounds)
    return [
        compare(seconds, f"Gaussian KL, n = {n}", OURS, over, target)
        for over, target in ((WELL, 1 / 1.3), (NAIVE, 1 / 4))
    ]


def _agree(results: list[tuple[Any, ...]]) -> None:
    """All compute the same thing, as far as the triangles go: the naive gradient is dense."""
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(
                ours, theirs.tril() if theirs.ndim else theirs, rtol=1e-8, atol=1e-8
            )


def lu(n: int, rounds: int) -> list[Figure]:
    """A general matrix."""
    a, w = (
        torch.from_numpy(np.random.default_rng(seed).standard_normal((n, n))) for seed in (3, 4)
    )
    factors: Contenders = {OURS: ldiv.lu_factor, TORCH: torch.linalg.lu_factor}
    by = {
        name: lambda a, f=f: value_and_gradient(lambda a: (f(a)[0] * w).sum(), (a,))
        for name, f in factors.items()
    }
    seconds = side_by_side(by, lambda i: a * (1 + i / 1000), rounds)
    return [compare(seconds, f"LU, n = {n}", OURS, TORCH, 1.0)]


def shares(n: int, rounds: int) -> list[Figure]:
    """Seconds of value and gradient over those of NumPy's product, at its rate of operations."""
    L, M = triangle(n, 1), triangle(n, 2)
    S, b, product = L @ L.T, torch.ones(n, dtype=torch.float64), M.numpy()
    tasks: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
        "solve, pos": (lambda S: ldiv.solve(S, b, assume_a="pos").sum(), (S,), 1 / 3),
        "logdet, pos": (lambda S: ldiv.logdet(S, assume_a="pos"), (S,), 1),
        "solve": (lambda S: ldiv.solve(S, b).sum(), (S,), 2 / 3),
        "KL": (ldiv.gaussian_kl, (L, M), 1),
    }
    figures = []
    for name, (f, args, cubes) in tasks.items():
        by: Contenders = {
            OURS: lambda args, f=f: value_and_gradient(f, args),
            "product": lambda args: product @ product,
        }
        seconds = side_by_side(by, lambda i, args=args: [x * (1 + i / 1000) for x in args], rounds)
        ours, theirs = seconds[OURS], [cubes / 2 * s for s in seconds["product"]]
        ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
        what = "ldiv / a product of as many operations"
        figures.append(
            Figure(f"{name}, n = {n}", what, ratio, "x", 2.0, median(ours), median(theirs))
        )
    return figures


def overhead(rounds: int, calls: int) -> list[Figure]:
    """Microseconds of one call at n = 4."""
    L, M, b = triangle(4, 1), triangle(4, 2), torch.ones(4, 1, dtype=torch.float64)
    S = L @ L.T
    tasks: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
        "solve_triangular": (
            lambda L, b: ldiv.solve_triangular(L, b, lower=True),
            lambda L, b: torch.linalg.solve_triangular(L, b, upper=False),
            (L, b),
        ),
        "gaussian_kl": (ldiv.gaussian_kl, KL[WELL], (L, M)),
    }
    if hasattr(ldiv, "cholesky"):
        tasks["cholesky"] = (ldiv.cholesky, torch.linalg.cholesky, (S,))
    figures = []
    for name, (ours, theirs, args) in tasks.items():
        figures.append(_over(name, {OURS: ours, TORCH: theirs}, args, rounds, calls, 60))
        summed = {
            who: lambda *xs, f=f: value_and_gradient(lambda *xs: f(*xs).sum(), xs)
            for who, f in ((OURS, ours), (TORCH, theirs))
        }
        figures.append(_over(f"{name} and gradient", summed, args, rounds, calls, None))
    return figures


def _over(
    name: str, by: Contenders, args: tuple[Any, ...], rounds: int, calls: int, target: float | None
) -> Figure:
    many = {who: lambda args, f=f: [f(*args) for _ in range(calls)][-1] for who, f in by.items()}
    seconds = side_by_side(many, lambda i: args, rounds)
    extra = median(a - b for a, b in zip(seconds[OURS], seconds[TORCH], strict=True)) / calls
    return Figure(
        "n = 4",
        f"{name}: {OURS} - {TORCH}",
        1e6 * extra,
        "us",
        target,
        *(median(seconds[who]) / calls for who in (OURS, TORCH)),
    )


def main() -> None:
    options = arguments(__doc__)
    sizes = ((40, 2),) if options.quick else ((512, 15), (2048, 5), (4096, 3))
    figures = [figure for n, rounds in sizes for figure in kl(n, rounds)]
    note = ""
    if hasattr(ldiv, "lu_factor"):
        figures += [figure for n, rounds in sizes[:2] for figure in lu(n, rounds)]
    else:
        note = "LU is not measured: there is no ldiv.lu_factor here."
    figures += shares(40, 2) if options.quick else shares(2048, 7)
    figures += overhead(2, 5) if options.quick else overhead(15, 200)
    report("gaussian", figures, options, note)


if __name__ == "__main__":
    main()
