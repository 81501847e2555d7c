"""A stiff equation in diffrax: its implicit steps take the sparse solver, and keep its factor."""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax", reason="JAX is not installed")
diffrax = pytest.importorskip("diffrax", reason="no diffrax: pip install diffrax")
lx = pytest.importorskip("lineax", reason="no lineax: pip install 'ldiv[lineax]'")
import jax.numpy as jnp  # noqa: E402

from ldiv.lineax import Solver  # noqa: E402

jax.config.update("jax_enable_x64", True)
N = 24
PATTERN = ldiv.diags_array([np.ones(1)] * 3, offsets=[-1, 0, 1], shape=(N, N))
START = np.sin(3 * np.pi * np.linspace(0, 1, N + 2)[1:-1]) / 2


def allen_cahn(t, y, c):
    """Diffusion on a line, which is stiff, and a cubic reaction."""
    left, right = jnp.pad(y, (1, 0))[:-1], jnp.pad(y, (0, 1))[1:]
    return c * (N + 1) ** 2 * (left - 2 * y + right) + y - y**3


def loss(linear_solver):
    root_finder = diffrax.VeryChord(rtol=1e-6, atol=1e-6, linear_solver=linear_solver)

    def end(c):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(allen_cahn),
            diffrax.Kvaerno5(root_finder=root_finder),
            0.0,
            0.1,
            0.02,
            START,
            args=c,
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=8),
            max_steps=32,
        )
        return jnp.sum(found.ys[-1] ** 2)

    return jax.jit(jax.value_and_grad(end))


@pytest.mark.exhaustive  # test_lineax.py shows that a state serves many solves
def test_implicit_steps():
    """Value and gradient are those of dense solves, and of a difference; one factorization serves
    all stages and all iterations of a step.
    """
    ours = loss(Solver(sparsity=PATTERN))
    value, gradient = ours(0.05)
    used = ldiv.cache_info()
    assert used.analyses == 1
    assert used.factorizations <= 64 and used.solves > 4 * used.factorizations
    expected = loss(lx.LU())(0.05)
    np.testing.assert_allclose((value, gradient), expected, rtol=1e-6)
    h = 1e-4
    difference = (ours(0.05 + h)[0] - ours(0.05 - h)[0]) / (2 * h)
    np.testing.assert_allclose(gradient, difference, rtol=1e-3)
