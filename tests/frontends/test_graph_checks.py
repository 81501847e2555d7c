"""Derivatives in a function that is evaluated twice are checked once, and again where one was cut;
not those of operations of PyTorch that are known to be differentiable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from adversarial.backwards import CUBES

import ldiv
from ldiv.frontends.torch import private
from ldiv.frontends.torch.user import agreement, forward_mode, graph_nodes, several
from ldiv.frontends.torch.user.repeated import GraphChecks, are_whole, looking_once


def looked_at(answers: list[bool], checks: GraphChecks) -> list[tuple[bool, bool]]:
    """Return for each derivative in two evaluations the answer, and whether a check was made for
    it.
    """
    said = []
    for _ in range(2):
        with checks.inside():
            for answer in answers:
                looks: list[bool] = []
                found = are_whole(lambda a=answer, n=looks: n.append(a) or a)
                said.append((found, bool(looks)))
    return said


def test_whole_ones_are_checked_tangent_once() -> None:
    assert looked_at([True, True], GraphChecks()) == [(True, True)] * 2 + [(True, False)] * 2


def test_one_that_is_cut_is_found_in_both() -> None:
    assert looked_at([False, True], GraphChecks()) == [(False, True), (True, True)] * 2


def test_an_inner_function_has_its_own() -> None:
    outer = GraphChecks()
    with outer.inside():
        assert looked_at([False], GraphChecks()) == [(False, True)] * 2
        assert looked_at([True], outer)[0] == (True, True)
    assert looked_at([True], GraphChecks())[0] == (True, True)


def test_a_function_that_fails_says_nothing() -> None:
    checks = GraphChecks()
    with pytest.raises(ZeroDivisionError), checks.inside():
        are_whole(lambda: bool(1 / 0))
    assert looked_at([True], checks)[0] == (True, True)


def test_tangents_are_checked_tangent_at_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look along one direction at the function that is named, and at no other."""
    looks: list[int] = []
    look = forward_mode.Tangent.agrees_to_rounding
    monkeypatch.setattr(
        forward_mode.Tangent, "agrees_to_rounding", lambda t: looks.append(1) or look(t)
    )
    f, other = CUBES["Plain"], (lambda x: x**2)
    for named, times in ((f, 1), (other, 3)):
        looks.clear()
        with looking_once(named) as known, torch.no_grad():
            forward_mode.look(known, torch.ones(2))
            for point in (1.0, 2.0, 3.0):
                x = torch.full((2,), point)
                assert torch.equal(several.pushed(f, x, torch.eye(2)), torch.diag(3 * x**2))
        assert len(looks) == times


def of_indices(x: torch.Tensor) -> torch.Tensor:
    i = torch.tensor([2, 0, 2, 1])
    y = x[i] * x.index_select(0, i) * x.gather(0, i)
    return torch.stack([x[1:] ** 3, y[:2], torch.cat([x[0][None], y[2:].flip(0)[:1]])])


def of_views(x: torch.Tensor) -> torch.Tensor:
    y = (x**3)[None].expand(2, 3).repeat(1, 2).reshape(3, 4).mT.permute(1, 0).reshape(2, 6)
    y = y.t().contiguous().view(-1, 4) * x.unsqueeze(1).transpose(0, 1).squeeze(0)[:, None]
    a, b, c = y.split(1)
    return a.unbind()[0].sum() * (b + c).clone().ravel().mean()


def of_products(x: torch.Tensor) -> torch.Tensor:
    A = x[:, None] * x.cos() + 1
    B = torch.addmm(A, A, A) @ A
    return torch.bmm(B[None], A[None])[0] @ x * (x @ x) + x.cumsum(0) ** 3


def of_parts(x: torch.Tensor) -> torch.Tensor:
    y = (
        torch.where(x > 1, x**3, -(x**4)).masked_fill(x < 0.7, 2.0)
        + (x[:1] - x) ** 3
        + (x**2).abs()
    )
    return torch.maximum(y, x**2) / torch.minimum(x.exp(), 3 * x) + x.sgn() * x.reciprocal()


FUNCTIONS: list[Callable[[Any], Any]] = [
    *(torch.sqrt, torch.rsqrt, torch.exp, torch.expm1, torch.log, torch.log1p, torch.sin, torch.tan),
    *(torch.atan, torch.sinh, torch.cosh, torch.tanh, torch.sigmoid, torch.nn.functional.softplus),
    *(torch.lgamma, torch.erf, torch.erfc, lambda x: torch.rsub(x**3, 2), lambda x: x.index_add(0, torch.tensor([1]), x[:1] ** 3)),
    *(lambda x: x.index_put((torch.tensor([1]),), x[0] ** 3), lambda x: x.scatter_add(0, torch.tensor([1, 1, 2]), x**3)),
    *(of_indices, of_views, of_products, of_parts),
]  # fmt: skip


def test_what_is_known_to_be_smooth_is() -> None:
    """Each listed operation is differentiated three times, and compared with differences; its rule for
    batches, with single rows.
    """
    seen: set[str] = set()
    random = torch.Generator().manual_seed(0)
    for f in FUNCTIONS:
        x = torch.tensor([0.5, 1.3, 2.1], dtype=torch.float64, requires_grad=True)

        def gradient(x: torch.Tensor, f: Any = f) -> torch.Tensor:
            weights = torch.linspace(1, 2, f(x).numel(), dtype=x.dtype)
            return torch.autograd.grad(f(x).reshape(-1) @ weights, x, create_graph=True)[0]

        assert torch.autograd.gradgradcheck(gradient, x)
        y: Any = f(x)
        for _ in range(3):
            seen |= {type(node).__name__ for node in graph_nodes._nodes((y,), [])}
            rows = torch.randn(4, *y.shape, dtype=y.dtype, generator=random)
            grad = partial(torch.autograd.grad, y, x, retain_graph=True)
            together = torch.vmap(lambda row, grad=grad: grad(row)[0])(rows)
            alone = torch.stack([grad(row)[0] for row in rows])
            torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)
            (y,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
    named = set(map(graph_nodes.named, seen))
    assert (graph_nodes.SMOOTH - named, named - graph_nodes.SMOOTH) == (set(), set())


@pytest.mark.parametrize("cube", ["cube", "Plain", "hooked", "hooked_node"])
def test_functions_of_torch_are_not_checked(cube: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing cuts a graph whose nodes are PyTorch's own, and which no hook has entered."""
    looks: list[int] = []
    agrees = agreement.Tangent.agrees
    monkeypatch.setattr(agreement.Tangent, "agrees", lambda t: looks.append(1) or agrees(t))
    f = CUBES.get(cube, lambda x: x**3)
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    f(x)  # hooks of earlier calls count for nothing
    (x_bar,) = ldiv.vjp(f, x)[1](torch.ones_like(x))
    assert bool(looks) == (cube != "cube")
    if "hooked" in cube:
        with pytest.raises(ldiv.NotDifferentiableError):
            torch.autograd.grad(x_bar.sum(), x)
    else:
        assert torch.equal(torch.autograd.grad(x_bar.sum(), x)[0], 6 * x.detach())


def test_many_tangents_are_checked_tangent_along_one_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The evaluations for a check cost as much as one tangent, not as all."""
    is_one: list[bool] = []
    look = forward_mode.Tangent._agrees

    def of_one(t: Any, *given: Any) -> bool:
        is_one.append(not any(map(private.is_wrapped, t.dxs)))
        return look(t, *given)

    monkeypatch.setattr(forward_mode.Tangent, "_agrees", of_one)
    x = torch.linspace(0.1, 1, 20, dtype=torch.float64)
    for within in (
        lambda f: f(x),
        lambda f: torch.vmap(lambda _: f(x))(x[:1])[0],
    ):  # graph, torch.func
        is_one.clear()
        J = within(lambda x: ldiv.jacobian(lambda x: torch.sin(x) * x.sum(), x, mode="forward"))
        assert torch.allclose(J, torch.diag(torch.cos(x) * x.sum()) + torch.sin(x)[:, None])
        assert all(is_one)


@pytest.mark.parametrize("found_at_x", [forward_mode.to_rounding, forward_mode.to_half])
def test_many_tangents_that_round_are_checked_tangent_along_one_direction(
    monkeypatch: pytest.MonkeyPatch, found_at_x: Any
) -> None:
    """One more check along one direction decides, where the first check met less rounding than the
    batch has: a batch of tangents is never evaluated again for a check.
    """
    monkeypatch.setattr(agreement, "ROUNDING", -1.0)  # no products agree to rounding
    looked: list[bool] = []
    look = forward_mode._checked_tangent

    def counted(f: Any, xs: Any, dxs: Any) -> Any:
        looked.append(any(map(private.is_wrapped, dxs)))
        return look(f, xs, dxs)

    monkeypatch.setattr(forward_mode, "_checked_tangent", counted)
    x = torch.linspace(0.1, 1, 300, dtype=torch.float64)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * x.sum()

    with looking_once(f) as known:
        known.bound = found_at_x
        J = torch.vmap(lambda d: forward_mode.jvp(f, (x,), (d,))[1])(torch.eye(300).double()).mT
    assert looked == ([False] if found_at_x is forward_mode.to_rounding else [])
    assert torch.allclose(J, torch.diag(torch.cos(x) * x.sum()) + torch.sin(x)[:, None])


@pytest.mark.parametrize("cube", ["ZeroForward", "custom_op"])
@pytest.mark.parametrize("size", [1.0, 1e10])
def test_one_tangent_of_many_that_is_wrong(cube: str, size: float) -> None:
    """The wrong tangent is found beside others that are far larger."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    J = ldiv.jacobian(lambda x: size * x[:1] + CUBES[cube](x[1:]).sum()[None], x, mode="forward")
    assert J.tolist() == [[size, 12.0, 27.0]]


def test_the_jacobians_of_a_fit_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a batch of tangents rounds by more than the first direction: at most one more look,
    along the one that is farthest off, and none in later steps.
    """
    looked: list[Any] = []
    look = forward_mode._checked_tangent

    def counted(*args: Any) -> Any:
        looked.append(args)
        found = look(*args)
        monkeypatch.setattr(agreement, "ROUNDING", -1.0)  # no more products agree to rounding
        return found

    monkeypatch.setattr(forward_mode, "_checked_tangent", counted)
    t = torch.linspace(0, 3, 80, dtype=torch.float64)
    truth = torch.cos(torch.arange(9, dtype=torch.float64))

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.cos(t[:, None] * torch.arange(1, 10)) @ x / 3)

    x, info = ldiv.least_squares(lambda x, y: model(x) - y, 0 * truth, model(truth), info=True)
    assert torch.allclose(x, truth) and info.steps > 3 and len(looked) <= 2
