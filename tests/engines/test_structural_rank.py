"""Whether a pattern can be that of a regular matrix, beside SciPy's matching."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import structural_rank

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.accuracy import structural_rank as ours
from ldiv.engines.libraries import native


def pattern(a: Any) -> Pattern:
    result: Pattern = ldiv.asarray(sp.csc_array(a)).structure.pattern
    return result


@pytest.mark.parametrize("is_compiled", [False, True])
def test_random_patterns(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_compiled:
        monkeypatch.setattr(ours, "native", None)
    rng, full = np.random.default_rng(0), 0
    for _ in range(100):
        n = int(rng.integers(1, 40))
        a = sp.csc_array(sp.random_array((n, n), density=min(1, 1 / n), rng=rng))
        a += sp.csc_array(sp.diags_array((rng.random(n) < 0.98) * 1.0))[:, rng.permutation(n)]
        a.eliminate_zeros()
        p, kept = pattern(a), rng.random(a.nnz) < 0.9
        expected = structural_rank(a)
        part = sp.csc_array((a.data * kept, a.indices, a.indptr), shape=a.shape)
        part.eliminate_zeros()
        assert ours.rank_bound(p) == expected
        assert ours.rank_bound(p, kept) == structural_rank(part)
        full += expected == n
    assert 10 < full < 90


@pytest.mark.skipif(native.native is None, reason=native.why_not)
@pytest.mark.parametrize("method", ["auto", "superlu"])
def test_a_mesh_with_permuted_rows(method: str) -> None:
    """SciPy's matching alone would take many seconds here."""
    side, rng = 100, np.random.default_rng(0)
    path = sp.diags_array([-1.0, 2.5, -1.5], offsets=[-1, 0, 1], shape=(side, side))
    a = sp.kron(path, sp.eye_array(side)) + sp.kron(sp.eye_array(side), path)
    a = sp.csc_array(sp.csr_array(a)[rng.permutation(side**2)])
    b = a @ np.ones(side**2)
    np.testing.assert_allclose(ldiv.solve(ldiv.asarray(a), b, method=method), 1, rtol=1e-8)
    a.data[a.indices == 7] = 0
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(ldiv.asarray(a), b, method=method)
