"""gradcheck in the modes beside torch.func, its own settings, and two of it at once."""

import threading

import numpy as np
import pytest

import ldiv
from ldiv import WrongDerivativeError, gradcheck
from ldiv.checker.loss import transforms

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

A = torch.tensor(np.random.default_rng(0).standard_normal((4, 4))) + 4 * torch.eye(
    4, dtype=torch.float64
)
B = A[:, :2] + 1
S = A + A.mT


class Cube(torch.autograd.Function):
    """x^3, right everywhere but where a subclass is wrong."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t


def wrong_under_vmap(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * g * (1.5 if torch._C._functorch.is_batchedtensor(g) else 1)


def wrong_in_a_legacy_batch(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * g * (1.5 if torch._C._functorch.is_legacy_batchedtensor(g) else 1)


def wrong_for_dual_numbers(ctx, t):
    (x,) = ctx.saved_tensors
    return 3 * x**2 * t * (1 if torch._C._are_functorch_transforms_active() else 1.5)


FAULTS = {
    "vmap of vjp": {"backward": staticmethod(wrong_under_vmap), "generate_vmap_rule": True},
    "is_grads_batched": {"backward": staticmethod(wrong_in_a_legacy_batch)},
    "forward_ad": {"jvp": staticmethod(wrong_for_dual_numbers)},
}


@pytest.mark.parametrize("mode", FAULTS)
def test_a_fault_of_one_mode_is_found_in_that_mode(mode):
    f = type("Wrong", (Cube,), FAULTS[mode])
    assert gradcheck(Cube.apply, B, modes=[mode]).ok
    assert gradcheck(f.apply, B, modes=["vjp"]).ok
    with pytest.raises(WrongDerivativeError, match=mode):
        gradcheck(f.apply, B, modes=[mode])


def test_a_framework_has_its_own_modes():
    found = {g.mode for g in gradcheck(ldiv.solve, A, B).findings}
    assert {"forward_ad", "forward_ad over reverse", "vmap of vjp", "is_grads_batched"} <= found
    x = jax.numpy.asarray(B.numpy())
    assert "vmap of vjp" in {g.mode for g in gradcheck(jax.numpy.tanh, x).findings}
    for f, arg in ((jax.numpy.tanh, x), (np.tanh, B.numpy())):
        with pytest.raises(ValueError, match="modes"):
            gradcheck(f, arg, modes=["forward_ad"])


@pytest.mark.parametrize(
    "rtol", [-1, float("nan"), float("inf"), True, "small", torch.tensor(1e-7), [1e-7]]
)
def test_a_tolerance_is_a_number(rtol):
    with pytest.raises(ValueError, match="rtol: expected a finite real number >= 0"):
        gradcheck(torch.sin, B, rtol=rtol)


def test_eigenvectors_change_in_one_thread_alone():
    """Eigenvectors change in one thread, while a second thread has its own."""
    inside, seen, expected = threading.Event(), threading.Event(), torch.linalg.eigh(S)[1]
    found = []

    def look():
        inside.wait(25)
        found.append(torch.linalg.eigh(S)[1])
        seen.set()

    def flip(pair):
        inside.set()
        seen.wait(25)
        return type(pair)((pair[0], -pair[1]))

    other = threading.Thread(target=look)
    other.start()
    with transforms("torch").changing(flip):
        flipped = torch.linalg.eigh(S)[1]
    other.join(25)
    torch.testing.assert_close(flipped, -expected)
    torch.testing.assert_close(found[0], expected)


def test_one_check_after_another_and_inside_of_another():
    """Nothing that a check uses is its own for good."""

    def checked(x):
        gradcheck(torch.sin, B, modes=["vjp", "jvp"])
        return x**2

    for _ in range(2):
        assert gradcheck(checked, B, modes=["vjp", "jvp", "vjp against jvp"]).ok


def test_jit_hides_no_eigenvectors():
    f = jax.jit(lambda a: jax.numpy.linalg.eigh(a)[1])
    a = jax.numpy.asarray(S.numpy())
    f(a)
    with pytest.raises(WrongDerivativeError, match="signs or phases of eigenvectors"):
        gradcheck(lambda a: f(a) * jax.numpy.arange(4), ldiv.symmetric(a), modes=["gauge"])
