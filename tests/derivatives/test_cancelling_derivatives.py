"""PyTorch refuses no derivative that JAX has: one whose terms cancel to rounding is no sign of a cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import ldiv
from ldiv.derivatives.robust_losses import LOSSES

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

tensor = partial(torch.tensor, dtype=torch.float64)
TIMES = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
DATA = np.array([2.0, 1.2, 0.7, 0.9, 0.31, 0.17])
POINTS = np.random.default_rng(0).standard_normal((6, 3))

# of a namespace and x: some derivative of each is what rounding leaves of terms that cancel
CANCELLING: dict[str, Callable[[Any, Any], Any]] = {
    "sign": lambda xp, x: x / xp.sqrt(x * x),
    "direction": lambda xp, x: x / xp.sqrt(xp.sum(x * x)),
    "circle": lambda xp, x: xp.sin(x) ** 2 + xp.cos(x) ** 2,
    "quotient": lambda xp, x: xp.exp(x) / xp.exp(x),
    "linear": lambda xp, x: 0.3 * x - 0.1 * x - 0.2 * x,
    "logarithm": lambda xp, x: xp.log(xp.exp(x)) - x,
    "sum of shares": lambda xp, x: xp.sum(xp.exp(9 * x) / xp.sum(xp.exp(9 * x)))[None],
    "beside others": lambda xp, x: x**2 + x / xp.sqrt(x * x),
}


def fitted(xp: Any, residual: Any, loss: Any, f_scale: float, y: Any) -> Any:
    return ldiv.least_squares(residual, xp.ones_like(y[:2]), y, loss=loss, f_scale=f_scale)[1]


MORE = [(loss, f_scale) for loss in LOSSES for f_scale in (0.02, 0.05, 0.1, 0.5, 1.0)]


@pytest.mark.parametrize(
    ("loss", "f_scale"),
    [("huber", 0.08), *(pytest.param(*some, marks=pytest.mark.exhaustive) for some in MORE)],
)
def test_second_derivatives_of_fits(loss: Any, f_scale: float) -> None:
    """PyTorch finds, in both of its ways, the same as JAX."""
    times = tensor(TIMES)
    own = lambda x, y: x[0] * torch.exp(-x[1] * times) - y
    theirs = lambda x, y: x[0] * jnp.exp(-x[1] * TIMES) - y
    of_jax = jax.hessian(partial(fitted, jnp, theirs, loss, f_scale))
    expected = jax.jit(of_jax)(jnp.asarray(DATA))
    fit = partial(fitted, torch, own, loss, f_scale)
    size = float(abs(expected).max())
    for hessian in (torch.func.hessian(fit), partial(torch.autograd.functional.hessian, fit)):
        np.testing.assert_allclose(hessian(tensor(DATA)), expected, rtol=1e-7, atol=1e-7 * size)


@pytest.mark.parametrize("name", CANCELLING)
def test_second_derivatives_of_functions(name: str) -> None:
    """Pullbacks and Jacobians are right relative to the sizes of the terms that cancel."""
    f = partial(CANCELLING[name], torch)
    jacobian = jax.jacobian(partial(CANCELLING[name], jnp))
    expected_at = jax.jit(lambda x: (jacobian(x), jax.jacobian(lambda x: jacobian(x).sum(0))(x)))
    for x in map(tensor, POINTS):
        x.requires_grad_()
        y, pull = ldiv.vjp(f, x)
        (slope,) = pull(torch.ones_like(y))
        J = ldiv.jacobian(f, x)
        bend = ldiv.jacobian(lambda x: ldiv.jacobian(f, x).sum(0), x)
        expected, second = expected_at(x.detach().numpy())
        near = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
        near(J.detach(), expected)
        near(slope.detach(), jnp.sum(expected, 0))
        near(torch.autograd.grad((slope + 0 * x).sum(), x)[0], jnp.sum(second, 0))
        near(bend.detach(), second)


@pytest.mark.exhaustive
def test_second_derivatives_through_roots() -> None:
    """f(x, p) depends on the direction of p alone."""
    p = tensor([1.0, 2.0]).requires_grad_()
    f = lambda x, p: x**3 + x - p / torch.sqrt(torch.sum(p * p))
    total = lambda p: ldiv.root(f, torch.ones(2).double(), p).sum()
    (slope,) = torch.autograd.grad(total(p), p, create_graph=True)
    torch.testing.assert_close((slope @ p).detach(), tensor(0.0), rtol=0, atol=1e-12)
    found = torch.autograd.grad(slope[0], p)[0]
    g = lambda x, p: x**3 + x - p / jnp.sqrt(jnp.sum(p * p))
    theirs = jax.hessian(lambda p: ldiv.root(g, jnp.ones(2), p).sum())(jnp.asarray([1.0, 2.0]))
    np.testing.assert_allclose(found, theirs[0], rtol=1e-8)


class Cut(torch.autograd.Function):
    """x^3, whose derivative has none."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return (3 * ctx.saved_tensors[0] ** 2 * y_bar).detach()


@pytest.mark.parametrize("name", CANCELLING)
def test_a_cut_beside_them_is_found(name: str) -> None:
    f = lambda x: torch.cat([1e-3 * Cut.apply(x), CANCELLING[name](torch, x)])  # type: ignore[no-untyped-call]
    for x in map(tensor, POINTS):
        x.requires_grad_()
        y, pull = ldiv.vjp(f, x)
        y_bar = torch.ones_like(y, requires_grad=True)
        (slope,) = pull(y_bar)
        with pytest.raises(ldiv.NotDifferentiableError, match="once_differentiable"):
            torch.autograd.grad(slope.sum(), x)
