"""S(p) x = b, determinants and inverse entries of a sparse S as calls of a compiled program.

As in `dense_programs`, one call factors and others solve. The pattern is an argument, whose analysis
is found by its name or made. A factor is three arrays: for LU with room for more entries than
diagonal pivots need, for Cholesky and L D L^T of the sizes that the pattern determines. A factor that
has no room there is held beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.compiled import CompiledCall, record_of
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.factors.programs import Parts, Programs
from ldiv.engines.factors.sparse_calls import CHOLESKY, OF_REAL, is_compiled
from ldiv.engines.registry import Engine, name_of, on_host
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class SparsePrograms(Programs):
    """Calls of a sparse structure."""

    pattern_of: Callable[[Any], ProgramFactor | None]  # of a dtype
    n: int

    name, axes = "ldiv_sparse_5", 1  # a new number for every change of what it means

    def letter(self, dtype: Any) -> str:
        return self.op if dtype.kind == "c" else OF_REAL.get(self.op, self.op)

    def inverse(self, singular: str, p: Any) -> CompiledCall | None:
        """Return the call of the entries of A^-H in the places of A; L D L^T has none."""
        parts = self.parts(p)
        has_entries = parts is not None and dict(parts.record)["kind"] in "LC"
        return super().inverse(singular, p) if has_entries else None

    def parts(self, p: Any) -> Parts | None:
        if p.dtype not in sparse_checked.DTYPES or (found := self.pattern_of(p.dtype)) is None:
            return None
        n, real = self.n, np.finfo(p.dtype).dtype
        # the places, for fronts their order, and the random right-hand side of the probe
        pattern = *found.pattern, direction(n)[:, 0].astype(real)
        dtypes = np.dtype(np.int32), p.dtype, real
        # a factor is whole numbers, numbers of A, and real numbers
        arrays = tuple([((size,), dtype) for size, dtype in zip(found.sizes, dtypes, strict=True)])
        of_matrix = record_of(kind=found.kind, n=str(n), name=found.name)
        # the call that answers for declined members takes the places of entries alone
        return Parts(of_matrix, arrays, pattern, found.pattern[:1])


def sparse_programs(structure: Structure, assume_a: str, method: str) -> SparsePrograms | None:
    """The calls in programs of a structure, if it has any."""
    base, op = structure.unview()
    part = base.base if isinstance(base, Symmetric) else base
    if (
        type(part) is not Sparse
        or not sparse_checked.is_available()
        or base.shape[0] != base.shape[1]
    ):
        return None
    engine = on_host(base, assume_a, method)
    if not is_compiled(name_of(engine), base, assume_a):
        return None
    factor = _lu if part is base else _fronts
    return SparsePrograms(op, assume_a, method, partial(factor, engine, base), base.shape[0])


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


def _fronts(engine: Engine, base: Any, dtype: Any) -> ProgramFactor | None:
    """Name the pattern in the order of the engine's fronts; Cholesky is for Hermitian matrices."""
    kind = "C" if name_of(engine) == CHOLESKY else base.op
    if kind == "C" and dtype.kind == "c" and base.op != "H":
        return None
    entries = base.base.entries
    places, name = _places(entries), kind + entries.digest
    order = np.ascontiguousarray(symbolic(engine, base).rows, np.int32)
    sizes = sparse_checked.name_symmetric_pattern(kind, name, places, order)
    return ProgramFactor(kind, name, (places, order), sizes)


def _places(entries: Pattern) -> Any:
    return np.stack([entries.rows, entries.cols]).astype(np.int32)
