"""The compiled dense solve takes one b for many matrices, and many b for one matrix, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.core.rules.compiled import computed, pulled_back
from ldiv.engines.libraries import native
from ldiv.rules.solve import Solve
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import Triangular

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

N = 5
# the rule, and the matrix of an array, a map that is its own transpose
RULES: dict[str, tuple[Any, Any]] = {
    "gen": (lambda vector: Solve(Dense(N, N), vector=vector), lambda a: a),
    "H": (lambda vector: Solve(Dense(N, N).H, vector=vector), lambda a: a.swapaxes(-1, -2)),
    "pos": (
        lambda vector: Solve(Symmetric(Dense(N, N)), "pos", vector=vector),
        lambda a: (a + a.swapaxes(-1, -2)) / 2,
    ),
    "lower": (lambda vector: Solve(Triangular(N, True), vector=vector), np.tril),
}
BATCHES = [((4,), ()), ((2, 3), ()), ((1,), ()), ((), (4,)), ((), (2, 3)), ((), (1,))]


def drawn(name: str, batch: tuple[int, ...], vector: bool, own: tuple[int, ...]) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((*batch, N, N)) + 12 * np.eye(N)
    b = rng.standard_normal((*own, N) if vector else (*own, N, 2))
    return RULES["pos"][1](a) if name == "pos" else a, b


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_as_with_copies(name: str, vector: bool) -> None:
    """x, and the cotangents, which are sums over what was shared."""
    made, part = RULES[name]
    for batch, own in BATCHES:
        (a, b), rule = drawn(name, batch, vector, own), made(vector)
        (x,), _ = computed(rule.compiled, (a, b))
        column = b[..., None] if vector else b
        expected = np.linalg.solve(part(a), np.broadcast_to(column, (*batch, *column.shape)))
        block = x[..., None] if vector else x
        np.testing.assert_allclose(block, expected, rtol=1e-12, atol=1e-13)
        x_bar = np.cos(x)
        a_bar, b_bar = pulled_back(rule.compiled, (True, True), (x_bar,), (x,), (a, b))
        lam = np.linalg.solve(part(a).swapaxes(-1, -2), x_bar[..., None] if vector else x_bar)
        of_a = part(-lam @ block.swapaxes(-1, -2))
        of_b = lam[..., 0] if vector else lam
        for found, wanted, like in ((a_bar, of_a, a), (b_bar, of_b, b)):
            summed = wanted.sum(axis=tuple(range(wanted.ndim - like.ndim)))
            assert found.shape == like.shape
            np.testing.assert_allclose(found, summed, rtol=1e-12, atol=1e-13)


def test_sums_that_overflow_are_declined() -> None:
    (a, b), rule = drawn("gen", (4,), False, ()), RULES["gen"][0](False)
    eye = np.broadcast_to(np.eye(N), a.shape).copy()
    (x,), _ = computed(rule.compiled, (eye, b))
    huge = np.full(x.shape, 1e308)
    assert pulled_back(rule.compiled, (False, True), (huge,), (x,), (eye, b)) is None


def test_others_are_left_alone() -> None:
    """Batches on both sides that differ, other sizes, other dtypes."""
    rule = RULES["gen"][0](False)
    for a, b in (
        (np.ones((2, 1, N, N)), np.ones((3, N, 2))),
        (np.ones((2, N, N)), np.ones((N + 1, 2))),
        (np.ones((2, N, N)), np.ones((N, 0))),
        (np.ones((0, N, N)), np.ones((N, 2))),
        (np.ones((2, N, N)), np.ones((N, 2), np.float32)),
    ):
        assert rule.compiled.taking(a, b) is None


@pytest.mark.parametrize("a_batch", [(), (3,)])
def test_tensors_that_require_grad(a_batch: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    b_batch = () if a_batch else (3,)
    a = torch.tensor(drawn("gen", a_batch, False, b_batch)[0], requires_grad=True)
    b = torch.ones((*b_batch, N, 1), dtype=torch.float64, requires_grad=True)
    x = ldiv.solve(a, b)
    assert torch.allclose(a @ x, b.expand(x.shape))
    (b_bar,) = torch.autograd.grad(x.sum(), b)
    lam = torch.linalg.solve(a.mT, torch.ones_like(x))
    assert torch.allclose(b_bar, lam.sum(0) if a_batch else lam)
