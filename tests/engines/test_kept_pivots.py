"""A factor by the pivots of the one before is as accurate as one with pivots of its own, or is not used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.rules.structure import view_dense
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.direct import lu
from ldiv.engines.factors import analyses
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.libraries import native

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Start anew, without factors of other tests."""
    analyses.forget()
    yield
    analyses.forget()


def network(n: int = 60, seed: int = 0) -> Any:
    """A sparse matrix without structure, dominated by a cycle off the diagonal."""
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=3 / n, rng=rng, format="lil")
    a.setdiag(rng.random(n) + 2)
    a[np.arange(n), (np.arange(n) + 1) % n] = 1.0
    return sp.csc_array(a)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each factor was made by pivots that had been kept, in the end."""
    used: list[bool] = []
    compiled = sparse_checked.SparseLu.accepted

    def counted(*args: Any, **options: Any) -> Any:
        made, again = compiled(*args, **options)
        if not again:
            used.append(made is not None and made.reused_pivots == made.count)
        return made, again

    monkeypatch.setattr(sparse_checked.SparseLu, "accepted", counted)
    return used


def error(a: Any, x: Any, b: Any) -> float:
    """The backward error."""
    r = np.abs(a @ x - b).max()
    return float(r / (np.abs(a).sum(1).max() * np.abs(x).max() + np.abs(b).max()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_loop_keeps_its_pivots_and_its_accuracy(dtype: str, taken: list[bool]) -> None:
    a, rng = network(), np.random.default_rng(1)
    A = ldiv.asarray(a)
    for i in range(40):
        values = (a.data * (1 + 0.5 * rng.random(a.nnz))).astype(dtype)
        if dtype[0] == "c":
            values = values * np.exp(0.3j * rng.random(a.nnz)).astype(dtype)
        values = values * values.dtype.type(2.0 ** (i // 8))  # the scales drift away
        dense, b = sp.csc_array((values, a.indices, a.indptr)).toarray(), rng.random(60)
        M = A.with_data(values)
        for op in "NTH":
            x = ldiv.solve(M, b.astype(dtype), method="lu", trans=op)
            assert error(view_dense(dense, op), x, b) < 10 * np.finfo(dtype).eps
        expected = np.linalg.slogdet(dense.astype(complex))[1]
        found = ldiv.factorized(M, method="lu").logabsdet()
        assert abs(found - expected) < 1e3 * np.finfo(dtype).eps * abs(expected)
    assert sum(taken) > 0.9 * len(taken) > 35


def test_pivots_that_have_become_bad_are_given_up(taken: list[bool]) -> None:
    """Large numbers leave the diagonal: its entries are bad pivots now, which nobody says."""
    a, rng = network(), np.random.default_rng(2)
    A, on_diagonal = ldiv.asarray(a), sp.coo_array(a).row == sp.coo_array(a).col
    for exponent in (0, 2, 5, 9, 13, 17, 30, 0, 30, 8):
        values = a.data * (1 + rng.random(a.nnz)) * np.where(on_diagonal, 10.0**-exponent, 1)
        dense, b = sp.csc_array((values, a.indices, a.indptr)).toarray(), rng.random(60)
        if np.linalg.cond(dense) > 1e12:
            continue
        assert error(dense, ldiv.solve(A.with_data(values), b), b) < 1e-14
    assert not all(taken)


def test_singular_and_infinite_values_between_others_are_refused() -> None:
    a, b = network(), np.ones(60)
    A, values = ldiv.asarray(a), a.data
    column = np.repeat(np.arange(60), np.diff(a.indptr))
    singular = np.where(column == 7, 0.0, values)
    for _ in range(3):
        assert error(a, ldiv.solve(A, b, method="lu"), b) < 1e-14
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(A.with_data(singular), b, method="lu")
        with pytest.raises(ValueError, match="finite"):
            ldiv.solve(A.with_data(np.where(column == 7, np.nan, values)), b, method="lu")
    laplacian = sp.csc_array(
        sp.diags_array([-np.ones(49), 2 * np.ones(50), -np.ones(49)], offsets=[-1, 0, 1])
    )
    L, loose = ldiv.asarray(laplacian), laplacian.copy()
    loose[0, 0] = loose[49, 49] = 1.0
    for _ in range(3):
        ldiv.solve(L, np.ones(50), method="lu")
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(L.with_data(loose.data), np.ones(50), method="lu")


def test_a_living_factor_shares_its_numbers_with_nobody() -> None:
    a, b = network(), np.ones((60, 1))
    structure = ldiv.asarray(a).structure
    made = [factorize_by(lu, structure, s * a.data, "gen") for s in (1.0, 2.0)]
    del made[0]
    made += [factorize_by(lu, structure, s * a.data, "gen") for s in (3.0, 4.0, 5.0)]
    for s, factor in zip((2.0, 3.0, 4.0, 5.0), made, strict=True):
        np.testing.assert_allclose(s * (a @ factor.solve(b, "N")), b, atol=1e-12)


def test_threads_take_turns() -> None:
    a, b = network(), np.ones(60)
    A = ldiv.asarray(a)

    def loop(seed: int) -> float:
        rng, worst = np.random.default_rng(seed), 0.0
        for _ in range(30):
            values = a.data * (1 + rng.random(a.nnz))
            x = ldiv.solve(A.with_data(values), b, method="lu")
            worst = max(worst, error(sp.csc_array((values, a.indices, a.indptr)), x, b))
        return worst

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(loop, range(4))) < 1e-14


def test_random_matrices_of_one_pattern_one_after_the_other() -> None:
    """The values have nothing to do with those before."""
    a, rng = network(30, 3), np.random.default_rng(4)
    A = ldiv.asarray(a)
    for _ in range(100):
        values = rng.standard_normal(a.nnz) * 10.0 ** rng.uniform(-3, 3, a.nnz)
        dense, b = sp.csc_array((values, a.indices, a.indptr)).toarray(), rng.random(30)
        scaled = dense / np.abs(dense).max(1, keepdims=True)
        if np.linalg.cond(scaled) < 1e10:
            x = ldiv.solve(A.with_data(values), b, method="auto")
            assert error(scaled, x, b / np.abs(dense).max(1)) < 1e-13
