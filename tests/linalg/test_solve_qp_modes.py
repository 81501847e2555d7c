"""Second derivatives of a program in every order of modes, of one and of a batch: all say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import loss, program

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("clarabel")
jax.config.update("jax_enable_x64", True)
P = program(2)
Q = np.stack([P["q"] * s for s in (1, 1.001, 0.999)])
V = np.random.default_rng(0).standard_normal(len(P["q"]))


def _of(q: Any) -> Any:
    return loss(ldiv.solve_qp(**{**P, "q": q}))


def _differences(q: Any) -> Any:
    """H v, by central differences of gradients."""
    s = 1e-5

    def slope(q: Any) -> Any:
        t = torch.tensor(q, requires_grad=True)
        return torch.autograd.grad(_of(t), t)[0].numpy()

    return (slope(q + s * V) - slope(q - s * V)) / (2 * s)


def _forward_over_reverse(f: Any, v: Any, grad: Any, jvp: Any) -> Any:
    return lambda q: jvp(grad(f), (q,), (v,))[1]


def _reverse_over_forward(f: Any, v: Any, grad: Any, jvp: Any) -> Any:
    return grad(lambda q: jvp(f, (q,), (v,))[1])


def _reverse_over_reverse(f: Any, v: Any, grad: Any, jvp: Any) -> Any:
    return grad(lambda q: (grad(f)(q) * v).sum())


ORDERS = _forward_over_reverse, _reverse_over_forward, _reverse_over_reverse


def test_second_order_in_every_order_of_modes() -> None:
    expected = np.stack([_differences(q) for q in Q])
    assert abs(expected).max() > 0.1
    q, v = torch.tensor(Q), torch.tensor(V)
    for order in ORDERS:
        of_torch = order(_of, v, torch.func.grad, torch.func.jvp)
        assert np.allclose(of_torch(q[0]), expected[0], rtol=1e-6, atol=1e-7), order
        assert np.allclose(torch.func.vmap(of_torch)(q), expected, rtol=1e-6, atol=1e-7), order
    of_jax = [order(_of, V, jax.grad, jax.jvp) for order in ORDERS]
    found = jax.jit(lambda q: [(f(q[0]), jax.vmap(f)(q)) for f in of_jax])(Q)
    for one, many in found:
        assert np.allclose(one, expected[0], rtol=1e-6, atol=1e-7)
        assert np.allclose(many, expected, rtol=1e-6, atol=1e-7)


def test_single_precision() -> None:
    p = {name: x.astype(np.float32) for name, x in P.items()}
    q = torch.tensor(p["q"], requires_grad=True)
    x = ldiv.solve_qp(**{**p, "q": q})
    assert x.dtype == torch.float32
    assert np.allclose(x.detach(), ldiv.solve_qp(**P), atol=1e-4)
    double = torch.tensor(P["q"], requires_grad=True)
    slopes = [
        torch.autograd.grad(loss(y), t)[0]
        for y, t in ((x, q), (ldiv.solve_qp(**{**P, "q": double}), double))
    ]
    assert np.allclose(*slopes, rtol=1e-3, atol=1e-3)


def test_a_change_between_value_and_derivative() -> None:
    """The array that changes was given: PyTorch refuses the derivative, other frameworks have kept
    copies.
    """
    p = {name: x.copy() for name, x in P.items()}
    q = torch.tensor(p.pop("q"), requires_grad=True)
    slopes = []
    for changes in (False, True):
        x = ldiv.solve_qp(q=q, **p)
        if changes:
            for given in p.values():
                given *= 3
        slopes.append(torch.autograd.grad(loss(x), q)[0])
    assert np.allclose(*slopes)
    matrix = torch.tensor(P["P"], requires_grad=True)
    other = torch.tensor(P["q"])
    x = ldiv.solve_qp(**{**P, "P": matrix, "q": other})
    other *= 2
    with pytest.raises(RuntimeError, match="inplace operation"):
        loss(x).backward()
