"""Value and gradient of a dense solve on CUDA over torch.linalg.solve with its own backward; says
so where there is no CUDA.

Both factor the matrix once; the values are new in every round, and the device is waited for.

    python bench/bench_gpu.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable
from typing import Any

import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

LDIV, TORCH = "ldiv.solve", "torch.linalg.solve"


def step(solve: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """(A, b) -> (|x|^2, its gradients in A and b), finished."""

    def run(new: Any) -> Any:
        a, b = (x.detach().requires_grad_() for x in new)
        loss = (solve(a, b) ** 2).sum()
        result = (loss.detach(), *torch.autograd.grad(loss, (a, b)))
        torch.cuda.synchronize()
        return result

    return run


def dense(shape: tuple[int, ...], columns: int, rounds: int) -> Figure:
    """Matrices `shape` = (*batch, n, n) with a strong diagonal."""
    draw = torch.Generator(device="cuda").manual_seed(0)
    a = torch.randn(shape, generator=draw, device="cuda", dtype=torch.float64)
    a += 2 * shape[-1] ** 0.5 * torch.eye(shape[-1], device="cuda", dtype=torch.float64)
    b = torch.randn((*shape[:-1], columns), generator=draw, device="cuda", dtype=torch.float64)

    def fresh(i: int) -> Any:
        new = a * (1 + i / 1000), b
        torch.cuda.synchronize()
        return new

    contenders = {LDIV: step(ldiv.solve), TORCH: step(torch.linalg.solve)}
    for ours, theirs in zip(contenders[LDIV](fresh(0)), contenders[TORCH](fresh(0)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)
    seconds = side_by_side(contenders, fresh, rounds)
    return compare(
        seconds,
        f"dense {' x '.join(map(str, shape))}, {columns} right-hand sides",
        LDIV,
        TORCH,
        1.10,
    )


def main() -> None:
    options = arguments(__doc__)
    if not torch.cuda.is_available():
        report("gpu", [], options, "Skipped: this PyTorch sees no CUDA device.")
        return
    sizes = (
        [((50, 50), 1, 2)]
        if options.quick
        else [
            ((100, 100), 1, 200),
            ((1000, 1000), 1, 50),
            ((8000, 8000), 16, 9),
            ((500, 64, 64), 4, 50),
        ]
    )
    figures = [dense(*size) for size in sizes]
    report(
        "gpu", figures, options, f"On {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}."
    )


if __name__ == "__main__":
    main()
