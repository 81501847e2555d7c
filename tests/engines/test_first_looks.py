"""Cheap looks, which spare longer ones, never see less: growth, balance, largest numbers, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.engines.accuracy import dense_matrix, singularity_check
from ldiv.engines.accuracy.limits import BALANCED, SUSPICIOUS
from ldiv.engines.accuracy.verifiable import FEW, largest
from ldiv.engines.direct import lapack
from ldiv.engines.factors.cache import fingerprint

DTYPES = ["float32", "float64", "complex64", "complex128"]


def drawn(rng: Any, dtype: str, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, FEW, FEW + 1])
def test_the_largest_number_is_found_wherever_it_is(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    for x in (drawn(rng, dtype, count, 1), drawn(rng, dtype, count, 2)[:, :1]):
        assert largest(x) == pytest.approx(float(np.abs(x).max()), rel=1e-6)
        for bad in (np.nan, np.inf):
            y = x.copy()
            y.flat[-1] = bad
            np.testing.assert_equal(largest(y), bad)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_lapack_shows_to_be_balanced_is(dtype: str) -> None:
    rng, shown = np.random.default_rng(0), 0
    for spread in range(12):
        for n in (1, 2, 5, 40):
            a = drawn(rng, dtype, n, n) * 2.0 ** rng.integers(-spread, spread + 1, (n, n))
            most = dense_matrix._largest_if_balanced(a.astype(dtype))
            if most is None:
                continue
            shown += 1
            maxima = np.concatenate([np.abs(a).max(0), np.abs(a).max(1)])
            # LAPACK measures complex numbers by the sum of their parts
            assert maxima.min() >= BALANCED / 2 * maxima.max()
            assert most >= maxima.max() * (1 - 1e-6)
    assert shown > 4
    for a in (np.zeros((3, 3)), np.diag([1.0, 0.0]), np.diag([1.0, 1e-3]), 1e20 * np.eye(2)):
        assert dense_matrix._largest_if_balanced(a.astype(dtype)) is None
    assert dense_matrix._largest_if_balanced(np.ones((2, 3, 3))) is None  # a batch
    assert dense_matrix._largest_if_balanced(np.eye(dense_matrix.FEW + 1)) is None


def test_calm_means_little_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix at which there is no second look has a probe that grows less than is suspicious."""
    rng, looks, calm = np.random.default_rng(1), [], 0
    once = singularity_check._require_nonsingular
    monkeypatch.setattr(
        singularity_check, "_require_nonsingular", lambda *args: looks.append(once(*args))
    )
    for n in (2, 6, 30):
        for exponent in range(0, 14, 2):
            u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
            a = u * np.logspace(0, -exponent, n) @ v
            looks.clear()
            m, z = dense_matrix.DenseMatrix(a, float(np.abs(a).max())), rng.standard_normal((n, 1))
            singularity_check.first_solve("LAPACK", m, lapack.lu(a), z, "N")
            if not looks:
                calm += 1
                z = singularity_check.direction(n)
                growth = np.abs(np.abs(a) @ np.abs(np.linalg.solve(a, z))).sum() / np.abs(z).sum()
                assert growth * np.finfo(float).eps < SUSPICIOUS
    assert calm > 9


def test_singular_matrices_of_every_size_are_refused() -> None:
    rng = np.random.default_rng(2)
    for n in (2, 3, 8, 40, 64):
        for _ in range(20):
            a = rng.standard_normal((n, n - 1)) @ rng.standard_normal((n - 1, n))
            with pytest.raises(ldiv.SingularMatrixError):
                ldiv.solve(a, rng.standard_normal(n))
            s = ldiv.asarray(a * (rng.random((n, n)) < 2))  # a sparse array of the same numbers
            with pytest.raises(ldiv.SingularMatrixError):
                ldiv.solve(s, rng.standard_normal(n))


def test_fingerprints_of_few_numbers_are_their_bytes() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert fingerprint(a) == fingerprint(np.asfortranarray(a)) != fingerprint(a.T.copy())
    assert fingerprint(a) != fingerprint(a + 1e-15)
    with pytest.raises(ValueError, match="finite"):
        fingerprint(np.array([1.0, np.inf]))
