"""Nothing sparse is ever dense: at n = 200,000 one n x n array would take 320 GB."""

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")

N = 200_000


@pytest.fixture(scope="module")
def tridiagonal():
    off, on = (
        torch.full((N - 1,), -1.0, dtype=torch.float64),
        torch.full((N,), 2.5, dtype=torch.float64),
    )
    return ldiv.diags_array([off, on, off], offsets=[-1, 0, 1])


@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos", "lower triangular", "diagonal"])
def test_solve_gradient_and_hessian_product(tridiagonal, assume_a):
    v = tridiagonal.data.clone().requires_grad_()
    b = torch.ones(N, dtype=torch.float64)
    loss = ldiv.solve(tridiagonal.with_data(v), b, assume_a=assume_a).square().mean()
    (g,) = torch.autograd.grad(loss, v, create_graph=True)
    (h,) = torch.autograd.grad((g * g.detach()).sum(), v)
    assert g.shape == h.shape == (3 * N - 2,)
    assert torch.isfinite(h).all()
    assert (g != 0).any()


def test_products_and_sums(tridiagonal):
    v = tridiagonal.data.clone().requires_grad_()
    A = tridiagonal.with_data(v)
    x = torch.ones(N, dtype=torch.float64)
    loss = (
        (A @ (A.T @ x)).sum()
        + ((A + A.H * 2.0) @ x).sum()
        + A.diagonal().sum()
        + A.sum(0).square().sum()
        + ((A @ A) @ x).sum()
    )
    loss.backward()
    assert v.grad.shape == v.shape
    assert np.isfinite(v.grad.numpy()).all()


def test_batches_of_right_hand_sides(tridiagonal):
    v = tridiagonal.data.clone().requires_grad_()
    b = torch.randn(3, N, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ldiv.solve(tridiagonal.with_data(v), b).square().sum().backward()
    one = ldiv.solve(tridiagonal, b[1])
    lam = ldiv.solve(tridiagonal, 2 * ldiv.solve(tridiagonal, b), trans="T")
    x = ldiv.solve(tridiagonal, b)
    torch.testing.assert_close(x[1], one)
    torch.testing.assert_close(v.grad[N - 1 : 2 * N - 1], -(lam * x).sum(dim=(0, 2)))
