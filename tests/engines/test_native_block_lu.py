"""The compiled A = L D U by blocks against dense inverses, in four dtypes and any number of threads;
what it declines, and what is refused.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import view_dense
from ldiv.engines.libraries import native
from ldiv.engines.selected.compiled import CompiledBlockLu
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import SingularMatrixError

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")


def scattered(n: int) -> Any:
    """A random pattern without symmetry; the diagonal is weak enough that rows are exchanged."""
    rng = np.random.default_rng(n)
    a = sp.random_array((n, n), density=4 / n, rng=rng, data_sampler=rng.standard_normal)
    strong = np.where(np.arange(n) % 3 == 0, 0.1, 3.0)
    return a + sp.diags_array(strong) + sp.eye_array(n, k=1)


def shared(size: int) -> Any:
    """Two dense parts that meet in a third: fronts of many columns and many rows below."""
    rng = np.random.default_rng(size)
    part, none = np.ones((size, size)), np.zeros((size, size))
    pattern = np.block([[part, none, part], [none, part, part], [part, part, part]])
    return sp.coo_array(pattern * (rng.standard_normal(pattern.shape) + 20 * np.eye(3 * size)))


MATRICES = {
    "one": sp.coo_array([[-3.0]]),
    "indefinite": sp.diags_array([np.ones(20), 0.3 * np.ones(21), np.ones(20)], offsets=[-1, 0, 1]),
    "triangle": sp.coo_array(np.triu(np.ones((12, 12))) + np.eye(12)),
    "scattered": scattered(90),
    "wide": shared(60),
    "dense": sp.coo_array(np.random.default_rng(0).standard_normal((70, 70))),
}


def arranged(name: str, dtype: str) -> tuple[Fronts, Any, Any]:
    """The fronts, the values in the slots of M = P A P^T, and M itself."""
    a = sp.coo_array(MATRICES[name]).astype(dtype)
    if dtype[0] == "c":
        a.data = a.data * np.exp(1j * np.arange(a.nnz)).astype(dtype)
    pattern = Pattern(a.row, a.col, a.shape)
    fronts = Fronts(pattern)
    values = fronts.arranged(pattern.slot_values(a.data))
    return fronts, values, fronts.pattern.csc(values).toarray()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_against_a_dense_inverse(name: str, dtype: str, threads: int) -> None:
    fronts, values, m = arranged(name, dtype)
    exact = m.astype("complex128" if dtype[0] == "c" else "float64")
    inverse = np.linalg.inv(exact)
    # pivots stay in their blocks, and entries may grow
    size = 1e4 * float(np.finfo(dtype).eps) * np.linalg.cond(exact)
    factor = fronts.compiled_both.block_lu(values, threads)
    found, real, imaginary = factor.slogdet()
    sign, logarithm = np.linalg.slogdet(exact)
    assert abs(found - logarithm) < size and abs(real + 1j * imaginary - sign) < size

    for k in (1, 3, 40):
        b = np.cos(np.arange(float(len(m) * k))).reshape(len(m), k).astype(dtype)
        for transposed, matrix in ((False, m), (True, m.T)):
            x = b.copy()
            assert factor.solve(x, transposed, threads)
            assert abs(matrix @ x - b).max() < size * abs(m).max() * abs(x).max()

    i, j = fronts.pattern.indices, fronts.pattern.columns
    z = np.empty_like(values)
    assert factor.inverse(z, threads)
    assert abs(z - inverse[j, i]).max() < size * abs(inverse).max()
    e = values * np.cos((i + 1.0) * (j + 2)).astype(values.real.dtype)
    assert factor.tangent(e, z, threads)
    moved = -inverse @ fronts.pattern.csc(e).toarray() @ inverse
    assert abs(z - moved[j, i]).max() < size * abs(inverse).max() ** 2 * abs(e).max() * len(m)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", MATRICES)
def test_the_factor_behind_the_checks(name: str, dtype: str) -> None:
    """The same in the units of engines: all views, the sign of A, the slots of M."""
    fronts, values, m = arranged(name, dtype)
    factor, inverse = CompiledBlockLu("", fronts, values), np.linalg.inv(m)
    i, j = fronts.pattern.indices, fronts.pattern.columns
    b = np.cos(np.arange(2.0 * fronts.n)).reshape(-1, 2).astype(dtype)
    sign, size = np.linalg.slogdet(m)
    for x, y in (
        (factor.slogdet()[0], np.asarray(sign)),
        (factor.slogdet()[1], np.asarray(size)),
        (factor.logabsdet(), np.asarray(size)),
        *((factor.solve(b, op), view_dense(inverse, op) @ b) for op in "NTH"),
        (factor.inverse_slots(), inverse[j, i]),
        (factor.inverse_tangent(values), -(inverse @ m @ inverse)[j, i]),
    ):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10 * np.abs(y).max())


def test_large_fronts_are_shared_by_threads() -> None:
    a = shared(250)
    pattern = Pattern(a.row, a.col, a.shape)
    fronts = Fronts(pattern, np.arange(750), np.arange(750))
    assert max(fronts.width[fronts.below > 0]) >= 250
    one, three = (fronts.compiled_both.block_lu(a.tocsc().data, k) for k in (1, 3))
    for ask in ("inverse", "tangent"):
        given = (a.tocsc().data,) if ask == "tangent" else ()
        x, y = np.empty(a.nnz), np.empty(a.nnz)
        assert getattr(one, ask)(*given, x, 1) and getattr(three, ask)(*given, y, 3)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12 * abs(x).max())
    assert np.allclose(one.slogdet(), three.slogdet(), rtol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_that_are_singular_are_declined(dtype: str) -> None:
    fronts, values, _ = arranged("indefinite", dtype)
    for number in (0.0, np.nan, np.inf):
        changed = values * 0
        changed[fronts.pattern.indices == fronts.pattern.columns] = number
        for threads in (1, 3):
            assert isinstance(fronts.compiled_both.block_lu(changed, threads), int)
        with pytest.raises(SingularMatrixError, match="diagonal block"):
            CompiledBlockLu("", fronts, changed)


def test_wrong_arguments_are_refused() -> None:
    starts, rows, one = np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.arange(2)
    for wrong in (np.array([0, 1, ~1, 4]), np.array([0, 1, ~9, 3]), np.arange(4.0)):
        fronts = native.native.Fronts(starts, rows, one)  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="places"):
            fronts.locate_both(wrong)
    fronts = native.native.Fronts(starts, rows, one)  # type: ignore[union-attr]
    values = np.array([2.0, 1.0, 1.0, -2.0])
    with pytest.raises(ValueError, match="located"):
        fronts.block_lu(values, 1)
    fronts.locate_both(np.arange(4))
    with pytest.raises(ValueError, match="once"):
        fronts.locate_both(np.arange(4))
    for bad in (values[:3], values.astype(int)):
        with pytest.raises(ValueError, match="values"):
            fronts.block_lu(bad, 1)
    factor = fronts.block_lu(values, 1)
    for x in (np.ones(2), np.ones((3, 1)), np.ones((2, 1), "f")):
        with pytest.raises(ValueError, match="x"):
            factor.solve(x, False, 1)
    with pytest.raises(ValueError, match="slots"):
        factor.inverse(np.empty(3), 1)
    with pytest.raises(ValueError, match="slots"):
        factor.tangent(values, np.empty(4, "f"), 1)


def test_several_threads_of_python_share_a_factor() -> None:
    fronts, values, m = arranged("wide", "float64")
    factor, inverse = fronts.compiled_both.block_lu(values, 2), np.linalg.inv(m)
    wrong: list[float] = []

    def work(k: int) -> None:
        for _ in range(5):
            x, z = np.eye(len(m), k), np.empty_like(values)
            accepted = factor.solve(x, False, 2) and factor.inverse(z, 2)
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
