"""CUDA: value and gradient of a dense solve over torch.linalg.solve with its own backward; steps of
CG on a sparse matrix over the same steps written by hand, without a check, with torch's sparse
product; sparse Cholesky by `fronts` over `cholesky` on one core of the host, copies included, for one
matrix, a batch, and the gradient of a log-determinant; value and gradient by `cudss`, where it is
installed, of general and positive matrices over the host. A message says if there is no CUDA.

Both factor the matrix once; the values are new in every round, and the device is waited for.

    python bench/bench_gpu.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import warnings
from collections.abc import Callable
from typing import Any

import scipy.sparse
import torch
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv
from ldiv.engines import solve_log
from ldiv.engines.libraries import cudss

SPARSE = [(100, 15), (1000, 9)]
# dimension, rows of each side, members of a batch, rounds
FRONTS = [(2, 300, 1, 9), (2, 1000, 1, 5), (3, 30, 1, 9), (3, 50, 1, 5), (2, 45, 1000, 5)]
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


def conjugate_gradients(matrix: Any, b: Any, steps: int) -> Any:
    """Take `steps` steps of CG, written by hand."""
    x, r = torch.zeros_like(b), b
    p, size = r, r @ r
    for _ in range(steps):
        q = matrix @ p
        alpha = size / (p @ q)
        x, r = x + alpha * p, r - alpha * q
        size, before = r @ r, size
        p = r + size / before * p
    return x


def sparse(m: int, rounds: int) -> Figure:
    """The five-point matrix of m^2 unknowns, shifted a little."""
    one = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    K = (scipy.sparse.kronsum(one, one) + 0.01 * scipy.sparse.eye_array(m * m)).tocsr()
    S, values = ldiv.asarray(K), torch.tensor(K.data, device="cuda")
    b = torch.ones(m * m, device="cuda", dtype=torch.float64)
    with solve_log.reading() as entries:
        ldiv.solve(S.with_data(values), b, assume_a="pos", method="cg")
    steps = entries[0].iterations

    def ours(new: Any) -> Any:
        x = ldiv.solve(S.with_data(new), b, assume_a="pos", method="cg")
        torch.cuda.synchronize()
        return x

    def theirs(new: Any) -> Any:
        at = torch.tensor(K.indptr, device="cuda"), torch.tensor(K.indices, device="cuda")
        x = conjugate_gradients(torch.sparse_csr_tensor(*at, new, K.shape), b, steps)
        torch.cuda.synchronize()
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's sparse tensors are in beta
        torch.testing.assert_close(ours(values), theirs(values), rtol=1e-6, atol=1e-6)
        contenders = {"ldiv.solve, cg": ours, "by hand": theirs}
        seconds = side_by_side(contenders, lambda i: values * (1 + i / 1000), rounds)
    return compare(seconds, f"five-point n = {m * m:,}, {steps} steps", *contenders, 2.0)


def grid(d: int, m: int) -> Any:
    """The Laplacian of m^d unknowns, shifted a little."""
    one = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    K = one
    for _ in range(d - 1):
        K = scipy.sparse.kronsum(K, one)
    return (K + 0.01 * scipy.sparse.eye_array(m**d)).tocsr()


def fronts(d: int, m: int, count: int, rounds: int) -> list[Figure]:
    """A solve, and a log-determinant with its gradient, there and on the host, to which values go and
    from which results return.
    """
    K = grid(d, m)
    S, values = ldiv.asarray(K), torch.tensor(K.data, device="cuda")
    if count > 1:
        values = values * torch.linspace(1, 2, count, device="cuda", dtype=torch.float64)[:, None]
    b = torch.ones(m**d, device="cuda", dtype=torch.float64)

    def solve(values: Any, b: Any) -> Any:
        method = "fronts" if values.is_cuda else "cholesky"
        return ldiv.solve(S.with_data(values), b, assume_a="pos", method=method)

    def log_determinant(values: Any, b: Any) -> Any:
        p = values.detach().requires_grad_()
        return torch.autograd.grad(ldiv.logdet(S.with_data(p), assume_a="pos").sum(), p)[0]

    figures = []
    for what, f in (("solve", solve), ("gradient of logdet", log_determinant)):

        def there(new: Any, f: Any = f) -> Any:
            x = f(new, b)
            torch.cuda.synchronize()
            return x

        def here(new: Any, f: Any = f) -> Any:
            x = f(new.cpu(), b.cpu()).cuda()
            torch.cuda.synchronize()
            return x

        torch.testing.assert_close(there(values), here(values), rtol=1e-8, atol=1e-8)
        contenders = {"fronts": there, "cholesky on the host": here}
        seconds = side_by_side(contenders, lambda i: values * (1 + i / 1000), rounds)
        name = f"{what}, {d}D n = {m**d:,}" + (f", {count:,} matrices" if count > 1 else "")
        figures.append(compare(seconds, name, *contenders, 1.0))
    return figures


def by_cudss(d: int, m: int, count: int, rounds: int) -> list[Figure]:
    """Value and gradient of a solve, there and on the host, copies included."""
    K = grid(d, m)
    S, values = ldiv.asarray(K), torch.tensor(K.data, device="cuda")
    if count > 1:
        values = values * torch.linspace(1, 2, count, device="cuda", dtype=torch.float64)[:, None]
    b = torch.ones(m**d, device="cuda", dtype=torch.float64)
    figures = []
    for kind in ("gen", "pos"):

        def solve(values: Any, b: Any, kind: str = kind) -> Any:
            p = values.detach().requires_grad_()
            method = "cudss" if p.is_cuda else "auto"
            x = ldiv.solve(S.with_data(p), b, assume_a=kind, method=method)
            return torch.autograd.grad(x.sum(), p)[0]

        def there(new: Any, f: Any = solve) -> Any:
            g = f(new, b)
            torch.cuda.synchronize()
            return g

        def here(new: Any, f: Any = solve) -> Any:
            g = f(new.cpu(), b.cpu()).cuda()
            torch.cuda.synchronize()
            return g

        torch.testing.assert_close(there(values), here(values), rtol=1e-8, atol=1e-8)
        contenders = {"cudss": there, "on the host": here}
        seconds = side_by_side(contenders, lambda i: values * (1 + i / 1000), rounds)
        name = f"{kind}, {d}D n = {m**d:,}" + (f", {count:,} matrices" if count > 1 else "")
        figures.append(compare(seconds, name, *contenders, 1.0))
    return figures


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
    figures += [sparse(m, rounds) for m, rounds in ([(20, 2)] if options.quick else SPARSE)]
    for case in [(2, 20, 3, 2)] if options.quick else FRONTS:
        figures += fronts(*case)
        if cudss.missing() is None:
            figures += by_cudss(*case)
    report(
        "gpu", figures, options, f"On {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}."
    )


if __name__ == "__main__":
    main()
