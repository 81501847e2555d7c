"""Multiples and sums of matrices over several processes: matrices with entries, as on one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from distributed.problem import DIRECT, RANK, SIZE, Whole, distance, grid

import ldiv
from ldiv import distributed

LAST = SIZE - 1
WIND = grid(5, wind=0.6, noise=0.1)
SHIFT = grid(5).tolil()
SHIFT[0, 24] = 0.5  # at another place than those of WIND
SHIFT = SHIFT.tocoo()

CASES: dict[str, Any] = {
    "a multiple": lambda A, B: 2 * A,
    "a quotient, negative": lambda A, B: -A / 3,
    "a sum": lambda A, B: A + B,
    "a difference at the same places": lambda A, B: 3 * A - A.with_data(A.data**2 / 2),
    "a sum with a transpose": lambda A, B: A + A.T,
    "two transposes": lambda A, B: (A.T + 0.5 * B.T).T,
    "several": lambda A, B: 2 * A + B - A.T / 4,
}


def gradients(make: Any, A: Any, B: Any, b: Any, weights: Any, total: Any, **options: Any) -> Any:
    x = ldiv.solve(make(A, B), b, **options)
    y = make(A, B) @ x
    total((x**2 * weights).sum() + y.sum()).backward()
    return x.detach(), y.detach(), A.data.grad, B.data.grad


def leaf(x: Any) -> Any:
    return torch.tensor(x, requires_grad=True)


@pytest.mark.parametrize("name", CASES)
def test_solves_and_gradients_are_those_of_one_process(name: str) -> None:
    one, two = Whole(WIND), Whole(SHIFT)
    whole = gradients(
        CASES[name],
        one.everything(leaf(one.values)),
        two.everything(leaf(two.values)),
        torch.tensor(one.b),
        torch.tensor(one.weights),
        lambda loss: loss,
    )
    A, B = (w.part(leaf(w.values[w.mine])) for w in (one, two))
    b, weights = (torch.tensor(v[one.own]) for v in (one.b, one.weights))
    here = gradients(CASES[name], A, B, b, weights, distributed.sum)
    for x, y in zip(here[:2], whole[:2], strict=True):
        assert distance(x, y[one.own], y) <= DIRECT
    for w, x, y in zip((one, two), here[2:], whole[2:], strict=True):
        assert (x is None) == (y is None)
        assert y is None or distance(x, y[w.mine], y) <= DIRECT


def test_they_are_matrices_with_entries() -> None:
    w = Whole(WIND)
    A = w.part(w.values[w.mine], solver_parameters={"ksp_type": "gmres", "pc_type": "jacobi"})
    total = 2 * A + A.T
    assert isinstance(total, distributed.DistributedArray)
    assert isinstance(sum([A, A]), distributed.DistributedArray)
    assert (A + A).structure is A.structure
    _, info = ldiv.solve(total, w.b[w.own], info=True)
    assert info.engine == "gmres"  # by the options of the first


def test_eigenvalues_and_promises() -> None:
    pytest.importorskip("slepc4py")
    w = Whole(grid(5))
    A, a = w.part(w.values[w.mine]), w.everything(w.values)
    lam, whole = (ldiv.eigsh(m / 2 + m, 3, sigma=0.0)[0] for m in (A, a))
    assert distance(lam, whole, whole) <= DIRECT
    x, y = (ldiv.solve(m + m.T, b, assume_a="pos") for m, b in ((A, w.b[w.own]), (a, w.b)))
    assert distance(x, y[w.own], y) <= DIRECT


def test_a_shared_factor() -> None:
    w = Whole(WIND)
    theta = leaf(np.array(1.5))
    A = distributed.spread(theta) * w.part(torch.tensor(w.values[w.mine]))
    x = ldiv.solve(A, torch.tensor(w.b[w.own]))
    distributed.sum(x.sum()).backward()
    whole = ldiv.solve(w.everything(w.values), w.b).sum()
    assert float(theta.grad) == pytest.approx(-whole / 1.5**2, rel=1e-11)


def test_batches_and_compiled() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    w = Whole(WIND)
    twice = w.part(np.stack([w.values, 2 * w.values])[:, w.mine]) + w.part(w.values[w.mine]).T
    a = w.everything(w.values)
    x, y = ldiv.solve(twice, w.b[w.own]), ldiv.solve(2 * a + a.T, w.b)
    assert x.shape == (2, len(w.own))
    assert distance(x[1], y[w.own], y) <= DIRECT
    b = jax.numpy.asarray(w.b[w.own])

    @jax.jit
    def compiled(v: Any) -> Any:
        return ldiv.solve(2 * w.part(v) + w.part(v).T, b)

    assert distance(compiled(jax.numpy.asarray(w.values[w.mine])), y[w.own], y) <= DIRECT


def test_what_cannot_be_added_says_so() -> None:
    w = Whole(WIND)
    A = w.part(w.values[w.mine])
    own = len(w.own)
    for other in (1.0, np.ones((own, own)), ldiv.eye_array(own)):
        with pytest.raises((TypeError, ValueError), match=r"A \+ B: expected a matrix"):
            A + other
    small = Whole(grid(3))
    with pytest.raises(ValueError, match=r"A \+ B: expected a B of \(25, 25\)"):
        A + small.part(small.values[small.mine])
    for call in (
        ldiv.solve,
        lambda A, b: ldiv.factorized(A).solve(b),
        lambda A, b: ldiv.eigsh(A, 2),
    ):
        with pytest.raises((ldiv.EngineError, TypeError), match="real"):
            call(1j * A, w.b[w.own])
    with pytest.raises(TypeError, match="over the same processes"):
        ldiv.eye_array(own) + A
    with pytest.raises(TypeError, match="libpetsc-real-dev"):
        w.part(w.values[w.mine] * 1j)


@pytest.mark.skipif(SIZE == 1, reason="of two processes and more")
def test_rows_that_live_elsewhere_are_refused_on_all() -> None:
    w = Whole(WIND)
    n = w.shape[0]
    own = n if RANK == LAST else 0
    with pytest.raises(ValueError, match="at the same processes"):
        w.part(w.values[w.mine]) + w.part(w.values[w.mine], local_shape=(own, own))
    x = ldiv.solve(w.part(w.values[w.mine]), w.b[w.own])
    assert len(x) == len(w.own)
