"""A constraint that is implied by others, or slack, changes no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from implied import plain, with_more
from programs import REFUSED, loss, program

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("clarabel")
jax.config.update("jax_enable_x64", True)
TWICE = np.array([[1.0, 0.0], [1.0, 0.0]])
Q = np.array([-2.0, 0.5])


def _answer(p: dict[str, Any]) -> tuple[Any, Any]:
    """The result, and the gradients in q and P, None where they are refused."""
    given = {name: torch.tensor(p[name], requires_grad=True) for name in "qP"}
    found = ldiv.solve_qp(**p | given, full=True)
    try:
        return found, torch.autograd.grad(loss(found.x), list(given.values()))
    except ldiv.NotDifferentiableError:
        return found, None


def _require_optimal(p: dict[str, Any], found: Any) -> None:
    x, _, y, z, z_box, *_ = (np.asarray(t.detach()) for t in found)
    force = p["P"] @ x + p["q"] + p["A"].T @ y + p["G"].T @ z + z_box
    size = 1 + abs(p["q"]).max() + abs(z).max(initial=0)
    assert abs(force).max() < 1e-8 * size and z.min(initial=0) > -1e-7 * size


def _look(seed: int) -> bool:
    rng = np.random.default_rng([7, seed])
    p = plain(rng)
    more = with_more(rng, p)
    try:
        expected, slopes = _answer(p)
    except REFUSED as error:
        with pytest.raises(type(error)):
            _answer(more)
        return False
    found, of_more = _answer(more)
    _require_optimal(more, found)
    assert np.isclose(found.value.detach(), expected.value.detach(), 1e-9, 1e-9)
    if slopes is None:
        assert of_more is None  # where x is not unique, another one may be found
        return False
    assert np.allclose(found.x.detach(), expected.x.detach(), 1e-6, 1e-6)
    for got, slope in zip(of_more, slopes, strict=True):
        assert np.allclose(got, slope, 1e-6, 1e-6)
    return True


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 200))]
)
def test_what_is_implied_changes_nothing(part: int) -> None:
    assert sum(_look(seed) for seed in range(100 * part, 100 * part + (100 if part else 20)))


@pytest.mark.parametrize("seed", [16189, 16207, 24168, 25418])
def test_what_random_programs_found(seed: int) -> None:
    """Rows that nearly depend, or do not belong to those that depend on each other, and are weak."""
    _look(seed)


def test_equalities_that_are_repeated() -> None:
    p = program(1)
    expected = ldiv.solve_qp(**p)
    W = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [1.0, -1.0]])
    found = ldiv.solve_qp(**p | {"A": W @ p["A"], "b": W @ p["b"]}, full=True)
    assert np.allclose(found.x, expected, 1e-9, 1e-9)
    one = np.ones((2, 2))
    alone = ldiv.solve_qp(np.eye(2), np.ones(2), A=one, b=np.ones(2), full=True)
    assert np.allclose(alone.x, 0.5) and np.allclose(alone.y, -0.75)  # of least norm
    for batch in ((3,), (0,), (2, 1)):
        b = np.ones((*batch, 2))
        assert np.allclose(
            ldiv.solve_qp(np.eye(2), np.ones(2), A=one, b=b), np.full((*batch, 2), 0.5)
        )
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as info:
        ldiv.solve_qp(np.eye(2), np.ones(2), A=one, b=np.array([1.0, 2.0]))
    y = info.value.certificate
    assert abs(one.T @ y).max() < 1e-12 and np.array([1.0, 2.0]) @ y < 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_a_portfolio_at_its_caps(k: int, dtype: Any) -> None:
    """The k best of 6 at 1/k, the others at 0: seven active rows of six unknowns."""
    q = np.array([-27.0, -24, -21, 21, 24, 27], dtype)
    best = np.arange(6) < k
    rows = {"A": np.ones((1, 6), dtype), "b": np.ones(1, dtype), "lb": 0.0, "ub": 1 / k}
    many = torch.tensor(np.stack([q, q[::-1]]), requires_grad=True)
    x = ldiv.solve_qp(np.eye(6, dtype=dtype), many, **rows)
    assert np.allclose(x.detach(), [best / k, best[::-1] / k], atol=1e-6)
    (slope,) = torch.autograd.grad(loss(x), many, create_graph=True)
    assert not slope.any()
    assert not torch.func.hessian(lambda q: ldiv.solve_qp(np.eye(6, dtype=dtype), q, **rows).sum())(
        many[0]
    ).any()


def test_two_parallel_rows() -> None:
    for off in (1e-6, 1e-3, 1.0):
        for order in (1, -1):
            h = np.array([1, 1 + off])[::order].copy()
            given = [torch.tensor(t, requires_grad=True) for t in (Q, h)]
            found = ldiv.solve_qp(np.eye(2), given[0], TWICE, given[1], full=True)
            assert np.allclose(found.x.detach(), [1, -0.5], 0, 1e-12)
            assert np.allclose(found.z.detach(), np.array([1.0, 0])[::order])
            slopes = torch.autograd.grad(found.x.sum(), given)
            assert np.allclose(slopes[0], [0, -1])
            assert np.allclose(slopes[1], np.array([1.0, 0])[::order])


def test_which_derivatives_dependent_rows_have() -> None:
    """Derivatives in q exist; those in h if both rows move alike; none of multipliers, which are
    not unique.
    """
    one = np.ones(2)

    def f(q: Any, h: Any, full: bool = False) -> Any:
        return ldiv.solve_qp(np.eye(2), q, TWICE, h, full=full)

    refused = ldiv.NotDifferentiableError
    found = f(torch.tensor(Q, requires_grad=True), torch.tensor(one), True)
    assert np.allclose(found.z.detach(), 0.5) and found.active.all()
    assert np.allclose(
        torch.func.grad(lambda q: f(q, torch.tensor(one), True).value)(torch.tensor(Q)), [1, -0.5]
    )
    with pytest.raises(refused, match=r"of multipliers, got row . of G implied by others"):
        found.z.sum().backward()
    assert np.allclose(jax.jvp(lambda q: f(q, one), (Q,), (one,))[1], [0, -1])
    assert np.allclose(jax.jvp(lambda h: f(Q, h), (one,), (one,))[1], [1, 0])
    assert np.allclose(jax.jvp(lambda t: f(Q, t * one), (1.0,), (1.0,))[1], [1, 0])
    assert np.allclose(jax.jit(jax.hessian(lambda q: (f(q, one) ** 2).sum()))(Q), [[0, 0], [0, 2]])
    with pytest.raises(refused, match=r"in A, b, G, h, lb or ub, got row . of G implied"):
        jax.jvp(lambda h: f(Q, h), (one,), (Q,))
    with pytest.raises(refused, match="implied"):
        jax.grad(lambda h: f(Q, h).sum())(one)


def test_under_nan_what_has_no_derivative_is_nan_by_member_and_argument() -> None:
    q = torch.tensor(np.stack([Q, -Q]), requires_grad=True)
    h = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve_qp(np.eye(2), q, TWICE, h)
        of_q, of_h = torch.autograd.grad((x**2).sum(), (q, h))
    assert np.allclose(of_q, [[0, 1], [4, -1]])
    assert torch.isnan(of_h[0]).all() and not of_h[1].any()


def test_rows_that_nearly_depend_are_not_taken_for_dependent() -> None:
    """x = (1, 0), where the rows meet; without one of them it would be (1, -1)."""
    A = np.array([[1.0, 0.0], [1.0, 1e-9]])
    try:
        x = ldiv.solve_qp(np.eye(2), np.ones(2), A=A, b=np.ones(2))
    except ldiv.SingularMatrixError:
        return
    assert np.allclose(x, [1, 0], 0, 1e-3)


def test_the_gradient_of_a_multiplier_without_force_is_zero() -> None:
    """The row is not active, in a batch too."""
    given = np.eye(2), np.array([[-0.5, 0.5]]), np.eye(2), np.ones(2)
    slopes = []
    for q in (given[1], given[1][0]):
        tensors = [torch.tensor(t, requires_grad=True) for t in (given[0], q, *given[2:])]
        z = ldiv.solve_qp(*tensors, full=True).z
        slopes.append(torch.autograd.grad((z + z**2).sum(), tensors))
    for many, one in zip(*slopes, strict=True):
        assert not many.any() and not one.any()
