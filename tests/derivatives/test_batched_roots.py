"""A batch of roots under jit is one loop: a program no longer than that of one, and of `lax.map`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy


def loss(pattern: Any, p: Any) -> Any:
    x = ldiv.root(
        lambda x, p: x**3 + x - p + 0.1 * jnp.roll(x, 1), jnp.zeros(4), p, pattern=pattern
    )
    return (ldiv.implicit(lambda x, p: x + x**3 / 3 - p, x + 0 * p, x + x**3 / 3) ** 2).sum()


@pytest.mark.exhaustive
@pytest.mark.parametrize("pattern", [None, (np.r_[0:4, 0:4], np.r_[0:4, 3, 0:3])])
def test_a_batch_is_one_loop(pattern: Any) -> None:
    p = jnp.asarray(np.random.default_rng(0).random((9, 4)) + 1)
    gradient = jax.value_and_grad(partial(loss, pattern))
    batched = jax.jit(jax.vmap(gradient))
    for found, one in zip(batched(p), jax.lax.map(gradient, p), strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-9)
    few, many = (len(batched.lower(p[:m]).as_text().splitlines()) for m in (2, 9))
    assert few == many, "the program grows with the batch"


def programs(f: Any, x: Any) -> int:
    return jax.jit(f).lower(x).as_text().count("getrf_ffi")


def test_one_newton_step_in_a_program() -> None:
    found = programs(lambda p: ldiv.root(lambda x, p: x**3 + x - p, jnp.zeros(3), p), jnp.ones(3))
    assert found == programs(lambda b: ldiv.solve(jnp.eye(3), b), jnp.ones(3))


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_a_start_where_f_is_undefined(transform: Any) -> None:
    with pytest.raises(Exception, match="Start where f is defined"):
        transform(lambda p: ldiv.root(lambda x, p: jnp.log(x) - p, -jnp.ones(3), p))(jnp.ones(3))


@pytest.mark.parametrize("pattern", [None, (np.arange(2), np.arange(2))])
def test_a_program_without_a_root_says_what_an_eager_call_says(pattern: Any) -> None:
    def f(p: Any) -> Any:
        return ldiv.root(lambda x, p: x**2 + p, jnp.ones(2), p, pattern=pattern)

    for call in (f, jax.jit(f)):
        with pytest.raises(Exception, match=r"the Jacobian of f is singular.*\(a\) no root"):
            jax.block_until_ready(call(jnp.ones(2)))


def cubic(p: Any, q: Any) -> Any:
    return ldiv.root(lambda x, pq: x**3 + x * pq[1] - pq[0], jnp.ones(2), (p, q))


def line(p: Any, q: Any) -> Any:
    t = np.arange(4.0)
    residual = lambda x, pq: x[0] * jnp.exp(-x[1] * t * pq[1]) - jnp.concat([pq[0], pq[0] ** 2 / 3])
    return ldiv.least_squares(residual, jnp.asarray([2.0, 0.3]), (p, q))


@pytest.mark.parametrize(
    ("one", "jit"),
    [
        (cubic, jax.jit),
        (line, jax.jit),
        pytest.param(cubic, lambda f: f, marks=pytest.mark.exhaustive),
        pytest.param(line, lambda f: f, marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives_from_outside_are_those_inside(one: Any, jit: Any) -> None:
    p, q = jnp.asarray([[2.0, 1.0], [3.0, 1.5], [1.0, 0.7]]), jnp.asarray(1.1)
    both, vmap = (0, 1), partial(jax.vmap, in_axes=(0, None))
    loss = lambda p, q: (one(p, q) ** 3).sum()
    of_batch = lambda p, q: vmap(loss)(p, q).sum()
    inside, shared = vmap(jax.grad(loss, both))(p, q)
    close = partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)
    found = jit(jax.grad(of_batch, both))(p, q)
    close(found[0], inside), close(found[1], shared.sum())
    tangent = jit(lambda p, q: jax.jvp(of_batch, (p, q), (p, q))[1])(p, q)
    close(tangent, (inside * p).sum() + shared.sum() * q)
    twice = jit(jax.hessian(of_batch))(p, q)
    blocks = vmap(jax.hessian(loss))(p, q)
    close(twice, np.einsum("mn,mij->minj", np.eye(len(p)), blocks))


def test_a_batch_by_hand() -> None:
    """x^3 + q x = p: dx/dp = 1 / (3 x^2 + q), dx/dq = -x dx/dp."""
    p, q = jnp.asarray([[2.0, 1.0], [3.0, 1.5], [1.0, 0.7]]), jnp.asarray([1.0, 0.5, 2.0])
    batch = jax.jit(jax.vmap(cubic))
    x = batch(p, q)
    by_p, by_q = jax.grad(lambda p, q: batch(p, q).sum(), (0, 1))(p, q)
    np.testing.assert_allclose(by_p, slope := 1 / (3 * x**2 + q[:, None]), rtol=1e-10)
    np.testing.assert_allclose(by_q, -(x * slope).sum(1), rtol=1e-10)


@pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_member_of_a_batch_at_a_fold(jit: Any) -> None:
    square = lambda p: ldiv.root(lambda x, p: (x - 1) ** 2 - p, jnp.asarray([2.0]), p)
    slope = jit(jax.grad(lambda p: jax.vmap(square)(p).sum()))
    p = jnp.asarray([[1.0], [0.0], [4.0]])
    with pytest.raises(Exception, match=r"member \(1,\).*at a fold"):
        jax.block_until_ready(slope(p))
    with ldiv.errstate(singular="nan"):
        found = jit(jax.grad(lambda p: jax.vmap(square)(p).sum()))(p)
    np.testing.assert_allclose(found, [[0.5], [np.nan], [0.25]], rtol=1e-7)
