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


def slopes_by_hand(name: str, x: Any, a: Any) -> Any:
    """dx/da by the implicit function theorem, of one problem, in NumPy."""
    if name == "root":  # f_i = x_i^3 + x_i sum(p) - p_i
        J = np.diag(3 * x**2 + a.sum())
        return np.linalg.solve(J, np.eye(2) - x[:, None])
    # r = x_0 e - y, e = exp(-x_1 t): H = J^T J + sum_i r_i d2r_i
    t = T.numpy()
    e = np.exp(-x[1] * t)
    J, r = np.stack([e, -x[0] * t * e], axis=1), x[0] * e - a
    mixed, twice = -(r * t * e).sum(), (r * x[0] * t**2 * e).sum()
    return np.linalg.solve(J.T @ J + [[0, mixed], [mixed, twice]], J.T)


@pytest.mark.parametrize("name", ["fit", "root"])
def test_a_batch_is_differentiated_from_outside(name: str) -> None:
    f, ys = PROBLEMS[name]
    batch = torch.func.vmap(f)
    by_hand = [slopes_by_hand(name, f(y).numpy(), y.numpy()) for y in ys]
    blocks = torch.block_diag(*map(torch.as_tensor, by_hand)).reshape(len(ys), 2, *ys.shape)
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(jacobian(batch)(ys), blocks, rtol=1e-8, atol=1e-9)
    found = torch.autograd.functional.jacobian(batch, ys, vectorize=True)  # by backward passes
    torch.testing.assert_close(found, blocks, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_from_outside_are_those_inside(name: str) -> None:
    f, ys = PROBLEMS[name]
    grad, vmap = torch.func.grad, torch.func.vmap

    def loss(y: Any) -> Any:
        return (f(y) ** 3).sum()

    def of_batch(ys: Any) -> Any:
        return vmap(loss)(ys).sum()

    inside = vmap(grad(loss))(ys)
    twice = vmap(torch.func.hessian(loss))(ys)
    torch.testing.assert_close(grad(of_batch)(ys), inside, rtol=1e-11, atol=1e-12)
    tangent = torch.func.jvp(of_batch, (ys,), (ys.cos(),))[1]
    torch.testing.assert_close(tangent, (inside * ys.cos()).sum(), rtol=1e-11, atol=1e-12)
    nested = vmap(vmap(loss))  # of two batches, which share their data
    found = grad(lambda ys: nested(torch.stack([ys, ys])).sum())(ys)
    torch.testing.assert_close(found, 2 * inside, rtol=1e-11, atol=1e-12)
    at = ys.clone().requires_grad_()
    (slope,) = torch.autograd.grad(of_batch(at), at, create_graph=True)
    torch.testing.assert_close(slope, inside, rtol=1e-11, atol=1e-12)
    (bent,) = torch.autograd.grad(slope, at, ys.cos())
    expected = torch.einsum("bij,bj->bi", twice, ys.cos())
    torch.testing.assert_close(bent, expected, rtol=1e-9, atol=1e-10)
    along = torch.func.jvp(grad(of_batch), (ys,), (ys.cos(),))[1]
    torch.testing.assert_close(along, expected, rtol=1e-9, atol=1e-10)


def test_starts_and_shared_parameters_of_a_batch() -> None:
    """x^2 = p q_m from starts on both sides: dx/dp = x / (2 p), summed where p is shared."""
    starts = torch.tensor([[0.5, 2.0], [-3.0, 0.1], [-1.0, -1.0]]).double()
    p, q = torch.tensor([1.0, 4.0]).double(), torch.tensor([2.0, 3.0, 0.5]).double()

    def one(x0: Any, p: Any, q: Any) -> Any:
        return ldiv.root(lambda x, pq: x**2 - pq["p"] * pq["q"], x0, {"p": p, "q": q})

    batch = torch.func.vmap(one, (0, None, 0))
    x = batch(starts, p, q)
    assert torch.equal(x.sign(), starts.sign())
    given = [v.clone().requires_grad_() for v in (starts, p, q)]
    found = torch.autograd.grad(batch(*given).sum(), given, materialize_grads=True)
    expected = 0 * starts, (x / (2 * p)).sum(0), (x / (2 * q[:, None])).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)
    found = torch.func.grad(lambda *args: batch(*args).sum(), (0, 1, 2))(starts, p, q)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("numbers", [1, 8])
def test_batches_that_are_taken_in_parts(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldiv.rules.root, "TOGETHER", numbers)
    p = torch.linspace(1, 2, 7, dtype=torch.float64)[:, None] * torch.ones(2).double()
    batch = torch.func.vmap(lambda p: ldiv.root(lambda x, p: x**2 - p, p, p))
    found = torch.func.grad(lambda p: batch(p).sum())(p)
    torch.testing.assert_close(found, 0.5 / p.sqrt(), rtol=1e-10, atol=0)


def test_a_batch_without_members() -> None:
    none = torch.ones(0, 2).double()
    batch = torch.func.vmap(lambda p: ldiv.root(lambda x, p: x**2 - p, torch.ones(2).double(), p))
    assert torch.func.grad(lambda ys: batch(ys).sum())(none).shape == none.shape
    assert torch.func.jvp(batch, (none,), (none,))[1].shape == none.shape


@pytest.mark.parametrize("count", [1, 3])
def test_members_at_a_fold_or_without_a_root(count: int) -> None:
    """The double root 1 of (x - 1)^2 = p at p = 0 has no derivative, and there is none for p < 0."""
    p = torch.linspace(1, 2, count, dtype=torch.float64)[:, None]
    batch = torch.func.vmap(
        lambda p: ldiv.root(lambda x, p: (x - 1) ** 2 - p, torch.tensor([2.0]).double(), p)
    )
    slope = torch.func.grad(lambda p: batch(p).sum())
    for value, error in ((0, ldiv.NotDifferentiableError), (-1, ldiv.SingularMatrixError)):
        p[-1] = value
        with pytest.raises(error, match=None if count == 1 else r"member \(2,\)"):
            slope(p)
        with ldiv.errstate(singular="nan"):
            found = slope(p)
        assert found[-1].isnan() and torch.allclose(found[:-1], 0.5 / p[:-1].sqrt(), rtol=1e-7)
