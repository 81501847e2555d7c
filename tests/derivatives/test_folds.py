"""A root at a fold has no derivative, and one beside it has; a minimum without curvature likewise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

STARTS = ([2.0, 0.0], [-1.0, 1.0], [0.6, 0.6])


def circle(xp: Any, x: Any, p: Any) -> Any:
    """x_0 = 1/2 +- p^(1/2): the roots meet at p = 0, where only rounding ends the steps."""
    return xp.stack([x[0] ** 2 + x[1] - 1 - p, x[0] + x[1] - 1.25])


def square(xp: Any, x: Any, p: Any) -> Any:
    return (x - 1) ** 2 - p


def slope(f: Any, start: Any, p: float) -> float:
    value = torch.tensor(p, dtype=torch.float64, requires_grad=True)
    x = ldiv.root(lambda x, p: f(torch, x, p), torch.tensor(start, dtype=torch.float64), value)
    return float(torch.autograd.grad(x[0], value)[0])


@pytest.mark.parametrize("start", STARTS)
def test_where_roots_meet_torch_refuses(start: list[float]) -> None:
    with pytest.raises(ldiv.NotDifferentiableError, match="at a fold"):
        slope(circle, start, 0.0)
    for p in (1e-8, 1e-4, 1e-2):
        np.testing.assert_allclose(abs(slope(circle, start, p)), 0.5 / p**0.5, rtol=1e-6)


def test_a_double_root_without_rounding() -> None:
    with pytest.raises(ldiv.NotDifferentiableError, match="at a fold"):
        slope(square, [2.0], 0.0)
    for p in (1e-14, 1e-8, 1.0):
        np.testing.assert_allclose(slope(square, [2.0], p), 0.5 / p**0.5, rtol=1e-5)


def test_where_one_equation_is_zero_and_others_are_rounding() -> None:
    # the last step is rounding: it says nothing of the order of the root
    def f(xp: Any, x: Any, p: Any) -> Any:
        return xp.stack([x[0] * x[1] - 1 - p, x[0] + x[1] - 2, x[2] ** 3 + x[0] - 9])

    refused = (ldiv.NotDifferentiableError, ldiv.ConvergenceError, ldiv.SingularMatrixError)
    for start in np.random.default_rng(0).uniform(-3, 4, (20, 3)):
        with pytest.raises(refused):
            slope(f, start, 0.0)
    np.testing.assert_allclose(abs(slope(f, [1.5, -1.1, 2.7], -1e-4)), 50.0, rtol=1e-6)


def test_a_root_of_order_three_halves() -> None:
    # the force of Hertz's contact, whose slope vanishes as it ends
    hertz = lambda xp, x, p: xp.sign(x - 1) * abs(x - 1) ** 1.5 - p
    with pytest.raises(ldiv.NotDifferentiableError, match="at a fold"):
        slope(hertz, [3.0], 0.0)
    np.testing.assert_allclose(slope(hertz, [3.0], 1e-3), 2 / 3 / 1e-1, rtol=1e-8)


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("mode", [jax.grad, jax.jacfwd])
def test_where_roots_meet_jax_refuses(mode: Any, jit: Any) -> None:
    def first(p: Any) -> Any:
        return ldiv.root(lambda x, p: circle(jnp, x, p), jnp.asarray(STARTS[0]), p)[0]

    with pytest.raises(Exception, match="at a fold"):
        jax.block_until_ready(jit(mode(first))(0.0))
    np.testing.assert_allclose(
        jit(first)(jnp.asarray(0.0)), 0.5, atol=1e-7
    )  # the root itself is found
    np.testing.assert_allclose(jit(mode(first))(1e-4), 50.0, rtol=1e-6)


def test_under_errstate_and_vmap() -> None:
    first = jax.vmap(
        jax.grad(lambda p: ldiv.root(lambda x, p: square(jnp, x, p), jnp.asarray([2.0]), p)[0])
    )
    np.testing.assert_allclose(first(jnp.asarray([1e-4, 1.0])), [50.0, 0.5], rtol=1e-6)
    with pytest.raises(Exception, match="at a fold"):
        jax.block_until_ready(jax.jit(first)(jnp.asarray([0.0, 1.0])))


def test_steps_that_are_damped_or_few_are_no_fold() -> None:
    # exp is steep: many damped steps, then those of a simple root
    f = lambda xp, x, p: xp.exp(3 * x) - p
    np.testing.assert_allclose(slope(f, [8.0], 2.0), 1 / 6, rtol=1e-9)
    # many slow steps, and one to the root of a linear part
    cubic = lambda xp, x, p: xp.where(x > 1, (x**3 + 2) / 3, x) - p
    for start, p in ((1e2, 0.0), (1e3, 0.3), (1e3, 0.5)):
        assert slope(cubic, [start], p) == 1
    linear = lambda xp, x, p: 3 * x - p
    np.testing.assert_allclose(slope(linear, [1e9], 2.0), 1 / 3, rtol=1e-12)
