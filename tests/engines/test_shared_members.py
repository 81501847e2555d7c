"""A batch of sparse matrices is factored in one compiled call, and shares the factor of each matrix with
whoever asks for that matrix alone: a determinant after a solve, or before it.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines.libraries import native

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
N, COUNT = 36, 3
RNG = np.random.default_rng(0)
KINDS = [("pos", "d"), ("pos", "f"), ("pos", "D"), ("gen", "d"), ("gen", "D")]
each = pytest.mark.parametrize(("kind", "dtype"), KINDS)
positive = pytest.mark.parametrize("dtype", ["f", "d", "D"])


def batch(kind: str, dtype: str) -> Any:
    """A tridiagonal pattern with a corner, and the values of some matrices on it."""
    a = sp.diags_array([-1.0, 4.0, -1.0], offsets=[-1, 0, 1], shape=(N, N)).tolil()
    a[0, N - 1] = a[N - 1, 0] = -0.5
    a = sp.coo_array(a)
    values = np.stack([a.data * (1 + i / 4) for i in range(COUNT)]).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += 0.25j * np.sign(a.coords[0] - a.coords[1])
    if kind == "gen":
        values *= 1 + 0.1 * RNG.random(values.shape)
    return ldiv.coo_array((values, a.coords), shape=(N, N))


def made(f: Any) -> int:
    before = ldiv.cache_info().factorizations
    f()
    return ldiv.cache_info().factorizations - before


@positive
def test_solves_and_determinants_share_in_any_order(dtype: str) -> None:
    A = batch("pos", dtype)
    A = A.with_data(torch.tensor(A.data, requires_grad=True))
    b = torch.tensor(RNG.standard_normal((COUNT, N, 2)).astype(dtype))
    for solve_first in (True, False):
        ldiv.clear_cache()
        kept: list[Any] = []
        tasks = [
            lambda kept=kept: kept.append(ldiv.solve(A, b, assume_a="pos")),
            lambda kept=kept: kept.append(ldiv.logdet(A, assume_a="pos")),
        ]
        first, second = tasks if solve_first else tasks[::-1]
        assert (made(first), made(second)) == (COUNT, 0)
        entries = ldiv.cache_info().entries
        x, size = kept if solve_first else kept[::-1]
        whole = A.toarray().detach().numpy()
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(
            x.detach(), np.linalg.solve(whole, b), rtol=1e4 * eps, atol=100 * eps
        )
        np.testing.assert_allclose(size.detach(), np.linalg.slogdet(whole)[1], rtol=1e3 * eps)
        loss = (x.real * x.real).sum() + size.sum()
        assert made(lambda loss=loss: torch.autograd.grad(loss, A.data)) == 0
        assert entries >= COUNT
        kept.clear()
        del x, size, loss
        gc.collect()
        assert ldiv.cache_info().entries == 0


@each
def test_one_matrix_finds_the_batch_that_it_is_of(kind: str, dtype: str) -> None:
    A = batch(kind, dtype)
    b = RNG.standard_normal((COUNT, N, 1)).astype(dtype)
    F = ldiv.factorized(A, assume_a=kind)
    x = F.solve(b)
    one = A.with_data(A.data[1].copy())
    held = []

    def alone() -> None:
        held.append(ldiv.factorized(one, assume_a=kind))

    assert made(alone) == 0
    np.testing.assert_allclose(held[0].solve(b[1]), x[1], rtol=1e5 * np.finfo(dtype).eps)
    del F
    gc.collect()
    np.testing.assert_allclose(held[0].solve(b[1]), x[1], rtol=1e5 * np.finfo(dtype).eps)
    assert ldiv.cache_info().bytes > 0
    other = A.with_data(np.stack([A.data[1] * 2, A.data[1], A.data[1]]))
    assert made(lambda: ldiv.solve(other, b, assume_a=kind)) == 1


def test_members_that_are_equal_but_no_neighbors() -> None:
    A = batch("pos", "d")
    turns = [k % 2 for k in range(101)]
    M, b = A.with_data(A.data[turns]), RNG.standard_normal((101, N, 1))
    F = ldiv.factorized(M, assume_a="pos")
    expected = ldiv.solve(A.with_data(A.data[0].copy()), b[0], assume_a="pos")
    np.testing.assert_allclose(F.solve(b)[0], expected, rtol=1e-12)
    whole = np.linalg.slogdet(A.toarray())[1][turns]
    assert made(lambda F=F: np.testing.assert_allclose(F.logabsdet(), whole, rtol=1e-12)) == 0
    del F
    gc.collect()
    assert ldiv.cache_info().entries == 0


def test_one_member_that_is_indefinite_is_named() -> None:
    A = batch("pos", "d")
    values = A.data.copy()
    values[1] *= -1
    for tensor in (np.asarray, torch.tensor):
        with pytest.raises(ldiv.NotPositiveDefiniteError, match="1"):
            ldiv.solve(A.with_data(tensor(values)), tensor(np.ones((COUNT, N, 1))), assume_a="pos")
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve(A.with_data(values), np.ones((COUNT, N, 1)), assume_a="pos")
    np.testing.assert_array_equal(np.isnan(x).all((1, 2)), [False, True, False])
