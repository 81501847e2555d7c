"""Products of batches of sparse matrices on the host: several members are one matrix of blocks."""

from __future__ import annotations

import numpy as np
import pytest

from ldiv.core.frameworks.pattern import Pattern
from ldiv.structures import sparse
from ldiv.structures.sparse import Sparse

VIEW = {"N": lambda D: D, "T": lambda D: D.mT, "H": lambda D: D.conj().mT, "C": lambda D: D.conj()}


@pytest.mark.parametrize("op", VIEW)
@pytest.mark.parametrize("order", ["rows", "columns", "none"])  # duplicates, unsorted in a row
@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (1, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("at_a_time", [1, 40, 1 << 16])
def test_members_of_a_batch(
    op: str, order: str, shape: tuple[int, int], at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparse, "CACHED", at_a_time)
    rng, (m, n) = np.random.default_rng(0), shape
    for nnz in (0, 17) if m * n else (0,):
        rows, cols = (rng.integers(0, max(size, 1), nnz) for size in shape)
        rows = np.sort(rows) if order == "rows" else rows
        cols = np.sort(cols) if order == "columns" else cols
        S = Sparse(Pattern(rows, cols, shape))
        for batch, own, k in [((3,), (), 2), ((2, 3), (2, 3), 1), ((0,), (), 2), ((9,), (9,), 0)]:
            p = rng.standard_normal((*batch, nnz)) + 1j * rng.standard_normal((*batch, nnz))
            dense = VIEW[op](S.todense(p))
            x = rng.standard_normal((*own, dense.shape[-1], k))
            np.testing.assert_allclose(S.apply(p, x, op), dense @ x, atol=1e-13)


def test_the_bits_are_those_of_each_member() -> None:
    rng = np.random.default_rng(0)
    S = Sparse(Pattern(rng.integers(0, 30, 200), rng.integers(0, 30, 200), (30, 30)))
    p, x = rng.standard_normal((5, 200)), rng.standard_normal((5, 30, 2))
    for op in VIEW:
        found = S.apply(p, x, op)
        assert all((found[i] == S.apply(p[i], x[i], op)).all() for i in range(5))
