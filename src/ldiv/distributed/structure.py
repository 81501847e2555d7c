"""S(p) = sum over processes r of R_r^T S_r(p_r) C_r: each process brings entries of one matrix.

C_r and R_r bring the unknowns of the columns and rows in which process r has entries
(`ldiv.distributed.ghosts`). S_r is a sparse matrix of process r alone. Entries at one place add up,
whichever processes bring them. The cotangent of an entry goes where it came from,
S^*(u v^H)_r = S_r^*[(R_r u) (C_r v)^H], so it takes two exchanges between neighbors.
The shape of the structure is that of this process: the rows and columns that it owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast, common_batch, result_dtype
from ldiv.core.arrays.space import Space, Together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS
from ldiv.distributed.ghosts import Ghosts
from ldiv.distributed.options import Parameters
from ldiv.errors import EngineError, overflowed
from ldiv.structures.sparse import Sparse

OF_REAL_NUMBERS = (
    "PETSc is built for real numbers or for complex ones, and this is the one for real numbers "
    "(libpetsc-real-dev), the only one that is served: write the system out for real and imaginary "
    "parts, [[Re A, -Im A], [Im A, Re A]]."
)


@dataclass(frozen=True)
class Layout:
    """The rows of the whole that this process owns: their count and the first of them."""

    own: int
    offset: int
    size: int


class Entries:
    """The places of the entries that this process brings, with global indices, and all that
    follows from them; compared by identity, for there is one for each matrix that is made. The
    processes know it by its number.
    """

    def __init__(self, processes: Any, rows: Any, cols: Any, of: Layout, to: Layout) -> None:
        self.processes, self.rows, self.cols = processes, rows, cols
        self.number: int = next(processes.numbers)
        self.of_rows, self.of_cols = of, to
        self.R = Ghosts(processes, rows, of.own, of.offset, of.size)
        different = of != to or not np.array_equal(rows, cols)
        self.C = (
            self.R
            if not processes.largest(different)
            else Ghosts(processes, cols, to.own, to.offset, to.size)
        )
        self.templates: dict[bool, Any] = {}  # matrices of PETSc for their symmetric part, or not
        self.solvers: list[Any] = []  # weak references to those that live, the latest last
        self.local = Sparse(Pattern(self.R.at, self.C.at, (self.R.count, self.C.count)))

    def absolute_product(self, p: Any, x: Any, symmetric: bool) -> Any:
        """|S(p)| |x|, or that of the symmetric part."""
        x, p = np.abs(x)[:, None], np.abs(p)
        y = self.R.add(self.local.apply(p, self.C.gather(x), "N"))[:, 0]
        if symmetric:
            y = (y + self.C.add(self.local.apply(p, self.R.gather(x), "T"))[:, 0]) / 2
        return y


@dataclass(frozen=True)
class Distributed(Linear):
    """A sparse matrix over several processes. Parameters (*batch, nnz), the values of the entries
    that this process brings.
    """

    entries: Entries
    parameters: Parameters

    core = 1
    unit_powers = None  # no process knows the largest number of all
    has_entries = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.entries.of_rows.own, self.entries.of_cols.own

    @property
    def order(self) -> int:
        return self.entries.of_rows.size

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(len(self.entries.rows),)]

    @property
    def space(self) -> Space:
        found: Space = self.entries.processes
        return found

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        batch = broadcast(batch_of(p, 1), batch_of(x, 2))
        shape = (*batch, self.shape[VIEWS[op][0]], x.shape[-1])
        spec = (shape, result_dtype(p, x))
        return on_host(Together(self._apply, op, spec), (spec,), p, x)[0]

    def _apply(self, op: str, spec: Any, p: Any, x: Any) -> tuple[Any, ...]:
        entries = self.entries
        of = f"matrix {entries.number}" + ", transposed" * VIEWS[op][0]
        entries.processes.agree(f"a product of {of}, with a block {spec[0][:-2]} of {x.shape[-1]}")
        into, out = (entries.R, entries.C) if VIEWS[op][0] else (entries.C, entries.R)
        y = out.add(entries.local.apply(p, into.gather(x), op))
        return (np.array(np.broadcast_to(y, spec[0]), spec[1]),)

    def project(self, u: Array, v: Array) -> Tree:
        batch = common_batch((2, 2), (u, v))
        spec = ((*batch, len(self.entries.rows)), result_dtype(u, v))
        return on_host(Together(self._project, spec), (spec,), u, v)[0]

    def _project(self, spec: Any, u: Any, v: Any) -> tuple[Any, ...]:
        entries, comm = self.entries, self.entries.processes
        of = f"matrix {entries.number}, of a block {spec[0][:-1]} of {u.shape[-1]}"
        comm.agree(f"a derivative by the entries of {of}")
        g = entries.local.project(entries.R.gather(u), entries.C.gather(v))
        with comm.section("a derivative by entries"):
            if not np.isfinite(g).all():
                raise overflowed("the derivative by the entries")
        comm.agree("the end of a derivative by entries")
        return (np.array(g, spec[1]),)

    def todense(self, p: Tree) -> Array:
        raise EngineError(
            "a matrix over several processes is never made dense: no process has all of it. "
            "Take products with unit vectors."
        )

    def __repr__(self) -> str:
        whole = (self.entries.of_rows.size, self.entries.of_cols.size)
        return f"a matrix of {whole} over {self.entries.processes.size} processes"
