"""Arguments of odd kinds: refused in words of ours, or taken for what they mean."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ldiv

A, b = np.diag([2.0, 4.0]) + 1, np.array([1.0, 2.0])
S = ldiv.coo_array((np.array([1.0, 2.0]), ([0, 1], [0, 1])), shape=(2, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ldiv.eigsh(A, 1, guard=None), "guard: expected an integer >= 0, got None"),
        (lambda: ldiv.gaussian_kl(A, np.nan * A), "gaussian_kl: expected finite numbers"),
        (lambda: ldiv.gaussian_kl(np.inf * A, A), "gaussian_kl: expected finite numbers"),
        (lambda: ldiv.LinearOperator(lambda p, x: x, 10**5000, shape=(2, 2)), "params: expected at least one array, got"),
        (lambda: S * 10**400, "the other operand: expected a finite number"),
    ],
)
def test_refused(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()  # type: ignore[operator]


def test_large_integers() -> None:
    assert (S * 2**63).values[0] == 2.0**63


def test_cotangents_and_tangents_take_the_dtype_of_what_they_belong_to() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    for to in (torch.from_numpy, jax.numpy.asarray, np.asarray):
        ones = to(np.ones(2))
        pull = ldiv.vjp(ldiv.solve, to(A), to(b))[1]
        for y_bar in (range(1, 2), [True], [1.0]):
            np.testing.assert_allclose(np.asarray(pull(list(y_bar) * 2)[1]), np.asarray(pull(ones)[1]))
        for t in (to(np.ones(2, "float32")), to(np.array([True, True]))):
            np.testing.assert_allclose(np.asarray(ldiv.jvp(ldiv.solve, (to(A), to(b)), (None, t))[1]), np.linalg.solve(A, np.ones(2)))
        complex_b = to(b + 1j)
        np.testing.assert_allclose(np.asarray(ldiv.jvp(ldiv.solve, (to(A), complex_b), (None, ones))[1]), np.linalg.solve(A, np.ones(2)))


def test_odd_tensors() -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 2, dtype=torch.float64)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(TypeError, match="beta: expected an array"):
        ldiv.Tape().gemm(1.0, t, t, nested, t)
