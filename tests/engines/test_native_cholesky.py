"""The compiled sparse Cholesky against dense inverses, in four dtypes and any number of threads; what
it declines, and what is refused.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import native
from ldiv.engines.selected import fronts
from ldiv.engines.selected.fronts import Fronts

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")


def lattice(*sizes: int) -> Any:
    total: Any = sp.csc_array((1, 1))
    for k in sizes:
        line = sp.diags_array(
            [-np.ones(k - 1), np.full(k, 2.1), -np.ones(k - 1)], offsets=[-1, 0, 1]
        )
        total = sp.kronsum(total, line)
    return total


def arrow(n: int) -> Any:
    a = sp.lil_array((n, n))
    a[:, 0] = a[0, :] = 1.0
    a.setdiag(np.arange(n, 2.0 * n))
    return a


MATRICES = {
    "one": sp.eye_array(1) * 3,
    "diagonal": sp.diags_array(np.arange(1.0, 30)),
    "arrow": arrow(40),
    "plane": lattice(9, 8),
    "space": lattice(6, 5, 5),
    "dense": sp.coo_array(np.ones((70, 70)) + 20 * np.eye(70)),
    "parts": sp.block_diag([lattice(5, 5), arrow(6), sp.eye_array(3), lattice(4, 4, 3)]),
}


def definite(name: str, dtype: str) -> Any:
    """The matrix in compressed columns; a complex one is turned by phases."""
    a = sp.csc_array(MATRICES[name]).astype(dtype)
    if dtype[0] == "c":
        turn = sp.diags_array(np.exp(1j * np.arange(a.shape[0])).astype(dtype))
        a = sp.csc_array(turn @ a @ turn.conj())
        a = sp.csc_array((a + a.conj().T) / 2)
    a.sort_indices()
    return a


def fronts_of(a: Any) -> tuple[Fronts, Any, Any]:
    """The fronts, the values in the slots of M = P A P^H, and M itself."""
    entries = sp.coo_array(a)
    fronts = Fronts(Pattern(entries.row, entries.col, a.shape))
    m = sp.csc_array(a)[fronts.rows][:, fronts.cols]
    m.sort_indices()
    assert np.array_equal(m.indices, fronts.pattern.indices)
    return fronts, m.data, m.toarray()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_against_a_dense_inverse(name: str, dtype: str, threads: int) -> None:
    fronts, values, m = fronts_of(definite(name, dtype))
    n, eps = len(m), float(np.finfo(dtype).eps)
    exact = m.astype("complex128" if dtype[0] == "c" else "float64")
    inverse, size = np.linalg.inv(exact), 100 * eps * np.linalg.cond(exact)
    factor = fronts.compiled.factor(values, threads)
    assert abs(factor.log_det() - np.linalg.slogdet(exact)[1]) < size * n

    l = np.zeros_like(m)
    _, rows, cols = fronts.factor_entries
    l[rows, cols] = entries = np.empty(len(rows), dtype)
    factor.write(entries)
    l[rows, cols] = entries
    assert abs(l @ l.conj().T - m).max() < 100 * eps * abs(m).max()

    for k in (1, 3, 40):
        b = np.cos(np.arange(float(n * k))).reshape(n, k).astype(dtype)
        b = b + 1j * b[::-1] if dtype[0] == "c" else b
        for part, conjugated, matrix in (
            ("A", False, m), ("A", True, m.conj()), ("L", False, l), ("H", False, l.conj().T),
        ):  # fmt: skip
            x = b.copy()
            assert factor.solve(x, part, conjugated, threads)
            assert abs(matrix @ x - b).max() < size * abs(matrix).max() * abs(x).max()

    i, j = fronts.pattern.indices, fronts.pattern.columns
    found = np.empty_like(values)
    assert factor.inverse(found, threads)
    assert abs(found - inverse[j, i]).max() < size * abs(inverse).max()
    e = values * np.cos((i + 1.0) * (j + 1)).astype(values.real.dtype)
    assert factor.tangent(e, found, threads)
    dense = np.zeros_like(exact)
    dense[i, j] = e
    moved = -inverse @ dense @ inverse
    assert abs(found - moved[j, i]).max() < 10 * size * abs(inverse).max() ** 2 * abs(dense).max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_no_square_is_declined(dtype: str) -> None:
    """The factorization returns at most the number of a supernode with a bad pivot."""
    fronts, values, m = fronts_of(definite("space", dtype))
    at = np.flatnonzero(fronts.pattern.indices == fronts.pattern.columns)
    for number in (-1.0, 0.0, np.nan):
        for column in (0, len(m) // 2, len(m) - 1):
            changed = values.copy()
            changed[at[column]] = number
            for threads in (1, 3):
                assert isinstance(fronts.compiled.factor(changed, threads), int | None)


@pytest.mark.parametrize("power", [540, -540])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_units(dtype: str, power: int) -> None:
    a = definite("plane", dtype)
    b = np.cos(np.arange(float(a.shape[0])))
    scaled = sp.csc_array((a.data * 2.0**power, a.indices, a.indptr), a.shape)

    def asked(a: Any) -> tuple[Any, float, Any]:
        matrix = ldiv.asarray(a)
        x, info = ldiv.solve(matrix, b, assume_a="pos", info=True)
        assert info.engine == "cholesky"
        values = ldiv.inverse_diagonal(matrix, assume_a="pos")
        return x, float(ldiv.logdet(matrix, assume_a="pos")), values

    (x, size, z), (y, large, w) = asked(a), asked(scaled)
    np.testing.assert_allclose(y * 2.0**power, x, rtol=1e-13)
    np.testing.assert_allclose(w * 2.0**power, z, rtol=1e-13)
    np.testing.assert_allclose(large, size + a.shape[0] * power * np.log(2.0), rtol=1e-13)


def test_matrices_that_are_refused_are_refused_by_the_verdict() -> None:
    shifted = sp.csc_array(lattice(8, 8) - 3 * sp.eye_array(64))
    free = sp.csc_array(lattice(8, 8) - sp.diags_array(lattice(8, 8).sum(axis=1)))
    b = np.ones(64)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(ldiv.asarray(shifted), b, assume_a="pos")
    with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
        ldiv.solve(ldiv.asarray(free), b, assume_a="pos")


def test_wrong_arguments_are_refused() -> None:
    make = native.native.Fronts  # type: ignore[union-attr]
    starts, rows = np.array([0, 2, 4]), np.array([0, 1, 0, 1])
    one = np.arange(2)
    for wrong in (
        (starts[:2], rows, one),
        (np.array([0, 3, 4]), rows, one),
        (np.array([0, 5, 4]), rows, one),
        (starts, np.array([0, 2, 0, 1]), one),
        (starts, np.array([1, 0, 0, 1]), one),
        (np.array([0, 2, 3]), np.array([0, 1, 1]), one),
        (np.array([0, 1, 3]), np.array([0, 0, 1]), one),
        (starts, rows, np.array([0, 0])),
        (starts, rows, np.array([0, -1])),
        (starts, rows, np.arange(3)),
        (starts.astype(float), rows, one),
        (np.empty(0, int), rows, one),
    ):
        with pytest.raises(ValueError, match="expected"):
            make(*wrong)
    fronts = make(starts, rows, one)
    values = np.array([2.0, 1.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="located"):
        fronts.factor(values, 1)
    with pytest.raises(ValueError, match="permuted"):
        fronts.locate(np.array([0, 1]), np.array([0]))
    fronts = make(np.array([0, 1, 2]), one, one)
    with pytest.raises(ValueError, match="permuted"):
        fronts.locate(starts, rows)
    fronts = make(starts, rows, one)
    fronts.locate(starts, rows)
    for bad in (values[:3], values.astype(int)):
        with pytest.raises(ValueError, match="values"):
            fronts.factor(bad, 1)
    factor = fronts.factor(values, 1)
    for x in (np.ones(2), np.ones((3, 1)), np.ones((2, 1), "f")):
        with pytest.raises(ValueError, match="x"):
            factor.solve(x, "A", False, 1)
    with pytest.raises(ValueError, match="part"):
        factor.solve(np.ones((2, 1)), "Q", False, 1)
    with pytest.raises(ValueError, match="slots"):
        factor.inverse(np.empty(3), 1)
    with pytest.raises(ValueError, match="entries"):
        factor.write(np.empty(9))


def test_several_threads_of_python_share_a_factor() -> None:
    fronts, values, m = fronts_of(definite("space", "float64"))
    factor, inverse = fronts.compiled.factor(values, 2), np.linalg.inv(m)
    wrong: list[float] = []

    def work(k: int) -> None:
        for _ in range(5):
            x, z = np.eye(len(m), k), np.empty_like(values)
            accepted = factor.solve(x, "A", False, 2) and factor.inverse(z, 2)
            errors = (
                abs(x - inverse[:, :k]).max(),
                abs(z - inverse[fronts.pattern.columns, fronts.pattern.indices]).max(),
            )
            wrong.extend(e for e in errors if not accepted or e > 1e-12)

    workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 5, 9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_no_columns() -> None:
    fronts = Fronts(
        Pattern(np.empty(0, int), np.empty(0, int), (0, 0)), np.empty(0, int), np.empty(0, int)
    )
    factor = fronts.compiled.factor(np.empty(0), 2)
    assert factor.log_det() == 0 and factor.solve(np.empty((0, 3)), "A", False, 1)
    assert factor.inverse(np.empty(0), 1) and factor.tangent(np.empty(0), np.empty(0), 1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals here")
def test_ctrl_c_stops_a_factorization() -> None:
    """A full matrix is one front: there are looks between its blocks."""
    n = 2500
    starts = np.arange(0, n * n + 1, n)
    rows = np.tile(np.arange(n), n)
    fronts = native.native.Fronts(starts, rows, np.arange(n))  # type: ignore[union-attr]
    fronts.locate(starts, rows)
    values = (np.ones((n, n)) + n * np.eye(n)).ravel()

    def forever() -> None:
        while True:
            fronts.factor(values, 1)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            forever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert fronts.factor(values, 1).log_det() > 0


def test_of_two_orderings_the_better_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = sp.coo_array(lattice(12, 12, 12))  # of 1,728 rows
    pattern = Pattern(entries.row, entries.col, entries.shape)
    usual = fronts.Fronts(pattern).entries
    monkeypatch.setattr(fronts, "HARD", 0.0)
    assert fronts.Fronts(pattern).entries <= 1.05 * usual  # the better one by operations


def test_what_are_no_fronts_is_refused() -> None:
    index = np.arange(3, dtype=np.int32)
    for bad in (None, 1, index):
        with pytest.raises(TypeError, match="fronts"):
            native.native.SparseFronts("C", bad, index, index, index)
