"""The compiled part accepts or declines: the careful way accepts what it accepts, and the answers
differ by rounding; after a declined call results are those without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
from adversarial import native_fuzz, xla_fuzz

import ldiv
from ldiv.engines.factors import doubled
from ldiv.engines.libraries import native
from ldiv.structures.dense import dense

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "gen": ldiv.solve,
    "T": lambda a, b: ldiv.solve(a, b, trans="T"),
    "H": lambda a, b: ldiv.solve(a, b, trans="H"),
    "pos": lambda a, b: ldiv.solve(a, b, assume_a="pos"),
    "inv": lambda a, b: ldiv.inv(a),
    "logdet pos": lambda a, b: ldiv.logdet(a, assume_a="pos"),
    "slogdet": lambda a, b: np.array(ldiv.slogdet(a)),
    "lower": lambda a, b: ldiv.solve_triangular(a, b, lower=True),
    "upper H": lambda a, b: ldiv.solve_triangular(a, b, trans="H"),
    "unit T": lambda a, b: ldiv.solve_triangular(a / 9, b, trans="T", unit_diagonal=True),
    "cholesky": lambda a, b: ldiv.cholesky(a),
    "lu": lambda a, b: ldiv.lu_factor(a)[0],
    "exchanges": lambda a, b: ldiv.lu_factor(a[..., ::-1])[1],
    "permuted": lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a[..., ::-1]), b),
    "lower gradient": lambda a, b: ldiv.vjp(
        lambda a, b: ldiv.solve_triangular(a, b, lower=True), a, b
    )[1](b)[0],
    "cholesky gradient": lambda a, b: ldiv.vjp(ldiv.cholesky, a)[1](a)[0],
    "divergence": lambda a, b: ldiv.gaussian_kl(np.tril(a), ldiv.cholesky(a)),
    "divergence gradient": lambda a, b: np.array(
        ldiv.vjp(ldiv.gaussian_kl, np.tril(a), ldiv.cholesky(a))[1](
            np.ones(a.shape[:-2], b.real.dtype)
        )
    ),
    "gradient": lambda a, b: ldiv.vjp(ldiv.solve, a, b)[1](b)[0],
}


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """f(*args) as if nothing were compiled."""

    def call(f: Callable[..., Any], *args: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(native, "native", None)
            return f(*args)

    return call


def drawn(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def definite(dtype: str, *shape: int) -> Any:
    a = drawn(dtype, *shape)
    a = a @ a.conj().mT  # Hermitian up to rounding
    return (a + a.conj().mT) / 2 + shape[-1] * np.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_both_ways_agree(name: str, batch: tuple[int, ...], dtype: str, careful: Any) -> None:
    for n, k in ((1, 1), (5, 2), (40, 1)):
        a, b = definite(dtype, *batch, n, n), drawn(dtype, *batch, n, k)
        for x in (np.ascontiguousarray(a), a.mT.copy().mT):
            found, expected = CALLS[name](x, b), careful(CALLS[name], x, b)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            np.testing.assert_allclose(
                found, expected, rtol=0, atol=1e4 * np.finfo(dtype).eps * np.abs(expected).max()
            )


@compiled
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_easy_is_accepted(dtype: str, careful: Any, monkeypatch: Any) -> None:
    from ldiv.engines.accuracy import accepted

    def refuse(*_: Any) -> Any:
        raise AssertionError("declined")

    monkeypatch.setattr(accepted.Accepted, "_careful", property(refuse))
    for n in (1, 2, 3, 8, 30, 100):
        a, b = definite(dtype, n, n), drawn(dtype, n, 1)
        for kind in (accepted.LU, accepted.CHOLESKY):
            factor = accepted.accepted(kind, a, refuse)  # type: ignore[arg-type]
            for op in "NTH":
                factor.solve(b, op)
            factor.slogdet(), factor.inverse(a)


@compiled
def test_declines() -> None:
    assert native.native is not None
    good = np.eye(3) + 0.1
    bad = {
        "NaN": np.where(np.eye(3) > 0, np.nan, good),
        "infinite": np.where(np.eye(3) > 0, np.inf, good),
        "singular": np.ones((3, 3)),
        "nearly singular": np.ones((3, 3)) + 1e-13 * np.eye(3),
        "zero": np.zeros((3, 3)),
        "without units": np.triu(np.ones((3, 3))) * [[0, 1, 1], [1, 1, 1], [1, 1, 1]],
        "one of a batch": np.stack([good, np.ones((3, 3))]),
    }
    for name, a in bad.items():
        assert native.native.factor(a, "L", 1)[0] is None, name
    assert native.native.factor(-good, "C", 1)[0] is None
    factor, _ = native.native.factor(good, "L", 1)
    for b in (np.full((3, 1), np.nan), np.full((3, 1), np.inf)):
        assert not factor.solve(b, np.empty((3, 1)), "N", 1)


@compiled
def test_divergences_that_are_declined() -> None:
    """All that the careful way refuses, scales or reads otherwise, in either factor."""
    good = np.tril(np.ones((2, 3, 3))) + np.eye(3)
    bad = {
        "NaN": np.tril(np.full((3, 3), np.nan)),
        "an infinite pivot": np.diag([1, np.inf, 1]),
        "a zero pivot": np.diag([1.0, 0, 1]),
        "a pivot without a reciprocal": np.diag([1, 1e-310, 1]),
        "small": good[0] * 1e-60,
        "large": good[0] * 1e60,
        "a covariance": good[0] @ good[0].T,
        "an upper factor": good[0].T,
    }

    def accepted(L1: Any, L2: Any) -> bool:
        d, x = np.empty(2), np.empty((2, 3, 3))
        found: bool = native.native.divergence(L1, L2, d, x, 1)  # type: ignore[union-attr]
        return found

    assert accepted(good, 2 * good)
    for name, L in bad.items():
        other = np.stack([good[0], L])
        assert not accepted(good, other) and not accepted(other, good), name


@compiled
def test_units_of_rows_and_columns_change_no_digit() -> None:
    """R A C, with units that are powers of two."""
    assert native.native is not None
    a, b = drawn("float64", 6, 6), drawn("float64", 6, 1)
    rows, columns = 2.0 ** np.random.default_rng(0).integers(-200, 200, (2, 6))
    found = []
    for m, right in ((a, b), (rows[:, None] * a * columns, rows[:, None] * b)):
        factor, _ = native.native.factor(m, "L", 1)
        x, size, inverse = np.empty_like(b), np.empty(()), np.empty_like(a)
        assert factor.solve(right, x, "N", 1) and factor.inverse(inverse, 1)
        assert factor.slogdet(np.empty(()), size)
        found.append((x, inverse, size))
    (x, inverse, size), (y, other, whole) = found
    np.testing.assert_allclose(columns[:, None] * y, x, rtol=1e-13)
    np.testing.assert_allclose(columns[:, None] * other * rows, inverse, rtol=1e-13)
    np.testing.assert_allclose(whole - np.log(rows).sum() - np.log(columns).sum(), size)


@compiled
@pytest.mark.parametrize("power", [900, 101, -340, -900])
@pytest.mark.parametrize("kind", ["L", "C"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_units_change_no_digit(dtype: str, kind: str, power: int) -> None:
    """The bits of x are those of moderate numbers, for odd powers only up to the root of two in L."""
    assert native.native is not None
    a, b = definite(dtype, 5, 5), drawn(dtype, 5, 2)

    def solved(a: Any, b: Any) -> Any:
        factor, x, inverse = native.native.factor(a, kind, 1)[0], np.empty_like(b), np.empty_like(a)  # type: ignore[attr-defined]
        assert factor.solve(b, x, "H", 1)
        assert factor.inverse(inverse, 1)
        return x, inverse

    (x, inverse), (y, same) = solved(a, b), solved(a * 2.0**power, b)
    rtol = 0 if kind == "L" or power % 2 == 0 else 1e-14
    np.testing.assert_allclose(y * 2.0**power, x, rtol=rtol)
    np.testing.assert_allclose(same * 2.0**power, inverse, rtol=rtol)
    np.testing.assert_array_equal(solved(a, b * 2.0**power)[0], x * 2.0**power)


@compiled
def test_live_factors_are_found_by_their_values() -> None:
    """Few or many, in whatever order they go; none of another kind, or of values that differ late."""
    rng, a = np.random.default_rng(0), definite("float64", 12, 3, 3)
    find = native.native.factor  # type: ignore[union-attr]
    kept = {i: find(a[i], "L", 1)[0] for i in range(12)}
    assert not find(a[0], "C", 1)[1]
    assert not find(a[:1], "L", 1)[1]
    late = a[0].copy()
    late[2, 2] *= 2
    assert not find(late, "L", 1)[1]
    for i in rng.permutation(12):
        for j, factor in kept.items():
            found, again = find(a[j].copy(), "L", 1)
            assert again and found is factor
        found = factor = None
        del kept[int(i)]
        assert not find(a[i], "L", 1)[1]


@compiled
def test_wrong_arguments_are_refused() -> None:
    assert native.native is not None
    factor, _ = native.native.factor(np.eye(3), "L", 1)
    good, x = np.ones((3, 1)), np.empty((3, 1))
    for a in (
        np.eye(3, dtype=int),
        np.ones((2, 3)),
        np.ones(3),
        np.ones((0, 0)),
        np.eye(3)[:, ::2],
    ):
        with pytest.raises((ValueError, BufferError)):
            native.native.factor(a, "L", 1)
    with pytest.raises(ValueError, match="LCH"):
        native.native.factor(np.eye(3), "Q", 1)
    for b, y, op in (
        (np.ones((4, 1)), np.empty((4, 1)), "N"),
        (good, np.empty((3, 2)), "N"),
        (np.ones((1, 3)), np.empty((1, 3)), "N"),
        (good.astype("f"), x.astype("f"), "N"),
        (good, x, "C"),
        (good, x, ""),
        (np.ones((2, 3, 1)), np.empty((2, 3, 1)), "N"),
    ):
        with pytest.raises(ValueError, match=r"b, x|NTH"):
            factor.solve(b, y, op, 1)
    frozen = np.empty((3, 1))
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        factor.solve(good, frozen, "N", 1)
    with pytest.raises(ValueError, match="sign"):
        factor.slogdet(np.empty(2), np.empty(2))
    with pytest.raises(ValueError, match="x"):
        factor.inverse(np.empty((2, 2)), 1)
    with pytest.raises(TypeError):
        native.native.factor([[1.0]], "L", 1)


@compiled
def test_threads() -> None:
    """Several in one call, and several calls at once, with one factor."""
    assert native.native is not None
    a, b = definite("float64", 40, 6, 6), drawn("float64", 40, 6, 2)
    expected = np.linalg.solve(a, b)
    factor, _ = native.native.factor(a, "L", 3)
    wrong = []

    def work(threads: int) -> None:
        x = np.empty_like(b)
        for _ in range(50):
            accepted = factor.solve(b, x, "N", threads)
            wrong.extend([] if accepted and np.allclose(x, expected) else [threads])

    workers = [Thread(target=work, args=(k,)) for k in (1, 2, 5, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@compiled
def test_blocks_that_are_used_again() -> None:
    """Factors of many sizes, some let go of, some kept: each has numbers of its own."""
    rng, kept = np.random.default_rng(0), []
    for i in range(24):
        n = int(rng.choice([130, 181, 200, 256, 300]))
        a, b = rng.standard_normal((n, n)) + 4 * n**0.5 * np.eye(n), rng.standard_normal(n)
        kept.append((ldiv.factorized(a), a, b))
        if len(kept) > 3:
            kept.pop(int(rng.integers(4)))
        if i == 12:
            ldiv.clear_cache()
        for factors, matrix, right in kept:
            assert np.allclose(matrix @ factors.solve(right), right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_residuals_have_more_digits_than_their_numbers(dtype: str) -> None:
    """Also without the compiled part: for integers the residual is exact, though its terms are large."""
    rng, size = np.random.default_rng(0), 2.0 ** (np.finfo(dtype).nmant // 2)
    a, x = (np.rint(size * rng.standard_normal((3, *shape))) for shape in ((6, 5), (5, 2)))
    if np.dtype(dtype).kind == "c":
        a, x = a * (1 + 2j), x * (3 - 1j)
    if np.dtype(dtype).char in "dD" and np.finfo(np.longdouble).nmant == np.finfo("d").nmant:
        pytest.skip("no more digits on this machine")
    b = (a @ x).astype(dtype)
    whole = [np.vectorize(int)(y) for y in (a.real, a.imag, x.real, x.imag, b.real, b.imag)]
    ar, ai, xr, xi, br, bi = [y.astype(object) for y in whole]
    right = (br - (ar @ xr - ai @ xi)).astype(float), (bi - (ar @ xi + ai @ xr)).astype(float)
    found = doubled.residual(dense(6, 5), *[y.astype(dtype) for y in (a, x, b)])
    assert (found.real == right[0]).all() and (found.imag == right[1]).all()


@compiled
def test_broken_calls_are_refused() -> None:
    """The calls run in this process; `make native-asan` makes more of them, and sees what they read
    and write.
    """
    came = native_fuzz.run(native_fuzz.record(), 0, 2000)
    assert min(came[what] for what in ("answered", "declined", "refused")) > 20
    came = xla_fuzz.run(xla_fuzz.record(), 0, 500)
    assert min(came[what] for what in ("answered", "refused")) > 50


def test_it_is_switched_off() -> None:
    code = "from ldiv.engines.libraries import native; print(native.native, native.why_not)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LDIV_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "None switched off by LDIV_NATIVE=0"
