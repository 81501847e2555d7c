"""Every kind of backward pass through every function that differentiates: `make fuzz` goes on."""

import numpy as np
import pytest
import torch

import ldiv
from adversarial.backwards import CUBES, LOOKS, SECOND, look

PLAIN = ("Plain", "Legacy", "ZeroForward", "custom_op", "sparse.mm", "csr")  # twice differentiable
FIRST = [what for what in LOOKS if what not in SECOND]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse .* beta|Sparse invariant checks:UserWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


@pytest.mark.parametrize("cube", CUBES)
def test_first_derivatives_are_right(cube):
    assert {what: look(cube, what, seed) for seed, what in enumerate(FIRST)} == dict.fromkeys(
        FIRST, "right"
    )


@pytest.mark.parametrize("power", [-10, -22, -40])
@pytest.mark.parametrize("cube", CUBES)
def test_first_derivatives_of_which_a_small_share_is_cut(cube, power):
    """Also beside values that are 2^14 times as large, with which they share a product."""
    x, share = torch.linspace(1, 2, 5, dtype=torch.float64), 2.0**power
    scale = torch.tensor([1.0, 2.0**-14, 1.0, 2.0**-14, 1.0], dtype=torch.float64)
    f = lambda x: scale * (x**2 + share * CUBES[cube](x))
    expected = scale * (2 * x + 3 * share * x**2)
    found = ldiv.jvp(f, (x,), (torch.ones_like(x),))[1]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(ldiv.jacobian(f, x).diagonal(), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("cube", CUBES)
def test_first_derivatives_in_inference_mode(cube):
    """Inference mode records nothing, and a graph that is not there gives zeros."""
    f, x = CUBES[cube], torch.linspace(1, 2, 5, dtype=torch.float64)
    expected = torch.diag(3 * x**2)
    with torch.inference_mode():
        here = x.clone()  # a tensor of inference mode
        for at in (x, here):
            for mode in ("forward", "reverse"):
                torch.testing.assert_close(ldiv.jacobian(f, at, mode=mode), expected)
            slope = ldiv.jvp(f, (at,), (torch.ones_like(at),))[1]
            torch.testing.assert_close(slope, expected.diagonal())
            assert ldiv.detect_pattern(f, at).nnz in (5, 25)
            root = ldiv.root(lambda y, p: f(y) - p, at, params=torch.full_like(at, 8))
            torch.testing.assert_close(root, torch.full_like(x, 2))


def test_tensors_of_inference_mode_that_a_graph_cannot_hold():
    with torch.inference_mode():
        weights = torch.ones(3, dtype=torch.float64)
    x = torch.ones(3, dtype=torch.float64)
    for context in (torch.inference_mode, torch.enable_grad):
        with context(), pytest.raises(TypeError, match=r"torch\.inference_mode.*clone them"):
            ldiv.jacobian(lambda x: CUBES["Legacy"](weights * x), x)


@pytest.mark.parametrize("cube", CUBES)
def test_second_derivatives_are_right_or_refused(cube):
    found = {look(cube, what, seed) for seed, what in enumerate(SECOND)}
    assert found == {"right"} if cube in PLAIN else found <= {"right", "refused"}


@pytest.mark.parametrize("seed", range(4))
def test_where_a_derivative_is_what_rounding_leaves(seed):
    """The terms of a gradient cancel at a minimum: tangents of it, and of the value, still exist."""
    A = torch.from_numpy(np.random.default_rng(seed).standard_normal((60, 30)))
    x = torch.linspace(0.5, 2, 30, dtype=torch.float64)
    force = 4 * A.T @ (A @ x) ** 3

    def energy(x):
        return ((A @ x) ** 4).sum() - force @ x

    expected = torch.func.jacrev(torch.func.hessian(energy))(x).sum((0, 1))
    y = x.clone().requires_grad_()
    found = torch.autograd.grad(ldiv.hessian(energy, y).sum(), y)[0]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    slope = ldiv.jvp(energy, (x,), (torch.ones(30, dtype=torch.float64),))[1]
    assert abs(slope) < 1e-6
