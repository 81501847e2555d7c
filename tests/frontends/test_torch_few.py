"""A few numbers of PyTorch are NumPy arrays to a rule, where nothing but values is asked for."""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

F64 = torch.float64


class Watching(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        return f(*args, **(kwargs or {}))


def problem(n=4, dtype=F64):
    generator = torch.Generator().manual_seed(n)
    a = torch.randn(n, n, generator=generator, dtype=dtype) + n * torch.eye(n, dtype=dtype)
    b, c = torch.randn(2, n, 1, generator=generator, dtype=dtype)
    return a.requires_grad_(), b.requires_grad_(), c


def pair(solve, a, b, c, **options):
    return torch.autograd.grad(solve(a, b), (a, b), c, **options)


def assert_alike(ours, theirs):
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.complex64, torch.complex128], ids=str)
def test_few_numbers_and_many_have_one_node(dtype):
    a, b, c = problem(dtype=dtype)
    assert ldiv.solve(a, b).grad_fn.name() == "NodeBackward"
    assert_alike(pair(ldiv.solve, a, b, c), pair(torch.linalg.solve, a, b, c))
    for many in (problem(129, dtype), [x.expand(2, *x.shape) for x in (a, b, c)]):
        a, b, c = many
        assert ldiv.solve(a, b).grad_fn.name() == "NodeBackward"
        assert_alike(pair(ldiv.solve, a, b, c), pair(torch.linalg.solve, a, b, c))


def test_the_second_call_of_a_kind_is_as_the_first_one():
    a, b, c = problem()
    for _ in range(3):
        assert_alike(pair(ldiv.solve, a, b, c), pair(torch.linalg.solve, a, b, c))
        with pytest.raises(ValueError, match="NaN"):
            ldiv.solve(a * torch.nan, b)
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(a * 0 + 1, b)
        with pytest.raises(ValueError, match="b"):
            ldiv.solve(a, b[:3])


def test_a_real_matrix_has_a_real_gradient_beside_a_complex_block():
    a, _, _ = problem()
    _, b, c = problem(dtype=torch.complex128)
    ours, theirs = (
        pair(f, a, b, c) for f in (ldiv.solve, lambda a, b: torch.linalg.solve(a + 0j, b))
    )
    assert ours[0].dtype == F64
    assert_alike(ours, theirs)


def test_whoever_looks_on_gets_the_same_numbers():
    a, b, c = problem()
    theirs = pair(torch.linalg.solve, a, b, c)
    with torch.device("cpu"):  # a mode of torch functions
        assert_alike(pair(ldiv.solve, a, b, c), theirs)
    with Watching():
        assert_alike(pair(ldiv.solve, a, b, c), theirs)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x + 0):
        assert_alike(pair(ldiv.solve, a, b, c), theirs)
    y = ldiv.solve(a, b)
    with torch.device("cpu"):  # in the backward pass only
        assert_alike(torch.autograd.grad(y, (a, b), c, retain_graph=True), theirs)
    with Watching():
        assert_alike(torch.autograd.grad(y, (a, b), c, retain_graph=True), theirs)
    assert_alike(torch.autograd.grad(y, (a, b), c), theirs)


def test_derivatives_of_derivatives_are_of_tensors():
    a, b, c = problem()

    def second(solve):
        g, h = pair(solve, a, b, c, create_graph=True)
        return torch.autograd.grad((g.square().sum() + h.square().sum()), (a, b))

    assert_alike(second(ldiv.solve), second(torch.linalg.solve))
    # a graph that was made eagerly, differentiated under a transform and over a batch
    seeds = torch.stack([c, 2 * c, -c])
    y, z = ldiv.solve(a, b), torch.linalg.solve(a, b)
    assert_alike(
        torch.autograd.grad(y, (a, b), seeds, is_grads_batched=True),
        torch.autograd.grad(z, (a, b), seeds, is_grads_batched=True),
    )
    tangent = torch.func.jvp(ldiv.solve, (a, b), (a, b))[1]
    torch.testing.assert_close(tangent, torch.func.jvp(torch.linalg.solve, (a, b), (a, b))[1])


def test_outputs_of_which_no_derivative_is_asked():
    a, b, c = problem()
    lu, pivots = ldiv.lu_factor(a)
    assert pivots.grad_fn is None or not pivots.is_floating_point()
    (g,) = torch.autograd.grad(lu.sum(), a)
    (h,) = torch.autograd.grad(torch.linalg.lu_factor(a)[0].sum(), a)
    torch.testing.assert_close(g, h)
    (g,) = torch.autograd.grad(ldiv.solve(a, b.detach()), a, c)
    torch.testing.assert_close(g, pair(torch.linalg.solve, a, b, c)[0])


def test_values_that_change_in_place_are_noticed():
    a, b, c = problem()
    y = ldiv.solve(a, b)
    with torch.no_grad():
        a *= 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y, (a, b), c)


def test_gradients_own_their_memory():
    a, b, c = problem()
    y = ldiv.solve(a, b)
    first = torch.autograd.grad(y, (a, b), c, retain_graph=True)
    for g in first:
        g.zero_()
    assert_alike(torch.autograd.grad(y, (a, b), c), pair(torch.linalg.solve, a, b, c))
    assert np.isfinite(c.numpy()).all()
