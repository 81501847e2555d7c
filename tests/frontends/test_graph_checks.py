"""Derivatives in a function that is evaluated twice are checked once, and again where one was cut."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from adversarial.backwards import CUBES

import ldiv
from ldiv.frontends.torch import private
from ldiv.frontends.torch.user import agreement, forward_mode, several
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
    f, other = (lambda x: x**2), (lambda x: x**3)
    for named, times in ((f, 1), (other, 4)):
        looks.clear()
        with looking_once(named) as known, torch.no_grad():
            forward_mode.look(known, torch.ones(2))
            for point in (1.0, 2.0, 3.0):
                x = torch.full((2,), point)
                assert torch.equal(several.pushed(f, x, torch.eye(2)), torch.diag(2 * x))
        assert len(looks) == times


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
