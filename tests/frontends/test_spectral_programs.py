"""Eigenpairs and singular triplets in programs for the CPU: one compiled call forward, one backward,
which agree with JAX's own; Python answers declined members, or raises.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from ldiv.engines.libraries import native  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

KINDS = (ValueError, jax.errors.JaxRuntimeError)
SHAPES = {"eigh": [(5, 5), (3, 4, 4), (1, 1)], "svd": [(5, 5), (3, 5, 3), (2, 3, 5)]}


def drawn(name: str, dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return (x + x.conj().mT if name == "eigh" else x).astype(dtype)


def loss(module: Any, name: str) -> Any:
    """A loss of values and vectors that knows no phase."""

    def f(a: Any) -> Any:
        found = getattr(module, name)(a, **({} if name == "eigh" else {"full_matrices": False}))
        return sum((abs(x) ** 3 * np.arange(1, x.shape[-1] + 1)).sum() for x in found)

    return f


def calls(f: Any, *args: Any) -> int:
    text = jax.jit(f).lower(*args).as_text()
    assert "callback" not in text and text.count('"answer"') == text.count('"compute"')
    return text.count('"compute"')


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "complex64"])
@pytest.mark.parametrize("name", SHAPES)
def test_value_and_gradient(name: str, dtype: str) -> None:
    f = loss(ldiv, name)
    for shape in SHAPES[name]:
        a = drawn(name, dtype, *shape)
        assert calls(f, a) == 1 and calls(jax.grad(f), a) == 2
        eps, one = np.finfo(dtype).eps, jax.value_and_grad(loss(jnp.linalg, name))
        for found, expected in zip(jax.jit(jax.value_and_grad(f))(a), one(a), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e4 * eps, atol=2e4 * eps)


@pytest.mark.parametrize("name", ["eigh", pytest.param("svd", marks=pytest.mark.exhaustive)])
def test_every_mode_and_order(name: str) -> None:
    f, own = loss(ldiv, name), loss(jnp.linalg, name)
    a = drawn(name, "float64", 4, 4)
    modes = {
        "forward": lambda f: jax.jacfwd(f),
        "hessian": lambda f: jax.hessian(f),
        "reverse twice": lambda f: jax.jacrev(jax.grad(f)),
        "mapped": lambda f: lambda a: jax.vmap(jax.grad(f))(jnp.stack([a, 2 * a])),
        "rows": lambda f: jax.jacrev(lambda a: jax.grad(f)(a)[0]),
    }
    both = jnp.asarray(a)
    for mode, of in modes.items():
        found = jax.jit(of(f))(both)
        if (
            name == "eigh"
        ):  # A is its Hermitian part: JAX's own says so for the first argument alone
            part = lambda a: own((a + a.mT) / 2)
        else:
            part = own
        expected = of(part)(both)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=mode)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("name", SHAPES)
def test_values_alone(name: str, dtype: str) -> None:
    """A program that nobody differentiates finds no vectors; a derivative of it does."""
    own = {"eigh": ldiv.eigvalsh, "svd": ldiv.svdvals}[name]
    of = jnp.linalg.eigvalsh if name == "eigh" else partial(jnp.linalg.svd, compute_uv=False)
    f, expected = (lambda a, g=g: (g(a) ** 3).sum() for g in (own, of))
    row = {"eigh": "eigvalsh", "svd": "svdvals"}[name]
    modes = [jax.grad, lambda f: jax.jit(jax.grad(f)), lambda f: jax.grad(jax.jit(f))]
    if dtype == "float64":  # of a function of real numbers
        modes += [lambda f: jax.jit(jax.hessian(f)), lambda f: jax.jit(jax.jacfwd(f))]
    for shape in SHAPES[name]:
        a = drawn(name, dtype, *shape)
        text = jax.jit(own).lower(a).as_text()
        assert f'"{row}"' in text and text.count('"compute"') == 1
        assert f'"{name}"' in jax.jit(jax.grad(f)).lower(a).as_text()
        near = partial(np.testing.assert_allclose, rtol=5e4 * np.finfo(dtype).eps)
        near(jax.jit(own)(a), of(a), atol=1e4 * np.finfo(dtype).eps)
        for mode in modes:
            near(mode(f)(a), mode(expected)(a), atol=1e5 * np.finfo(dtype).eps)
    batch = jnp.stack([a, 2 * a])
    near(jax.jit(jax.vmap(jax.grad(f)))(batch), jax.vmap(jax.grad(f))(batch), atol=1e-4)
    with pytest.raises(KINDS, match=r"finite|NaN"):
        jax.block_until_ready(jax.jit(own)(np.nan * a))


@pytest.mark.parametrize("name", SHAPES)
def test_values_alone_at_the_ends_of_the_range(name: str) -> None:
    a = drawn(name, "float64", 4, 4)
    of = jax.jit(ldiv.eigvalsh if name == "eigh" else ldiv.svdvals)
    for power in (1000, -1000):
        found = of(a * 2.0**power) * 2.0**-power
        np.testing.assert_allclose(found, of(a), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("power", [900, -900, 41, -301])
@pytest.mark.parametrize("name", SHAPES)
def test_units(name: str, power: int) -> None:
    """Derivatives at the ends of the range are those in the middle."""
    t = 2.0**power

    def f(a: Any, t: float) -> Any:
        values, vectors = (ldiv.eigh if name == "eigh" else ldiv.svd)(a)[:2]
        values, vectors = (values, vectors) if name == "eigh" else (vectors, values)
        return (values * np.arange(4.0)).sum() + (vectors**4).sum() * t

    a = drawn(name, "float64", 4, 4)
    found = jax.jit(jax.grad(lambda a: f(a, t)))(t * a)
    np.testing.assert_allclose(found, jax.grad(lambda a: f(a, 1.0))(a), rtol=1e-11, atol=1e-13)


def test_members_that_are_declined() -> None:
    """Clusters have the derivatives that they have, and else an error, beside other members."""
    a = np.stack([drawn("eigh", "float64", 4, 4), np.diag([1.0, 1, 2, 3]), np.diag([5.0, 5, 6, 8])])
    q = np.linalg.qr(drawn("svd", "float64", 4, 4))[0]
    a[1:] = q @ a[1:] @ q.T
    weights, values = np.arange(16.0).reshape(4, 4), np.array([2.0, 2, 5, 7])

    def smooth(a: Any) -> Any:
        x = ldiv.eigh(a)[1]
        return (((x * values) @ x.mT) * weights).sum()

    expected = jax.grad(smooth)(jnp.asarray(a))
    np.testing.assert_allclose(jax.jit(jax.grad(smooth))(a), expected, rtol=1e-11, atol=1e-11)
    with pytest.raises(KINDS, match=r"NotDifferentiableError: .*pairs 0, 1"):
        jax.block_until_ready(jax.jit(jax.grad(lambda a: (ldiv.eigh(a)[1] ** 4).sum()))(a[:2]))
    dropped = lambda a: (ldiv.eigh(a, on_degenerate="drop")[1] ** 4).sum()
    np.testing.assert_allclose(jax.jit(jax.grad(dropped))(a), jax.grad(dropped)(jnp.asarray(a)))
    with pytest.raises(KINDS, match="singular value"):
        jax.block_until_ready(jax.jit(jax.grad(lambda a: (ldiv.svd(a)[0] ** 4).sum()))(a[1:]))


@pytest.mark.parametrize("name", SHAPES)
def test_bad_members(name: str) -> None:
    f, a = loss(ldiv, name), drawn(name, "float64", 3, 4, 4)
    a[1, 0, 0] = np.nan
    for g in (f, jax.grad(f)):
        with pytest.raises(KINDS, match="expected finite"):
            jax.block_until_ready(jax.jit(g)(a))
    with ldiv.errstate(singular="nan"):
        found = np.asarray(jax.jit(jax.grad(f))(a))
    assert np.isnan(found[1]).any()
    good = a[[0, 2]]
    np.testing.assert_allclose(found[[0, 2]], jax.jit(jax.grad(f))(good), rtol=1e-10, atol=1e-12)


def test_a_loop_that_runs_zero_times_raises_nothing() -> None:
    bad = np.full((3, 3), np.nan)
    f = jax.jit(lambda n, a: jax.lax.fori_loop(0, n, lambda _, c: c + ldiv.eigh(a)[0].sum(), 0.0))
    assert f(0, bad) == 0
    with pytest.raises(KINDS, match="expected finite"):
        jax.block_until_ready(f(1, bad))


@pytest.mark.parametrize("power", [600, -600])
@pytest.mark.parametrize("name", SHAPES)
def test_cotangents_have_any_units(name: str, power: int) -> None:
    """A coupling of close eigenvalues is compared with cotangents, whose squares overflow."""
    q = np.linalg.qr(drawn("svd", "float64", 4, 4))[0]
    weights = drawn("svd", "float64", 5, 5)[:4, :4]
    a = (q * [1, 1 + 2.0**-28, 2, 3]) @ q.T

    def gradient(t: float) -> Any:
        return jax.grad(lambda a: ((getattr(ldiv, name)(a)[name == "eigh"] * weights) * t).sum())

    expected = np.asarray(gradient(1.0)(jnp.asarray(a)))
    assert np.abs(expected).max() > 1e6
    for f in (gradient(2.0**power), jax.jit(gradient(2.0**power))):
        found = np.asarray(f(jnp.asarray(a))) * 2.0**-power
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
