"""The gradient of a determinant is the inverse, against 50 digits, whatever the scaling, the
engine and the framework; no factorization is made for it.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import ldiv
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.engines.accuracy import limits, verified
from ldiv.engines.libraries import native

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)


def definite(n: int, dtype: str, spread: int) -> Any:
    """Rows and columns of sizes up to 2^spread."""
    rng = np.random.default_rng(n)
    q = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if dtype[0] == "c" else 0)
    d = 2.0 ** rng.integers(-spread, spread + 1, n)
    a = d[:, None] * (q @ q.conj().T + np.eye(n)) * d
    return (a + a.conj().T) / 2


def inverse(a: Any) -> Any:
    with mpmath.workdps(50):
        return np.array(mpmath.inverse(mpmath.matrix(a.tolist())).tolist()).astype(a.dtype)


def gradient(framework: str, a: Any, **options: Any) -> Any:
    if framework == "numpy":
        return ldiv.vjp(lambda x: ldiv.logdet(x, **options), a)[1](np.asarray(1.0))[0]
    if framework == "jax":
        return np.conj(jax.grad(lambda x: ldiv.logdet(x, **options))(jax.numpy.asarray(a)))
    x = torch.from_numpy(a).requires_grad_()
    (g,) = torch.autograd.grad(ldiv.logdet(x, **options), x)
    return asnumpy(g)


@pytest.mark.parametrize(
    "framework", ["numpy", "torch", pytest.param("jax", marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("spread", [0, 30])
def test_it_is_the_inverse(spread: int, dtype: str, framework: str) -> None:
    a = definite(12, dtype, spread)
    expected = inverse(a).conj().T
    scale = np.sqrt(np.outer(np.diag(expected).real, np.diag(expected).real))
    for options in ({"assume_a": "pos"}, {}):
        if options or not spread:
            found = gradient(framework, a, **options)
            assert (np.abs(found - expected) / scale).max() < 1e-11


@pytest.mark.parametrize("n", [70, 130])  # on the host, and in the arrays of torch
@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_no_factorization_is_made_for_it(assume_a: Any, n: int) -> None:
    a = definite(n, "float64", 0)
    for batch in (a, np.stack([a, 2 * a])):
        ldiv.clear_cache()
        x = torch.from_numpy(batch).requires_grad_()
        ldiv.logdet(x, assume_a=assume_a).sum().backward()
        assert ldiv.cache_info().factorizations == 1
        product = x.grad @ x.detach()
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(n), batch.shape), atol=1e-10)


def test_what_is_not_accurate_is_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Column by column, with refinement; and by QR where entries grow."""
    monkeypatch.setattr(native, "native", None)
    a = definite(12, "float64", 0)
    direct = gradient("numpy", a, assume_a="pos")
    monkeypatch.setattr(verified, "ENOUGH", 0.0)
    refined = gradient("numpy", a, assume_a="pos")
    monkeypatch.setattr(verified, "ENOUGH", limits.ENOUGH)
    assert not np.array_equal(direct, refined)
    np.testing.assert_allclose(direct, refined, rtol=1e-10)
    n = 50
    grows = np.eye(n) - np.triu(np.ones((n, n)), 1)
    grows[-1] = 1
    for b in (grows, grows.T):
        x = torch.from_numpy(b.copy()).requires_grad_()
        ldiv.slogdet(x)[1].backward()
        np.testing.assert_allclose(x.grad.numpy(), np.linalg.inv(b).T, atol=1e-11)


def test_every_order() -> None:
    """Second order through the inverse, as a difference of gradients."""
    a, b = definite(5, "float64", 0), definite(6, "float64", 0)[:5, :5]

    def f(x: Any) -> Any:
        return ldiv.logdet(x, assume_a="pos")

    found = jax.jit(lambda x, dx: jax.jvp(jax.grad(f), (x,), (dx,))[1])(a, b)
    x = torch.from_numpy(a)
    g = torch.func.jvp(torch.func.grad(f), (x,), (torch.from_numpy(b),))[1]
    expected = -np.linalg.solve(a, np.linalg.solve(a, b).T)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-10)


def test_nothing_of_nothing() -> None:
    for shape in ((0, 0), (0, 3, 3)):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        ldiv.logdet(x, assume_a="pos").sum().backward()
        assert x.grad.shape == shape
