"""The estimated error of a gradient, against the true one: within a factor of two, and the
corrected gradient is better.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv

jax.config.update("jax_enable_x64", True)

LOSSES = {
    "linear": lambda x: 0 * x + 1,
    "quadratic": lambda x: 2 * x,
    "quartic": lambda x: 4 * abs(x) ** 2 * x,
}


def poisson(m: int) -> sp.coo_array:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    return sp.coo_array(sp.kron(line, sp.eye_array(m)) + sp.kron(sp.eye_array(m), line))


def convection(m: int) -> sp.coo_array:
    wind = sp.diags_array([-0.4, 0.4], offsets=[-1, 1], shape=(m, m))
    return sp.coo_array(poisson(m) + sp.kron(wind, sp.eye_array(m)))


def true_gradient(a, x_bar, b, symmetric):
    """The gradient by dense algebra."""
    dense = a.toarray()
    x = np.linalg.solve(dense, b)
    u = np.linalg.solve(dense.conj().T, x_bar(x))
    row, col = a.coords
    bars = -(u[row] * x[col].conj()).reshape(len(row), -1).sum(1)
    if symmetric:
        bars = (bars - (x[row] * u[col].conj()).reshape(len(row), -1).sum(1)) / 2
    return bars, u


def ratios(found, true):
    """(estimate / true error of the gradient, true error of the other / estimate) for A and b."""
    values = [
        (np.asarray(A_bar.data), np.asarray(b_bar))
        for A_bar, b_bar in (found.gradient, found.other)
    ]
    errors, others = (
        [np.linalg.norm(g - t) for g, t in zip(pair, true, strict=True)] for pair in values
    )
    return [e / t for e, t in zip(found.errors, errors, strict=True)], [
        e / t for e, t in zip(found.errors, others, strict=True)
    ]


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("loss", LOSSES)
def test_conjugate_gradients(loss, rtol):
    a, b = poisson(24), np.random.default_rng(0).standard_normal(24**2)
    true = true_gradient(a, LOSSES[loss], b, symmetric=True)
    corrected, better = ratios(
        ldiv.gradient_error(LOSSES[loss], ldiv.asarray(a), b, assume_a="pos", rtol=rtol), true
    )
    assert all(0.5 <= r <= 2 for r in corrected)
    assert all(r > 2 for r in better), "the corrected gradient is nearer to the truth"
    bound, delayed = ratios(
        ldiv.gradient_error(
            LOSSES[loss], ldiv.asarray(a), b, assume_a="pos", rtol=rtol, estimate="delayed"
        ),
        true,
    )
    assert all(0.5 <= r <= 2 for r in delayed), "the error of the delayed gradient"
    assert all(r > 1 for r in bound), "and it bounds that of the one returned"


@pytest.mark.parametrize("method", ["gmres", "bicgstab"])
@pytest.mark.parametrize("loss", LOSSES)
def test_unsymmetric(loss, method):
    a, b = convection(20), np.random.default_rng(1).standard_normal((400, 2))
    corrected, _ = ratios(
        ldiv.gradient_error(LOSSES[loss], ldiv.asarray(a), b, method=method, rtol=1e-4),
        true_gradient(a, LOSSES[loss], b, False),
    )
    assert all(0.5 <= r <= 2 for r in corrected)


def test_complex_and_preconditioned():
    rng = np.random.default_rng(2)
    a = poisson(12).astype(complex)
    a.data = a.data * np.exp(0.3j * np.sign(a.coords[0] - a.coords[1]))
    b = rng.standard_normal(144) + 1j * rng.standard_normal(144)
    found = ldiv.gradient_error(
        LOSSES["quadratic"],
        ldiv.asarray(a),
        b,
        assume_a="her",
        method="minres",
        M="jacobi",
        rtol=1e-5,
    )
    corrected, _ = ratios(found, true_gradient(a, LOSSES["quadratic"], b, True))
    assert all(0.5 <= r <= 2 for r in corrected)


@pytest.mark.parametrize("framework", ["torch", pytest.param("jax", marks=pytest.mark.exhaustive)])
def test_frameworks_agree(framework):
    a, b = poisson(8), np.random.default_rng(3).standard_normal(64)
    asarray, grad = (
        (torch.tensor, torch.func.grad) if framework == "torch" else (jnp.asarray, jax.grad)
    )
    expected = ldiv.gradient_error(
        lambda x: 3 * x**2, ldiv.asarray(a), b, assume_a="pos", rtol=1e-3
    )
    A = ldiv.coo_array((asarray(a.data), a.coords), shape=a.shape)
    found = ldiv.gradient_error(
        grad(lambda x: (x**3).sum()), A, asarray(b), assume_a="pos", rtol=1e-3
    )
    np.testing.assert_allclose(found.errors, expected.errors, rtol=1e-6)
    np.testing.assert_allclose(found.other[0].data, expected.other[0].data, rtol=1e-8)


def test_operators():
    d = torch.linspace(1, 50, 40, dtype=torch.float64)
    A = ldiv.LinearOperator(lambda d, X: d[:, None] * X, d, shape=(40, 40), assume_a="pos")
    found = ldiv.gradient_error(lambda x: 2 * x, A, torch.ones(40, dtype=torch.float64), rtol=1e-2)
    true = np.linalg.norm(found.gradient[0].params[0].numpy() + 2 / d.numpy() ** 3)
    assert 0.5 <= found.errors[0] / true <= 2


def test_refuses():
    A, b = ldiv.asarray(poisson(4)), np.ones(16)
    with pytest.raises(TypeError, match="a trace or a batch"):
        jax.jit(
            lambda b: ldiv.gradient_error(
                b, ldiv.asarray(poisson(4)).with_data(jnp.asarray(A.data)), b, assume_a="pos"
            ).errors[0]
        )(jnp.ones(16))
    with pytest.raises(ValueError, match="estimate"):
        ldiv.gradient_error(b, A, b, assume_a="pos", estimate="guess")
    with pytest.raises(ValueError, match="a method that iterates"):
        ldiv.gradient_error(b, A, b, assume_a="pos", method="superlu")
