"""Functions of the array API that PyTorch lacks: signs inside of vmap, Fourier transforms of empty
batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")

A = ldiv.csr_array((np.array([1.0, -2.0, 3.0]), [0, 1, 0], [0, 2, 3]), shape=(2, 2))
ROWS = torch.tensor([[1.0, -2.0, 3.0], [-1.0, 0.0, float("nan")]], dtype=torch.float64)


@pytest.mark.parametrize("turn", [1, 1 + 2j])
def test_signs_inside_of_vmap(turn: complex) -> None:
    found = torch.vmap(lambda v: A.with_data(v).sign().data)(turn * ROWS)
    expected = np.sign(turn * ROWS.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    for row, alone in zip(turn * ROWS, expected, strict=True):
        np.testing.assert_allclose(A.with_data(row).sign().data, alone, rtol=1e-14)


C = torch.tensor([4.0, 1.0, 0.5], dtype=torch.float64)
CALLS = {
    "matmul_toeplitz": ldiv.matmul_toeplitz,
    "of two vectors": lambda c, x: ldiv.matmul_toeplitz((c, 2 * c), x),
    "solve_toeplitz": ldiv.solve_toeplitz,
    "solve_circulant": ldiv.solve_circulant,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize("name", CALLS)
def test_empty_batches(name: str, dtype: Any) -> None:
    """The matrices, the right-hand sides, or both are empty batches; gradients are zero."""
    f, c = CALLS[name], C.to(dtype)
    for first, second in (
        (c.new_ones(0, 3), c.new_ones(0, 3, 2)),
        (c, c.new_ones(0, 3, 2)),
        (c.new_ones(0, 3), c.new_ones(3, 2)),
        (c, c.new_ones(3, 0)),
        (c.new_ones(2, 0, 3), c.new_ones(2, 1, 3, 2)),
    ):
        first, second = first.requires_grad_(), second.requires_grad_()
        x = f(first, second)
        assert x.shape == (
            *torch.broadcast_shapes(first.shape[:-1], second.shape[:-2]),
            3,
            second.shape[-1],
        )
        assert x.dtype == dtype
        for gradient, like in zip(
            torch.autograd.grad(x.abs().sum(), (first, second)), (first, second), strict=True
        ):
            assert torch.equal(gradient, torch.zeros_like(like))
