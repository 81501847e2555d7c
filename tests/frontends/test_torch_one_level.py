"""A derivative at one level of torch.func, which nobody differentiates further, or somebody does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frames import frames
from scipy.linalg import LinAlgError

import ldiv
from ldiv.engines.libraries import native

torch = pytest.importorskip("torch")
forward_ad: Any = torch.autograd.forward_ad

RNG = np.random.default_rng(7)
N = 5
A = torch.tensor(RNG.standard_normal((N, N)) + N * np.eye(N))
B = torch.tensor(RNG.standard_normal(N))
ROWS, COLUMNS = (torch.arange(N * N) // N).numpy(), (torch.arange(N * N) % N).numpy()


def sparse(x: Any) -> Any:
    return ldiv.coo_array((x.flatten(), (ROWS, COLUMNS)), shape=(N, N))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda x: ldiv.solve(x, B),
    "solve sparse": lambda x: ldiv.solve(sparse(x), B),
    "solve sparse, refined": lambda x: ldiv.solve(sparse(x), B, factor_dtype="float32"),
    "solve pos": lambda x: ldiv.solve(sparse(x + x.mT), B, assume_a="pos"),
    "right side": lambda x: ldiv.solve(A, x),
    "inv": ldiv.inv,
    "det": ldiv.det,
    "logdet": lambda x: ldiv.logdet(x + x.mT),
    "cholesky": lambda x: ldiv.cholesky(x + x.mT),
    "eigvalsh": lambda x: ldiv.eigvalsh(x + x.mT),
    "expm": lambda x: ldiv.expm(x / N),
}
each = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
Real = Callable[[Any], Any]


def cubed(f: Real) -> Real:
    return lambda x: (f(x) ** 3).sum()


def slope(g: Real, x: Any) -> Any:
    """The gradient by the graph, which may be differentiated."""
    found: Any = torch.autograd.grad(g(x), x, create_graph=True)[0]
    return found


@each
def test_a_gradient_that_nobody_differentiates(f: Real) -> None:
    g, x = cubed(f), A.clone().requires_grad_()
    found = torch.func.grad(g)(A)
    assert not found.requires_grad
    torch.testing.assert_close(found, torch.autograd.grad(g(x), x)[0], rtol=1e-11, atol=1e-11)
    moved = torch.func.jvp(g, (A,), (A.cos(),))[1]
    assert not moved.requires_grad
    torch.testing.assert_close(moved, (found * A.cos()).sum(), rtol=1e-10, atol=1e-10)
    with forward_ad.dual_level():
        there = forward_ad.unpack_dual(g(forward_ad.make_dual(A, A.cos()))).tangent
    torch.testing.assert_close(there, moved, rtol=1e-12, atol=1e-12)


@each
def test_a_gradient_that_somebody_differentiates(f: Real) -> None:
    """Differentiate at the level itself, at a level outside, and by the graph outside."""
    g, x = cubed(f), A.clone().requires_grad_()
    expected = torch.autograd.grad((slope(g, x) ** 2).sum(), x)[0]

    def of_slope(of: Any) -> Real:
        return lambda x: (of(x) ** 2).sum()

    def same(found: Any) -> None:
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)

    same(torch.func.grad(of_slope(lambda x: slope(g, x)))(A))
    same(torch.func.grad(of_slope(torch.func.grad(g)))(A))
    same(torch.autograd.grad(of_slope(torch.func.grad(g))(x), x)[0])
    same(
        torch.func.grad(of_slope(lambda x: torch.func.vjp(g, x)[1](torch.ones(()).double())[0]))(A)
    )
    dx = A.sin()
    by_forward = torch.func.jvp(of_slope(torch.func.grad(g)), (A,), (dx,))[1]
    torch.testing.assert_close(by_forward, (expected * dx).sum(), rtol=1e-9, atol=1e-9)
    y = A.clone().requires_grad_()
    moved = torch.func.jvp(g, (y,), (dx,))[1]
    ahead = torch.autograd.grad(slope(g, x), x, dx)[0]
    torch.testing.assert_close(torch.autograd.grad(moved, y)[0], ahead, rtol=1e-9, atol=1e-9)
    with forward_ad.dual_level():
        there = forward_ad.unpack_dual(g(forward_ad.make_dual(y, dx))).tangent
        torch.testing.assert_close(torch.autograd.grad(there, y)[0], ahead, rtol=1e-9, atol=1e-9)


@each
def test_a_third_derivative_at_one_level(f: Real) -> None:
    g, x = cubed(f), A.clone().requires_grad_()

    def thrice(x: Any) -> Any:
        return (slope(lambda y: (slope(g, y) ** 2).sum(), x) ** 2).sum()

    expected = torch.autograd.grad(thrice(x), x)[0]
    torch.testing.assert_close(torch.func.grad(thrice)(A), expected, rtol=1e-8, atol=1e-8)


def test_a_closure_over_what_is_differentiated_outside() -> None:
    outside = A.clone().requires_grad_()
    found = torch.func.grad(lambda b: (ldiv.solve(outside, b) ** 2).sum())(B)
    x = ldiv.solve(outside, B)
    expected = 2 * ldiv.solve(outside.mT, x)
    torch.testing.assert_close(found, expected)
    got, wanted = (torch.autograd.grad(y.sum(), outside)[0] for y in (found, expected))
    torch.testing.assert_close(got, wanted)


def test_batches_sum_and_refusals_are_those_of_the_graph() -> None:
    many = torch.stack([B, 2 * B])
    a, b = A.clone().requires_grad_(), many.clone().requires_grad_()

    def g(a: Any, b: Any) -> Any:
        return (ldiv.solve(a, b[..., None]) ** 2).sum()

    found = torch.func.grad(g, argnums=(0, 1))(A, many)
    for x, y in zip(found, torch.autograd.grad(g(a, b), (a, b)), strict=True):
        torch.testing.assert_close(x, y)
    for h, at in (
        (lambda x: g(x, many), torch.ones_like(A)),
        (lambda x: (ldiv.solve(x, B) * 1e300).sum() * 1e300, A * 1e-300),
        (lambda x: (ldiv.solve(x, B) * 1e100).sum(), A * 1e-250),
    ):
        said = []
        for run in (torch.func.grad(h), lambda x: slope(h, x.requires_grad_())):  # noqa: B023
            with pytest.raises((ValueError, LinAlgError)) as error:
                run(at.clone())
            said.append((type(error.value), str(error.value)))
        assert said[0] == said[1]


def test_complex_numbers() -> None:
    a, b = A + 1j * A.mT, B + 2j

    def g(a: Any) -> Any:
        return ldiv.solve(a.mH, b).abs().pow(2).sum()

    x = a.clone().requires_grad_()
    found = torch.func.grad(g)(a)
    torch.testing.assert_close(found, torch.autograd.grad(g(x), x)[0])
    moved = torch.func.jvp(g, (a,), (b * a,))[1]
    torch.testing.assert_close(moved, (found.conj() * b * a).real.sum())


def test_the_work_is_that_of_the_graph() -> None:
    """Factorizations and solves are counted alike."""
    for name in ("solve", "solve pos"):
        g, x = cubed(FUNCTIONS[name]), (A + 1).clone().requires_grad_()
        counts = []
        for run in (
            lambda: torch.autograd.grad(g(x), x),  # noqa: B023
            lambda: torch.func.grad(g)(x.detach()),  # noqa: B023
        ):
            ldiv.clear_cache()
            before = ldiv.cache_info()
            run()
            after = ldiv.cache_info()
            counts.append(
                (after.factorizations - before.factorizations, after.solves - before.solves)
            )
        assert counts[0] == counts[1]


@pytest.mark.skipif(native.native is None, reason=native.why_not)
def test_one_node_for_a_derivative() -> None:
    """A derivative by torch.func enters few functions beside those that PyTorch enters for any."""
    modes: tuple[Any, ...] = (
        lambda g: torch.func.grad(g)(A),
        lambda g: torch.func.jvp(g, (A,), (A,)),
    )
    for mode in modes:
        counts = []
        for g in (cubed(FUNCTIONS["solve"]), cubed(lambda x: x)):
            mode(g), mode(g)
            counts.append(frames(lambda g=g, mode=mode: mode(g)))  # type: ignore[misc]
        assert counts[0] - counts[1] <= 215, counts
