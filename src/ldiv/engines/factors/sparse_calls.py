"""S(p) x = b and its cotangents for a sparse S or its Hermitian part, in two compiled calls on arrays.

The first call makes the factors of one matrix or of a batch, which equal values share; the second
solves with them. A factor may be in single precision, with solutions that are refined to double.
Declined calls go the careful way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.owners.holder import Holder, owner
from ldiv.core.owners.store import Store
from ldiv.core.rules.compiled import Arrays, Need, in_rows
from ldiv.core.rules.finite import all_finite
from ldiv.core.rules.structure import Structure
from ldiv.engines import solve_log
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.accuracy.operation_calls import is_like
from ldiv.engines.factors.attempts import symbolic
from ldiv.engines.factors.cache import CacheEntry, counts
from ldiv.engines.registry import Engine, name_of, on_host
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

LU, CHOLESKY, LDL = "lu", "cholesky", "ldl"
DOUBLE = frozenset(map(np.dtype, "dD"))
OWNERS = (Holder, Store, type(None))
OF_REAL = {"H": "T", "C": "N"}  # a real matrix is its conjugate


@dataclass(frozen=True, slots=True)
class SparseCalls:
    """The compiled operation of one structure, the view `op` of its base S."""

    engine: Engine
    base: Structure
    op: str
    vector: bool
    in_single: bool  # factor double precision in single?
    is_real: bool  # must the numbers be? Complex symmetric parts are factored in another way

    def taking(self, *flat: Array) -> SparseCalls | None:
        """Return this operation for one matrix, or one for each right-hand side, of the same dtype."""
        p, b = flat
        fits = (
            p.dtype == b.dtype
            and numpy_dtype(p) in sparse_checked.DTYPES
            and not (self.is_real and numpy_dtype(p).kind == "c")
            and sparse_checked.is_available()
            and (p.ndim == 1 or tuple(p.shape[:-1]) == self._batch(b))
            and 0 not in b.shape[:-1]  # of no columns the factor is wanted
            and 0 not in p.shape
        )
        return self if fits else None

    def forward(self, *flat: Array) -> Any:
        p, b = flat
        if type(owner()) not in OWNERS:
            return None
        if (factor := self.factor(p, b)) is None or (x := self._solve(factor, b)) is None:
            return None
        solve_log.note(self._name(p))
        return (x,), factor

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (x_bar,), (x,), (p, b) = cotangents, out, flat
        if 0 in x.shape or not is_like(x_bar, x):
            return None
        dtype, op = numpy_dtype(p), self._letter(p)
        # cotangents of complex T and H views are left to the careful way
        if op not in ("N", "T" if dtype.kind == "f" else "N"):
            return None
        if x.shape != b.shape or (need[0] and tuple(p.shape[:-1]) != self._batch(x)):
            return None  # the caller sums cotangents over broadcast axes
        if factor is not None:
            counts["hits"] += factor.different  # not looked for, since the call has it
        elif (factor := self.factor(p, x_bar)) is None:
            return None
        # lam = op(A)^-H x_bar, p_bar = -S^*(lam x^H)
        lam = np.empty(x.shape, dtype)
        p_bar = np.empty(p.shape, dtype) if need[0] else None
        threads = sparse_checked.workers(p.shape)
        if not factor.pullback(x_bar, x, lam, p_bar, op, self.vector, threads):
            return None
        counts["solves"] += factor.count
        return p_bar, lam

    def solve_all(self, p: Array, b: Array) -> Array | None:
        """Return x for NumPy arrays outside of a rule, or inside of a rule with other batches; None
        if it is declined.
        """
        # one b for all matrices is repeated
        batch = self._batch(b) or tuple(p.shape[:-1])
        b = np.broadcast_to(b, (*batch, *b.shape[b.ndim - self._own :]))
        found = self.forward(in_rows(p), in_rows(b)) if self.taking(p, b) else None
        return found and found[0][0]

    @property
    def _own(self) -> int:
        return 1 if self.vector else 2

    def _batch(self, b: Array) -> tuple[int, ...]:
        return tuple(b.shape[: b.ndim - self._own])

    def _name(self, p: Array) -> str:
        """Return the name of the engine, which is part of the key of a factor."""
        return name_of(self.engine, self.in_single and numpy_dtype(p) in DOUBLE)

    def _letter(self, p: Array) -> str:
        return OF_REAL.get(self.op, self.op) if numpy_dtype(p).kind == "f" else self.op

    def _solve(self, factor: Any, b: Array) -> Any:
        # no factor solves with conj(A) by itself
        if (op := self._letter(b)) == "C":
            return None
        x = np.empty(b.shape, numpy_dtype(b))
        if 0 in x.shape:
            return x
        if not factor.solve(b, x, op, self.vector, sparse_checked.workers(b.shape)):
            return None
        counts["solves"] += factor.count
        return x

    def factor(self, p: Array, b: Array) -> Any:
        """Find or make the factor of these values, for b, and give it to the present owner; or None."""
        keeper = owner()
        # the key is that of the pattern, since all views share the factors of its values
        key = hash((self._name(p), self.base)) if isinstance(keeper, Store) else None
        making = None if keeper is None else partial(keeper.make_room, key)

        def may_make() -> bool:
            """Whether a new factor may be made: not if the owner has one of these values, by an
            analysis that was dropped, and not for a right-hand side that will be refused.
            """
            kept = keeper.kept if type(keeper) is Holder else ()
            is_kept = any(
                type(thing) is CacheEntry and thing.is_by(self.engine, self.base, (p,))
                for thing in kept
            )
            return not is_kept and all_finite(b)

        checked = symbolic(self.engine, self.base).checked
        found, again = checked.accepted(p, False, self.in_single, making, may_make)
        if found is not None:
            # equal batch members share a factor; some of those of a new batch may be alive already
            shared = found.different if again else found.shared
            counts["hits"] += shared
            counts["factorizations"] += found.different - shared
            if keeper is not None:
                keeper.keep(found, key)
        return found


def sparse_calls(
    structure: Structure, assume_a: str, method: str, vector: bool = False, in_single: bool = False
) -> SparseCalls | None:
    """The compiled calls of a structure, if it has any; found once for each of its tasks."""
    base, op = structure.unview()
    if not _has_entries(base) or base.shape[0] != base.shape[1]:
        return None
    return calls_of(on_host(base, assume_a, method), base, op, assume_a, vector, in_single)


def calls_of(
    engine: Engine,
    base: Structure,
    op: str,
    assume_a: str,
    vector: bool = False,
    in_single: bool = False,
) -> SparseCalls | None:
    """The compiled calls of a structure that this engine factors, if it has any."""
    name = name_of(engine)
    if not _has_entries(base) or not is_compiled(name, base, assume_a):
        return None
    is_real = name == CHOLESKY and isinstance(base, Symmetric) and base.op != "H"
    return SparseCalls(engine, base, op, vector, in_single, is_real)


def is_compiled(name: str, base: Structure, assume_a: str) -> bool:
    """Whether all of a call of this engine is compiled: L D L^T does not refute a promise there."""
    if isinstance(base, Symmetric):
        return name == CHOLESKY or (name == LDL and assume_a != "pos")
    return name == LU


def _has_entries(base: Structure) -> bool:
    """True if S is a sparse matrix by its entries, or the Hermitian part of one."""
    part = base.base if isinstance(base, Symmetric) else base
    return type(part) is Sparse and sparse_checked.is_available()
