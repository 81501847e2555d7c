"""The entries of u v^H at the places of a pattern, beside those of the dense product, in one run of
entries and in several.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules import entry_programs
from ldiv.structures.sparse import CACHED, FEW, RUN, Sparse

DTYPES = [("float64", "float64"), ("float32", "float64"), ("complex64", "float32")]


def drawn(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal((2, *shape))
    return (x[0] + 1j * x[1] if np.dtype(dtype).kind == "c" else x[0]).astype(dtype)


@pytest.mark.parametrize("dtypes", DTYPES, ids=" ".join)
@pytest.mark.parametrize("k", [0, 1, FEW, FEW + 1, 40])
@pytest.mark.parametrize("nnz", [0, 1, 100, 2 * RUN + 5, CACHED // 40 * 2 + 1])
def test_beside_the_dense_product(nnz: int, k: int, dtypes: tuple[str, str]) -> None:
    rng, (m, n) = np.random.default_rng(k), (30, 20)
    rows, cols = rng.integers(0, m, nnz), rng.integers(0, n, nnz)
    u, v = drawn(rng, (m, k), dtypes[0]), drawn(rng, (n, k), dtypes[1])
    found = Sparse(Pattern(rows, cols, (m, n))).project(u, v)
    wide = np.complex128 if np.iscomplexobj(u) else np.float64
    expected = (u.astype(wide) @ v.astype(wide).conj().T)[rows, cols]
    assert found.shape == (nnz,)
    eps = np.finfo(np.result_type(*dtypes)).eps
    np.testing.assert_allclose(found, expected, rtol=0, atol=10 * (k + 1) * eps * (k + 1))
    if k:
        assert found.dtype == np.result_type(*dtypes)
        # whatever the strides
        strided = np.asfortranarray(u)[::-1][::-1], np.repeat(v, 2, axis=1)[:, ::2]
        np.testing.assert_array_equal(Sparse(Pattern(rows, cols, (m, n))).project(*strided), found)


@pytest.mark.parametrize("dtypes", DTYPES, ids=" ".join)
@pytest.mark.parametrize("k", [0, 5, entry_programs.FEW + 1])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_in_a_program(batch: tuple[int, ...], k: int, dtypes: tuple[str, str]) -> None:
    """No array of a program has a number for each entry and each column, if there are few columns."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(k)
    rows, cols = rng.integers(0, 5, 90), rng.integers(0, 4, 90)
    S = Sparse(Pattern(rows, cols, (5, 4)))
    u, v = drawn(rng, (*batch, 5, k), dtypes[0]), drawn(rng, (*batch, 4, k), dtypes[1])
    found, expected = jax.jit(S.project)(u, v), S.project(u, v)
    assert found.shape == (*batch, 90)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * (k + 1))
    if 1 < k <= entry_programs.FEW:
        made = [y.aval.shape for eqn in jax.make_jaxpr(S.project)(u, v).eqns for y in eqn.outvars]
        assert not any({90, k} <= {*shape} for shape in made)


@pytest.mark.parametrize("columns", [0, 1, 3, 15])
@pytest.mark.parametrize("batch", [((), ()), ((40,), ()), ((3, 1), (1, 4))])
def test_the_gradient_of_a_batch_takes_little_beside_itself(
    batch: tuple[tuple[int, ...], tuple[int, ...]], columns: int
) -> None:
    """sum_q u[i, q] conj v[j, q] on the pattern makes no (batch, entries, columns)."""
    rng, n = np.random.default_rng(5), 200
    rows, cols = rng.integers(0, n, (2, 20_000))
    structure = Sparse(Pattern(rows, cols, (n, n)))
    u, v = (rng.standard_normal((*b, n, columns)) + 1j for b in batch)
    expected = np.zeros((*np.broadcast_shapes(*batch), len(rows)), complex)
    for q in range(columns):
        expected += u[..., rows, q] * v.conj()[..., cols, q]
    structure.project(u, v)  # what is made once for a pattern
    tracemalloc.start()
    found = structure.project(u, v)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert size <= 2 * found.nbytes + 8_000_000
