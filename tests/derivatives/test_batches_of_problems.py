"""A batch of roots or fits in PyTorch is one iteration, in which each member stops where it would alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.errors import ConvergenceError

torch = pytest.importorskip("torch")
T = torch.linspace(0, 3, 12, dtype=torch.float64)
DIAGONAL = (np.arange(2), np.arange(2))
WHOLE = (np.repeat(np.arange(12), 2), np.tile(np.arange(2), 12))


def fit(**options: Any) -> Callable[[Any], Any]:
    def residual(x: Any, y: Any) -> Any:
        return x[0] * torch.exp(-x[1] * T) - y

    return lambda y: ldiv.least_squares(residual, torch.ones(2).double(), y, **options)


def data(count: int) -> Any:
    rates = torch.linspace(0.3, 2, count, dtype=torch.float64)[:, None]
    return (1 + rates) * torch.exp(-rates * T) + 0.01 * torch.cos(9 * T * rates)


def near(x: Any, p: Any) -> Any:
    return x**3 + x * p.sum() - p


def root(**options: Any) -> Callable[[Any], Any]:
    return lambda p: ldiv.root(near, torch.ones(2).double(), p, **options)


PROBLEMS = {
    "fit": (fit(), data(7)),
    "gauss-newton": (fit(method="gauss-newton"), data(7)),
    "robust": (fit(loss="soft_l1", f_scale=0.1), data(7)),
    "sparse fit": (fit(pattern=WHOLE), data(7)),
    "root": (root(), 3 * data(7)[:, :2]),
    "whole steps": (root(line_search=None, stepmx=0.5), 3 * data(7)[:, :2]),
}


def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The kernels of users' functions that are entered from now on."""
    entered: list[Any] = []
    user = ldiv.core.frameworks.dispatch.frontend_of(T).user
    call = user.call
    monkeypatch.setattr(user, "call", lambda *args: (entered.append(args), call(*args))[1])
    return entered


@pytest.mark.parametrize("name", PROBLEMS)
def test_members_are_what_they_are_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, ys = PROBLEMS[name]
    alone = torch.stack([f(y) for y in ys])
    slopes = torch.stack([torch.func.jacrev(f)(y) for y in ys])
    entered = calls(monkeypatch)
    torch.testing.assert_close(torch.func.vmap(f)(ys), alone, rtol=1e-12, atol=1e-13)
    assert len(entered) < 60  # one batched evaluation for all
    nested = torch.func.vmap(torch.func.vmap(f))(torch.stack([ys, ys]))
    torch.testing.assert_close(nested, torch.stack([alone, alone]), rtol=1e-12, atol=1e-13)
    found = torch.func.vmap(torch.func.jacrev(f))(ys)
    torch.testing.assert_close(found, slopes, rtol=1e-9, atol=1e-11)


def test_starts_that_are_mapped() -> None:
    starts = torch.tensor([[0.5, 2.0], [3.0, 0.1], [1.0, 1.0]]).double()
    p = torch.tensor([1.0, 4.0]).double()
    found = torch.func.vmap(lambda x0: ldiv.root(lambda x, p: x**2 - p, x0, p))(starts)
    assert torch.allclose(found, p.sqrt().expand(3, 2), rtol=1e-12)


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_member_without_a_solution_is_an_error(bad: int) -> None:
    p = torch.ones(3, 2).double()
    p[bad] = -1
    with pytest.raises((ConvergenceError, ldiv.SingularMatrixError)) as alone:
        ldiv.root(lambda x, p: x**2 - p, torch.full((2,), 0.7).double(), p[bad])
    with pytest.raises(type(alone.value)):
        torch.func.vmap(
            lambda p: ldiv.root(lambda x, p: x**2 - p, torch.full((2,), 0.7).double(), p)
        )(p)


def test_functions_that_branch_are_solved_one_by_one() -> None:
    def f(x: Any, p: Any) -> Any:
        return x - p if p.sum() > 0 else x + p

    p = torch.tensor([[1.0, 2.0], [-1.0, -2.0]]).double()
    found = ldiv.root(f, torch.zeros(2).double(), p[0])
    assert torch.equal(found, p[0])
    with pytest.raises(RuntimeError, match="vmap"):  # f is called with members of the user's batch
        torch.func.vmap(lambda p: ldiv.root(f, torch.zeros(2).double(), p))(p)


def test_a_member_that_has_stopped_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its root this f has no derivative; others still move there."""

    def f(x: Any, p: Any) -> Any:
        return torch.where(x > p - 1e-3, x - p, (x - p) * 50)

    p = torch.tensor([[1.0], [1e5]]).double()
    x0 = torch.tensor([[1.0], [-3e5]]).double()
    found = torch.func.vmap(lambda x0, p: ldiv.root(f, x0, p))(x0, p)
    assert torch.allclose(found, p, rtol=1e-14)


@pytest.mark.parametrize("solve", [ldiv.root, ldiv.least_squares])
@pytest.mark.parametrize("level", [torch.func.grad, torch.func.jacfwd, None])
def test_closures_over_what_is_differentiated_or_mapped(solve: Any, level: Any) -> None:
    """A batch that is one iteration would hide them: a silent zero, or another member's numbers."""
    x0, p = torch.ones(2).double(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()

    def batch(q: Any) -> Any:
        return torch.func.vmap(lambda p: solve(lambda x, p: x**3 + x - p * q, x0, p))(p).sum()

    q = torch.ones(2).double()
    with pytest.raises(ValueError, match="a closure over such a tensor"):
        level(batch)(q) if level else batch(q.requires_grad_())
    with pytest.raises(ValueError, match="a closure over such a tensor"):
        torch.func.vmap(lambda p: solve(lambda x, w: x**3 + x - p - w, x0, p))(p)
