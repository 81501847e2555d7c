"""S(p) x = b, determinants of a sparse S and the entries of S^-1 in its places as calls of a compiled
program, as `dense_programs`: the pattern is an argument, of which the analysis is found by its name
or made, and an LU factor is three arrays with room for some more entries than pivots on the diagonal
give.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import broadcast
from ldiv.core.compiled import CompiledCall
from ldiv.core.structure import Structure
from ldiv.engines.accuracy import sparse_lu
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.factors.sparse_calls import OF_REAL, SparseCalls, sparse_calls

CALL = "ldiv_sparse_2"  # a new number for every change of what it takes, gives or means


class SparsePrograms(NamedTuple):
    """The calls of one structure."""

    calls: SparseCalls
    assume_a: str
    method: str

    def solve(self, vector: bool, singular: str, p: Any, b: Any) -> CompiledCall | None:
        """Of x, if b has the dtype of p."""
        if b.dtype != p.dtype or 0 in b.shape:
            return None
        own = 1 if vector else 2
        shape = *broadcast(p.shape[:-1], b.shape[:-own]), *b.shape[b.ndim - own :]
        return self._call("solve", "v" if vector else "m", singular, p, (shape, p.dtype))

    def slogdet(self, positive: bool, singular: str, p: Any) -> CompiledCall | None:
        """Of det / |det| and log |det|; `positive`: the determinant must be."""
        own = (p.shape[:-1], p.dtype), (p.shape[:-1], np.finfo(p.dtype).dtype)
        return self._call("slogdet", "p" if positive else "m", singular, p, *own)

    def logabsdet(self, singular: str, p: Any) -> CompiledCall | None:
        own = p.shape[:-1], np.finfo(p.dtype).dtype
        return self._call("logabsdet", "m", singular, p, own)

    def inverse_entries(self, singular: str, p: Any) -> CompiledCall | None:
        """Of S^*[S^-H]."""
        return self._call("entries", "m", singular, p, (p.shape, p.dtype))

    def _call(self, what: str, form: str, singular: str, p: Any, *own: Any) -> CompiledCall | None:
        if p.dtype not in sparse_lu.DTYPES or 0 in p.shape:
            return None
        base, real = self.calls.base, np.finfo(p.dtype).dtype
        lu = symbolic(self.calls.engine, base).analysis.lu
        if (sizes := lu.program_sizes) is None:
            return None
        batch, n = tuple(p.shape[:-1]), base.shape[0]
        lu.name(name := base.entries.digest)
        dtypes = np.dtype(np.int32), p.dtype, real
        made = tuple(((*batch, size), dtype) for size, dtype in zip(sizes, dtypes, strict=True))
        op = self.calls.op if p.dtype.kind == "c" else OF_REAL.get(self.calls.op, self.calls.op)
        return CompiledCall(
            CALL,
            f"sparse {what} {op} {form} {n} {name} {self.assume_a} {self.method} {singular}",
            own,
            (CALL, name),
            made,
            (1, 1, 1),
            direction(n)[:, 0].astype(real),
            looks=True,
            pattern=np.stack([base.entries.rows, base.entries.cols]).astype(np.int32),
        )


def sparse_programs(structure: Structure, assume_a: str, method: str) -> SparsePrograms | None:
    """Those of a structure, if it has any."""
    calls = sparse_calls(structure, assume_a, method)
    return None if calls is None else SparsePrograms(calls, assume_a, method)
