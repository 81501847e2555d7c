"""S(p) x = b, determinants of a sparse S and the entries of S^-1 in its places as calls of a compiled
program, as `dense_programs`: the pattern is an argument, of which the analysis is found by its name
or made, and a factor is three arrays: of LU with room for some more entries than pivots on the
diagonal give, of Cholesky of the sizes that the pattern has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import broadcast
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.compiled import CompiledCall, CompiledFactor, told
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.factors.sparse_calls import CHOLESKY, LU, OF_REAL
from ldiv.engines.registry import Engine, name_of, on_host
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

CALL = "ldiv_sparse_4"  # a new number for every change of what it takes, gives or means


class SparsePrograms(NamedTuple):
    """The calls of one structure."""

    factor: Callable[[Any], ProgramFactor | None]  # of a dtype
    entries: Pattern
    op: str
    assume_a: str
    method: str

    def solve(self, vector: bool, singular: str, p: Any, b: Any) -> CompiledCall | None:
        """The call for x, if b has the dtype of p."""
        if b.dtype != p.dtype or 0 in b.shape:
            return None
        own = 1 if vector else 2
        shape = *broadcast(p.shape[:-1], b.shape[:-own]), *b.shape[b.ndim - own :]
        return self._call(
            "solve", "v" if vector else "m", singular, p, shape[:-own], (shape, p.dtype)
        )

    def slogdet(self, positive: bool, singular: str, p: Any) -> CompiledCall | None:
        """The call for det / |det| and log |det|; `positive`: the determinant must be positive."""
        batch, real = p.shape[:-1], np.finfo(p.dtype).dtype
        own = (batch, p.dtype), (batch, real)
        return self._call("slogdet", "p" if positive else "m", singular, p, batch, *own)

    def logabsdet(self, singular: str, p: Any) -> CompiledCall | None:
        batch, real = p.shape[:-1], np.finfo(p.dtype).dtype
        return self._call("logabsdet", "m", singular, p, batch, (batch, real))

    def inverse_entries(self, singular: str, p: Any) -> CompiledCall | None:
        """The call for S^*[S^-H]."""
        return self._call("inverse", "m", singular, p, p.shape[:-1], (p.shape, p.dtype))

    def _call(
        self, what: str, form: str, singular: str, p: Any, members: Any, *own: Any
    ) -> CompiledCall | None:
        if p.dtype not in sparse_checked.DTYPES or 0 in p.shape:
            return None
        if (found := self.factor(p.dtype)) is None:
            return None
        n, real = self.entries.shape[0], np.finfo(p.dtype).dtype
        pattern = *found.pattern, direction(n)[:, 0].astype(real)
        dtypes = np.dtype(np.int32), p.dtype, real
        arrays = tuple([((size,), dtype) for size, dtype in zip(found.sizes, dtypes, strict=True)])
        # the factor's record has no word of what is asked: all that is asked of a matrix shares it
        pattern_of = told(kind=found.kind, n=str(n), name=found.name)
        made = (*pattern_of, *told(what="factor", op="N", form="m"))
        op = self.op if p.dtype.kind == "c" else OF_REAL.get(self.op, self.op)
        asked = told(
            what=what,
            op=op,
            form=form,
            assume_a=self.assume_a,
            method=self.method,
            singular=singular,
        )
        return CompiledCall(
            CALL,
            (*pattern_of, *asked),
            own,
            tuple(members),
            CompiledFactor(CALL, made, arrays, 1, pattern),
            pattern,
            found.pattern[:1],
        )


def sparse_programs(structure: Structure, assume_a: str, method: str) -> SparsePrograms | None:
    """The calls in programs of a structure, if it has any."""
    base, op = structure.unview()
    part = base.base if isinstance(base, Symmetric) else base
    if type(part) is not Sparse or not sparse_checked.is_there() or base.shape[0] != base.shape[1]:
        return None
    engine = on_host(base, assume_a, method)
    factor = FACTORS.get(name_of(engine))
    if factor is None or (name_of(engine) == LU) != (part is base):
        return None
    return SparsePrograms(partial(factor, engine, base), part.entries, op, assume_a, method)


# -- factors ----------------------------------------------------------------------------------------


class ProgramFactor(NamedTuple):
    """The name of a pattern in programs, and the sizes of the arrays of a factor."""

    kind: str
    name: str
    pattern: tuple[Any, ...]
    sizes: tuple[int, int, int]


def _lu(engine: Engine, base: Any, dtype: Any) -> ProgramFactor | None:
    lu = symbolic(engine, base).checked
    if (sizes := lu.program_sizes) is None:
        return None
    lu.name(name := base.entries.digest)
    return ProgramFactor("L", name, (_places(base.entries),), sizes)


def _cholesky(engine: Engine, base: Any, dtype: Any) -> ProgramFactor | None:
    """Name the pattern in the order of the engine's fronts; complex matrices must be Hermitian."""
    if dtype.kind == "c" and base.op != "H":
        return None
    entries = base.base.entries
    places, name = _places(entries), "H" + entries.digest
    order = np.ascontiguousarray(symbolic(engine, base).rows, np.int32)
    sizes = sparse_checked.name_symmetric_pattern(name, places, order)
    return ProgramFactor(base.op, name, (places, order), sizes)


def _places(entries: Pattern) -> Any:
    return np.stack([entries.rows, entries.cols]).astype(np.int32)


FACTORS = {LU: _lu, CHOLESKY: _cholesky}
