"""A batch of roots under jit is one loop: a program no longer than that of one, and of `lax.map`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
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
