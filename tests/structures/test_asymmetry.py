"""A promise of symmetry is judged in units of each row and column, whatever the scales of the unknowns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.errors import NotSymmetricError
from ldiv.structures.asymmetry import refuse_asymmetry, refuse_slot_asymmetry

SPANS = {"float32": 15, "float64": 120, "complex64": 15, "complex128": 120}


def graded(dtype: str, seed: int, *, of: Any = lambda b: b) -> tuple[Any, Any]:
    """(D `of`(B) D, d), B with another sign below its diagonal, d of all exponents of the dtype."""
    rng, n = np.random.default_rng(seed), 2 + seed % 6
    b = rng.uniform(1, 2, (n, n)) * np.where(np.tri(n, k=-1), -1, 1)
    if np.dtype(dtype).kind == "c":
        b = b * np.exp(0.3j * rng.standard_normal((n, n)))
    d = 10.0 ** rng.uniform(-SPANS[dtype], SPANS[dtype], n)
    return (d[:, None] * of(b) * d).astype(dtype), d


def mirrored(a: Any, op: str) -> Any:
    return a.conj().T if op == "H" else a.T


def judge(a: Any, op: str) -> None:
    """Judge by both storages."""
    refuse_asymmetry(a, mirrored(a, op), op)
    n = len(a)
    pattern = Pattern(np.tile(np.arange(n), n), np.repeat(np.arange(n), n), a.shape)
    refuse_slot_asymmetry(pattern, a.T.ravel(), mirrored(a, op).T.ravel(), op)


@pytest.mark.parametrize("op", ["T", "H"])
@pytest.mark.parametrize("dtype", SPANS)
def test_graded_matrices(dtype: str, op: str) -> None:
    for seed in range(60):
        a, _ = graded(dtype, seed)
        with pytest.raises(NotSymmetricError):
            judge(a, op)
        a, d = graded(dtype, seed, of=lambda b: b + mirrored(b, op))
        judge(a, op)
        noise = np.random.default_rng(seed).standard_normal(a.shape) * np.finfo(dtype).eps
        judge((a + 10 * d[:, None] * noise * d).astype(dtype), op)


def test_rows_without_entries_and_no_rows() -> None:
    a = np.zeros((4, 4))
    judge(a, "T")
    a[0, 2], a[2, 0] = 1e-300, 1e-300 * (1 + 1e-12)
    judge(a, "T")
    a[0, 2] = 2e-300
    with pytest.raises(NotSymmetricError):
        judge(a, "T")
    refuse_asymmetry(np.zeros((3, 0, 0)), np.zeros((3, 0, 0)), "T")


def test_one_of_a_batch() -> None:
    a = np.stack([graded("float64", seed, of=lambda b: b + b.T)[0] for seed in (4, 10, 16)])
    refuse_asymmetry(a, a.mT, "T")
    a[1] = graded("float64", 10)[0]
    with pytest.raises(NotSymmetricError):
        refuse_asymmetry(a, a.mT, "T")


@pytest.mark.parametrize("sparse", [False, True])
def test_a_false_promise_is_found_by_a_solve(sparse: bool) -> None:
    """The pair (1, 2) looked like rounding in the units of the largest entries of rows 0 and 1."""
    a = np.array([[3e24, 1.0], [2.0, 3e-24]])
    for promise in ("sym", "her", "pos"):
        with pytest.raises(NotSymmetricError):
            ldiv.solve(sp.csr_array(a) if sparse else a, np.ones(2), assume_a=promise)


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e24, 1e60, 1e-8, 1e-24, 1e-60])
@pytest.mark.parametrize("sparse", [False, True])
def test_an_entry_that_is_all_a_row_has(sparse: bool, scale: float) -> None:
    """Nothing beside the entries of the other row, and as large as any of its own: the solution
    depends on it. A step of differences is not.
    """
    rng = np.random.default_rng(0)
    for n, step in ((2, 1e-6), (5, 1e-7)):
        b = rng.uniform(1, 2, (n, n)) + 4 * n * np.eye(n)
        d = np.where(np.arange(n) < n // 2, 1.0, scale)
        a, keep = np.minimum(d[:, None], d) * (b + b.T), np.tri(n) + 0.0
        for wrong in (a * keep, a.T * keep.T, d[:, None] * b if scale != 1 else a * keep):
            given = sp.csr_array(wrong) if sparse else wrong
            for promise in ("sym", "pos"):
                with pytest.raises(NotSymmetricError):
                    ldiv.solve(given, np.ones(n), assume_a=promise)
        x = ldiv.solve(a, np.ones(n), assume_a="pos")
        a[0, -1] *= 1 + 1e-5
        a[-1, 0] += step * min(1.0, scale)
        given = sp.csr_array(a) if sparse else a
        np.testing.assert_allclose(ldiv.solve(given, np.ones(n), assume_a="pos"), x, rtol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", [1e-170, 1e-300, 1e156, 1e300])
def test_complex_entries_whose_squares_are_0_or_infinite(sparse: bool, scale: float) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((6, 6)) + 1j * rng.standard_normal((6, 6))
    a += a.conj().T + 20 * np.eye(6)
    b, array = scale * np.ones(6), ldiv.asarray if sparse else np.asarray
    right = array((sp.csc_array if sparse else np.asarray)(scale * a))
    for assume_a in ("her", "pos"):
        np.testing.assert_allclose(a @ ldiv.solve(right, b, assume_a=assume_a), 1, rtol=1e-12)
    a[0, 1] *= 1.5
    wrong = array((sp.csc_array if sparse else np.asarray)(scale * a))
    for assume_a in ("her", "pos"):
        with pytest.raises(NotSymmetricError):
            ldiv.solve(wrong, b, assume_a=assume_a)
        with pytest.raises(NotSymmetricError):
            ldiv.slogdet(wrong, assume_a=assume_a)


def test_pencils_have_units_in_each_row() -> None:
    k, m = np.array([[3e16, 1.0], [2.0, 3e-16]]), np.diag([1e16, 1e-16])
    with pytest.raises(NotSymmetricError):
        ldiv.eigh(k, m)
    with pytest.raises(NotSymmetricError):
        ldiv.eigh(np.eye(2), k)
    k[1, 0] = 1.0
    np.testing.assert_allclose(ldiv.eigh(k, m, eigvals_only=True), [2.0, 4.0], rtol=1e-12)


def test_where_values_are_traced() -> None:
    jax = pytest.importorskip("jax")
    solve = jax.jit(lambda a: ldiv.solve(a, jax.numpy.ones(2), assume_a="sym"))
    a = jax.numpy.asarray([[3e8, 1.0], [1.0, 3e-8]], dtype="float32")
    assert np.isfinite(solve(a)).all()
    with pytest.raises(Exception, match="symmetric"):
        jax.block_until_ready(solve(a.at[0, 1].set(2.0)))
