"""The gradient check of the command line passes what is right, and nothing else, whatever the
scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import ldiv
from ldiv.cli import verify
from ldiv.matrices.matrix import as_matrix


def random_matrix(n: int = 30, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    a = sp.random_array((n, n), density=0.1, rng=rng) + 4 * sp.eye_array(n)
    return (
        (
            a + 0.5j * sp.random_array((n, n), density=0.1, rng=rng)
            if np.dtype(dtype).kind == "c"
            else a
        )
        .astype(dtype)
        .tocsr()
    )


@pytest.mark.parametrize(
    "promise", ["gen", "sym", "her", "pos", "lower triangular", "upper triangular"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("dense", [False, True])
def test_every_promise_and_dtype(promise: str, dtype: str, dense: bool) -> None:
    a = verify.PART[promise](random_matrix(dtype=dtype)).tocsr()
    A = as_matrix("A", a.toarray()) if dense else ldiv.asarray(a)
    found = verify.verify(A, None, promise, "auto")
    eps = np.finfo(dtype).eps
    assert found.failure is None
    assert found.dtype == dtype
    assert found.error < 1e4 * eps
    assert found.residual < 100 * eps
    assert found.allowed == pytest.approx(eps**0.5)
    exact = np.linalg.cond(a.toarray(), 1)
    assert exact / 10 < found.condition < 1.01 * exact


def test_scaling_excuses_nothing() -> None:
    """Rows and columns scaled by 10^-8 .. 10^8: cond(A) eps is far above 1, and still only
    rounding is allowed.
    """
    a, rng = random_matrix(), np.random.default_rng(1)
    scale = [sp.diags_array(10 ** rng.uniform(-8, 8, 30)) for _ in range(2)]
    found = verify.verify(ldiv.asarray((scale[0] @ a @ scale[1]).tocoo()), None, "gen", "auto")
    assert found.condition > 1e16
    assert found.error < 1e-10
    assert found.allowed < 1e-6


def test_stored_zeros_are_moved() -> None:
    a = sp.coo_array(([2.0, 3.0, 0.0], ([0, 1, 0], [0, 1, 1])), shape=(2, 2))
    assert verify._sizes(ldiv.asarray(a)).tolist() == [2.0, 3.0, 2.0]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_complex_step(dtype: str) -> None:
    """Against Re c^H A^-1 (db - dA x), written with dense inverses."""
    A, dA = (random_matrix(6, dtype, seed) for seed in (1, 2))
    b, db, c = (random_matrix(6, dtype, seed).toarray()[0] for seed in (3, 4, 5))
    inverse = np.linalg.inv(A.toarray())
    exact = (c.conj() @ inverse @ (db - dA @ (inverse @ b))).real
    assert verify.complex_step(A, dA, b, db, c) == pytest.approx(exact, rel=1e-11)


def test_work_is_done_once() -> None:
    """One analysis and one factorization for the check, one of each for the complex step."""
    ldiv.clear_cache()
    verify.verify(ldiv.asarray(random_matrix(17)), None, "gen", "auto")
    assert ldiv.cache_info().analyses == 2
    assert ldiv.cache_info().factorizations == 2


def spoilt(spoil: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[..., Any]:
    """A vjp whose cotangents of A and b are spoilt."""

    def vjp(*args: Any) -> Any:
        x, pullback = ldiv.vjp(*args)
        return x, lambda x_bar: spoil(*pullback(x_bar))

    return vjp


@pytest.mark.parametrize("promise", ["gen", "pos"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda A_bar, b_bar: (A_bar * (1 + 1e-6), b_bar),
        lambda A_bar, b_bar: (A_bar, b_bar * (1 - 1e-6)),
        lambda A_bar, b_bar: (-A_bar, b_bar),
        lambda A_bar, b_bar: (A_bar.with_data(A_bar.data.conj()), b_bar),
        lambda A_bar, b_bar: (A_bar.with_data(A_bar.data[::-1]), b_bar),
        lambda A_bar, b_bar: (A_bar, np.nan * b_bar),
    ],
    ids=["A off by a millionth", "b off by a millionth", "sign", "conjugate", "order", "nan"],
)
def test_wrong_gradients_are_seen(
    monkeypatch: pytest.MonkeyPatch, promise: str, spoil: Any
) -> None:
    A = ldiv.asarray(verify.PART[promise](random_matrix(dtype="complex128")))
    monkeypatch.setattr(verify, "vjp", spoilt(lambda *bars: bars))
    assert verify.verify(A, None, promise, "auto").failure is None
    monkeypatch.setattr(verify, "vjp", spoilt(spoil))
    assert "the gradient is off by" in str(verify.verify(A, None, promise, "auto").failure)


def test_a_symmetric_promise_needs_the_symmetric_cotangent(monkeypatch: pytest.MonkeyPatch) -> None:
    """-lam x^H in the place of its symmetric part is wrong, though both agree on symmetric
    directions.
    """
    A = ldiv.asarray(verify.PART["pos"](random_matrix()))
    monkeypatch.setattr(verify, "vjp", lambda f, A, b: ldiv.vjp(ldiv.solve, A, b))
    assert "the gradient is off by" in str(verify.verify(A, None, "pos", "auto").failure)


@pytest.mark.parametrize("n", [7, 8, 9, 10])
def test_what_is_allowed_follows_the_condition(n: int) -> None:
    """Hilbert matrices, of condition 1e9 to 4e13: nine tenths of the digits may go, and only
    those that must.
    """
    found = verify.verify(as_matrix("A", scipy.linalg.hilbert(n)), None, "gen", "auto")
    assert found.failure is None
    assert found.error < found.allowed < 10 * np.finfo(float).eps * found.condition


def test_a_check_that_says_nothing_fails() -> None:
    found = verify.verify(ldiv.asarray(random_matrix()), None, "gen", "auto")
    assert found.failure is None
    assert "no digit of it is certain" in str(replace(found, allowed=0.2).failure)
    assert replace(found, allowed=np.nan).failure
    assert replace(found, error=np.nan).failure


def test_what_an_error_looks_like_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    A = ldiv.asarray(random_matrix())
    monkeypatch.setattr(verify, "vjp", spoilt(lambda A_bar, b_bar: (-A_bar, -b_bar)))
    assert str(verify.verify(A, None, "gen", "auto").failure).endswith(
        "it looks like a wrong sign."
    )
