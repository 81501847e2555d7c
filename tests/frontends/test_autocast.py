"""Values and derivatives inside of torch.autocast are those outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")

N = 6
ROWS, COLS = (np.abs(np.subtract.outer(range(N), range(N))) < 2).nonzero()


def sparse(A: Any) -> Any:
    return ldiv.coo_array((A[ROWS, COLS], (ROWS, COLS)), shape=(N, N))


FUNCTIONS = {
    "solve": lambda A, b: ldiv.solve(A, b).square().sum(),
    "sparse solve": lambda A, b: ldiv.solve(sparse(A), b).square().sum(),
    "eigh": lambda A, b: (
        (ldiv.eigh(A)[0] * b).sum().square() + (ldiv.eigh(A)[1].square() * b).sum()
    ),
    "svd": lambda A, b: ldiv.svd(A)[1].sin().sum(),
    "logdet": lambda A, b: ldiv.logdet(A) * b.sum(),
    "sparse logdet": lambda A, b: ldiv.logdet(sparse(A)) * b.sum(),
    "lstsq": lambda A, b: ldiv.lstsq(A[:, :3], b).x.square().sum(),
    "update": lambda A, b: ldiv.quad_form(
        ldiv.diags_array([b * b + 1], offsets=[0]) + ldiv.LowRank(A[:, :2], A[:, :2]), b
    ),
}


def backward_inside(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        y = f(A)
        return y, *torch.autograd.grad(y, A)


def backward_outside(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        y = f(A)
    return y, *torch.autograd.grad(y, A)


def transformed(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        A = A.detach()
        return torch.func.grad(f)(A), *torch.func.jvp(f, (A,), (torch.ones_like(A),))


def second_outside(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        (g,) = torch.autograd.grad(f(A), A, create_graph=True)
    return torch.autograd.grad(g.square().sum(), A)


def every_order_inside(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        found = [f(A)]
        for _ in range(3):
            found += torch.autograd.grad(found[-1].sum(), A, create_graph=True)
    return found


def hessian_inside(f: Any, A: Any, on: bool) -> Any:
    with torch.autocast("cpu", torch.bfloat16, enabled=on):
        return (torch.func.hessian(f)(A.detach()),)


MODES = [
    backward_inside,
    backward_outside,
    transformed,
    second_outside,
    every_order_inside,
    hessian_inside,
]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_do_not_see_autocast(
    name: str, mode: Callable[..., Any], dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((N, N))
    A = torch.tensor(M @ M.T + np.diag(np.arange(3.0, N + 3)), dtype=dtype)
    b = torch.tensor(rng.standard_normal(N), dtype=dtype)
    found, expected = (
        mode(lambda A: FUNCTIONS[name](A, b), A.clone().requires_grad_(), on)
        for on in (True, False)
    )
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype == dtype
        assert (x - y).detach().abs().max() <= tolerance * y.detach().abs().max()
    with torch.autocast("cpu", torch.bfloat16):
        FUNCTIONS[name](A, b)
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
