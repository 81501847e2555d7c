"""The time of a sparse factorization, before it: `explain` tells it, and a warning if it is long."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.libraries import work
from ldiv.engines.libraries.native import native

pytestmark = pytest.mark.skipif(native is None, reason="fill is counted by compiled code")


def network(n: int) -> Any:
    rng = np.random.default_rng(n)
    edges = rng.integers(0, n, (2, 3 * n))
    W = sp.coo_array((np.ones(3 * n), tuple(edges)), shape=(n, n)).tocsr()
    W = W + W.T
    return sp.csc_array(sp.diags_array(W.sum(1) + 0.1) - W)


def test_fill_and_operations_are_those_of_a_factor() -> None:
    A = network(300)
    why = ldiv.explain(A, assume_a="pos")
    assert why.fill is not None and why.operations is not None
    L = np.linalg.cholesky(A.toarray())
    assert A.nnz / 2 < why.fill < np.count_nonzero(L)  # of an order that is worse
    assert (
        why.fill**2 / 300 <= why.operations <= (2 * why.fill) ** 1.5
    )  # alike columns; one triangle


@pytest.mark.parametrize("assume_a", ["gen", "pos", "sym"])
def test_explain_tells_the_seconds_of_those_that_could(assume_a: Any) -> None:
    why = ldiv.explain(network(2500), assume_a=assume_a)
    able = {name for name, answer in why.answers.items() if answer in ("taken", "could, too")}
    assert set(why.seconds) == able & set(work.OF_ENGINES)
    assert all(0.01 < s < 5 for s in why.seconds.values())
    assert f"{why.engine}" in str(why) and ", in about" in str(why) and str(why.fill) in str(why)


def test_other_matrices_have_none() -> None:
    for A in (np.eye(3), ldiv.asarray(sp.csc_array((0, 0))), ldiv.toeplitz(np.r_[2.0, 1.0, 0.0])):
        why = ldiv.explain(A)
        assert why.fill is why.operations is None and not why.seconds


@pytest.mark.parametrize(
    ("method", "assume_a"),
    [("auto", "gen"), ("pardiso", "gen"), ("cholesky", "pos"), ("ldl", "sym")],
)
def test_a_long_factorization_is_told_once(
    method: str, assume_a: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, b = network(1501), np.ones(1501)
    why = ldiv.explain(A, assume_a=assume_a)
    if method not in ("auto", *why.seconds):
        pytest.skip(f"{method} cannot")
    expected = ldiv.solve(A, b, assume_a=assume_a, method=method)  # says nothing: it is short
    ldiv.clear_cache()
    monkeypatch.setattr(work, "LONG", 1e-3)
    if method == "auto" and why.engine in ("lu", "superlu"):
        pytest.skip("no engine that counts beforehand")
    with pytest.warns(UserWarning, match=r"fill in.*M=ldiv.spilu\(A\)"):
        x = ldiv.solve(A, b, assume_a=assume_a, method=method)
    assert (x == expected).all()  # a warning changes nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ldiv.solve(A, 2 * b, assume_a=assume_a, method=method)


def test_the_advice_serves() -> None:
    A, b = network(3000), np.ones(3000)
    x = ldiv.solve(A, b, method="gmres", M=ldiv.spilu(A), rtol=1e-12)
    y = ldiv.solve(A, b, method="cg", assume_a="pos", M="jacobi", rtol=1e-12)
    assert np.abs(A @ x - b).max() < 1e-8 and np.abs(A @ y - b).max() < 1e-8
