"""On CUDA: what is dense, triangular or diagonal is solved where it is, with derivatives; a
sparse direct solve says what works instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ldiv

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="this PyTorch sees no CUDA device: see PYTHON and VENV in the Makefile",
    ),
]

N = 40
SOLVES: dict[str, Callable[[Any, Any], Any]] = {
    "gen": ldiv.solve,
    "H": lambda a, b: ldiv.solve(a, b, trans="H"),
    "pos": lambda a, b: ldiv.solve(a @ a.mH, b, assume_a="pos"),
    "sym": lambda a, b: ldiv.solve(a + a.mT, b, assume_a="sym"),
    "lower": lambda a, b: ldiv.solve_triangular(a, b, lower=True),
    "unit": lambda a, b: ldiv.solve_triangular(a / N, b, unit_diagonal=True),
    "diagonal": lambda a, b: ldiv.solve(a, b, assume_a="diagonal"),
    "logabsdet": lambda a, b: ldiv.factorized(a).logabsdet(),
}


def problem(dtype: Any, batch: tuple[int, ...]) -> tuple[Any, Any]:
    draw = torch.Generator().manual_seed(0)
    a = torch.randn(*batch, N, N, generator=draw, dtype=dtype) + 20 * torch.eye(N, dtype=dtype)
    return a, torch.randn(N, 3, generator=draw, dtype=dtype)


def first_and_second(solve: Callable[[Any, Any], Any], device: str, a: Any, b: Any) -> list[Any]:
    """The value, the gradients, and the gradients of their norms."""
    args = [x.detach().to(device).requires_grad_() for x in (a, b)]
    y = solve(*args)
    loss = (y * y.conj()).real.sum()
    grads = torch.autograd.grad(loss, args, create_graph=True, allow_unused=True)
    size = sum((g * g.conj()).real.sum() for g in grads if g is not None)
    again = torch.autograd.grad(size, args, allow_unused=True)
    results = [x for x in (y, *grads, *again) if x is not None]
    assert all(x.device.type == device for x in results), "everything stays where it was"
    return [x.detach().cpu() for x in results]


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])
@pytest.mark.parametrize("name", SOLVES)
def test_cuda_agrees_with_the_cpu(name: str, dtype: Any, batch: tuple[int, ...]) -> None:
    a, b = problem(dtype, batch)
    for there, here in zip(
        *(first_and_second(SOLVES[name], device, a, b) for device in ("cuda", "cpu")), strict=True
    ):
        torch.testing.assert_close(there, here, rtol=1e-10, atol=1e-10)


def test_one_factorization_serves_the_adjoint() -> None:
    a, b = (x.cuda().requires_grad_() for x in problem(torch.float64, ()))
    ldiv.clear_cache()
    ldiv.solve(a, b).sum().backward()
    assert ldiv.cache_info().factorizations == 1


def test_a_sparse_direct_solve_says_what_works() -> None:
    values = torch.ones(3, dtype=torch.float64, device="cuda")
    A = ldiv.coo_array((values, ([0, 1, 2], [0, 1, 2])), shape=(3, 3))
    with pytest.raises(ldiv.EngineError, match="no sparse direct engine for that device yet"):
        ldiv.solve(A, values)


def test_a_sparse_product_works() -> None:
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, device="cuda", requires_grad=True)
    A = ldiv.coo_array((values, ([0, 1, 1], [0, 0, 1])), shape=(2, 2))
    y = A @ torch.ones(2, dtype=torch.float64, device="cuda")
    y.sum().backward()
    assert y.tolist() == [1.0, 5.0]
    assert values.grad.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("mixed", ["A", "b"])
def test_mixed_devices_are_refused(mixed: str) -> None:
    a, b = problem(torch.float64, ())
    a, b = (a.cuda(), b) if mixed == "A" else (a, b.cuda())
    with pytest.raises((TypeError, ValueError), match="cuda"):
        ldiv.solve(a, b)
