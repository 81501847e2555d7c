"""S(p) x = b, det S(p) and their cotangents for a dense S, on plain arrays, in two compiled calls:
the factor, which is shared by equal values, and what is asked of it. What is declined goes the
careful way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.owners.holder import Holder, owner
from ldiv.core.owners.store import Store
from ldiv.core.rules.compiled import Arrays, Need
from ldiv.core.rules.finite import total
from ldiv.core.rules.structure import Structure
from ldiv.engines import solve_log
from ldiv.engines.accuracy.accepted import CHOLESKY, HERMITIAN, LU, compiled, is_taken, workers
from ldiv.engines.accuracy.operation_calls import REAL, is_like
from ldiv.engines.factors.cache import counts
from ldiv.engines.registry import name_of, on_host
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric

NAME = "lapack"
OWNERS = (Holder, Store, type(None))
SAMPLES = 8


@dataclass(frozen=True, slots=True)
class OfDense:
    """The compiled operation of one structure: its kind of factor, its view of the array, and the
    letter of its cotangent.
    """

    kind: str
    op: str
    form: str

    views: ClassVar[tuple[str, ...]] = ("N", "T")

    def taking(self, *flat: Array) -> Self | None:
        return self if is_taken(flat[0]) else None

    def factor(self, p: Array) -> Any:
        """Return the factor of these values, kept by the present owner; or None."""
        keeper, native = owner(), compiled()
        if native is None or type(keeper) not in OWNERS:
            return None
        found, again = native.factor(p, self.kind, 1 if p.ndim == 2 else workers(p.shape))
        return found and kept(found, again, keeper, self.kind, p)


def kept(factor: Any, again: bool, keeper: Any, kind: str, p: Array) -> Any:
    """Count a factor, and give it to an owner; `again`: it existed already."""
    counts["hits" if again else "factorizations"] += 1
    if type(keeper) is Store:
        # factors of one kind, shape and dtype share the room of the store
        key, value_hash = hash((NAME, kind, p.shape, p.dtype)), 0
        if not again:
            # the sum of squares distinguishes nearly all matrices; a few of the numbers distinguish permutations
            values = p if type(p) is np.ndarray else asnumpy(p)
            some = values.ravel()[:: values.size // SAMPLES + 1]
            keeper.make_room(key, value_hash := hash((total(values), some.tobytes())))
        keeper.keep(factor, key, value_hash)
    elif keeper is not None:
        keeper.keep(factor)
    return factor


def fits(p: Array, b: Array, *, vector: bool) -> bool:
    """True if there is a right-hand side for each matrix, of the same dtype."""
    return (
        p.dtype == b.dtype
        and p.shape[:-1] == (b.shape if vector else b.shape[:-1])  # also for b without columns
        and is_taken(p)
    )


@dataclass(frozen=True, slots=True)
class SolveCalls(OfDense):
    """op(M) x = b."""

    vector: bool

    views: ClassVar[tuple[str, ...]] = ("N", "T", "H")

    def taking(self, *flat: Array) -> Self | None:
        return self if fits(*flat, vector=self.vector) else None

    def forward(self, *flat: Array) -> Any:
        (p, b), keeper, native = flat, owner(), compiled()
        if native is None or type(keeper) not in OWNERS:
            return None
        x = np.empty(b.shape, numpy_dtype(b))
        if 0 in x.shape:
            # without columns x is empty, but a singular A must still be refused
            return (factor := self.factor(p)) and ((x,), factor)
        threads = 1 if p.ndim == 2 else workers(p.shape)
        factor, again, accepted = native.solve(p, self.kind, b, x, self.op, threads)
        if factor is None:
            return None
        kept(factor, again, keeper, self.kind, p)
        # the factor has passed its checks, and is kept; its solution was declined
        if not accepted:
            return None
        counts["solves"] += 1
        solve_log.note(NAME)
        return (x,), factor

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (x_bar,), (x,), p = cotangents, out, flat[0]
        # as in `is_like`, without its frame: every backward pass of a solve comes here
        if x_bar is None or 0 in x.shape or x_bar.shape != x.shape or x_bar.dtype != x.dtype:
            return None
        dtype = numpy_dtype(p)
        # the cotangent of complex T and H views is left to the careful way
        if self.op != "N" and dtype.kind == "c":
            return None
        if factor is None and (factor := self.factor(p)) is None:
            return None
        # lam = op(M)^-H x_bar, op(M)_bar = -lam x^H
        lam = np.empty(x.shape, dtype)
        p_bar = np.empty(p.shape, dtype) if need[0] else None
        op = "N" if self.op == "N" else "T"  # of real numbers
        threads = 1 if p.ndim == 2 else workers(p.shape)
        if not factor.pullback(x_bar, x, lam, p_bar, op, self.form, threads):
            return None
        counts["solves"] += 1
        return p_bar, lam


@dataclass(frozen=True, slots=True)
class DeterminantCalls(OfDense):
    """det A / |det A| and log |det A|, or the latter alone."""

    sign: bool
    positive: bool  # is the determinant required to be positive?

    def forward(self, *flat: Array) -> Any:
        (p,) = flat
        if (factor := self.factor(p)) is None:
            return None
        batch, dtype = p.shape[:-2], numpy_dtype(p)
        sign, size = np.empty(batch, dtype), np.empty(batch, REAL[dtype.char])
        if not factor.slogdet(sign, size) or (self.positive and not (sign == 1).all()):
            return None
        return ((sign, size) if self.sign else (size,)), factor

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        """w A^-H for real weights w (*batch,)."""
        (p,), w, dtype = flat, cotangents[-1], numpy_dtype(flat[0])
        # the phase of a complex determinant has a derivative, the sign of a real one has none
        turns = self.sign and cotangents[0] is not None and dtype.kind == "c"
        if w is None or turns or w.shape != p.shape[:-2] or numpy_dtype(w).char != REAL[dtype.char]:
            return None
        # d log |det A| = Re tr(A^-1 dA), so A_bar = w A^-H
        return self.weighted(factor, p, w if dtype.kind == "f" else asnumpy(w).astype(dtype))

    def weighted(self, factor: Any, p: Array, w: Any, d: Any = None) -> Any:
        """(w A^-H,) for weights w (*batch,) in the dtype of A; of determinants d (w conj(d) A^-H,)."""
        if factor is None and (factor := self.factor(p)) is None:
            return None
        x = np.empty(p.shape, numpy_dtype(p))
        if not factor.log_pullback(w, d, x, workers(p.shape)):
            return None
        counts["solves"] += 1
        return (x,)


@dataclass(frozen=True, slots=True)
class DetCalls(DeterminantCalls):
    """d = det A, A_bar = d_bar conj(d) A^-H."""

    def forward(self, *flat: Array) -> Any:
        (p,) = flat
        if (factor := self.factor(p)) is None:
            return None
        d = np.empty(p.shape[:-2], numpy_dtype(p))
        return ((d,), factor) if factor.det(d) else None

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (d_bar,), (d,), (p,) = cotangents, out, flat
        return self.weighted(factor, p, d_bar, d) if is_like(d_bar, d) else None


@dataclass(frozen=True, slots=True)
class InverseCalls(OfDense):
    """X = M^-1, M_bar = -X^H X_bar X^H."""

    views: ClassVar[tuple[str, ...]] = ("N",)

    def forward(self, *flat: Array) -> Any:
        (p,) = flat
        if (factor := self.factor(p)) is None:
            return None
        x = np.empty(p.shape, numpy_dtype(p))
        if not factor.inverse(x, workers(p.shape)):
            return None
        counts["solves"] += 1
        return (x,), factor

    def backward(
        self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Array
    ) -> Any:
        (x_bar,), (x,), native = cotangents, out, compiled()
        if native is None or not is_like(x_bar, x):
            return None
        # M_bar = -X^H X_bar X^H, or the Hermitian part of it
        p_bar = np.empty(x.shape, numpy_dtype(x))
        taken = native.inverse_pullback(x_bar, x, p_bar, self.form, workers(x.shape))
        return (p_bar,) if taken else None


def dense_calls(kind: Any, structure: Structure, assume_a: str, method: str, *options: bool) -> Any:
    """The compiled calls of a structure, if it has any; found once for each of its tasks."""
    return structure.cached(
        ("dense calls", kind, assume_a, method, options),
        lambda: _dense_calls(kind, structure, assume_a, method, *options),
    )


def _dense_calls(
    kind: Any, structure: Structure, assume_a: str, method: str, *options: bool
) -> Any:
    if (found := kind_of(structure, assume_a, method)) is None:
        return None
    letter, op = found
    if op not in (kind.views if letter == LU else "N"):
        return None
    # S: the cotangent of a Hermitian part is the Hermitian part of -lam x^H
    return kind(letter, op, "S" if letter != LU else "N" if op == "N" else "T", *options)


def kind_of(structure: Structure, assume_a: str, method: str) -> tuple[str, str] | None:
    """The kind of factor of a square dense structure, or of the Hermitian part of one, and the view of
    it; None where another engine solves.
    """
    base, op = structure.unview()
    part = base.base if isinstance(base, Symmetric) and base.op == "H" else base
    if not isinstance(part, Dense) or part.m != part.n:
        return None
    if name_of(on_host(base, assume_a, method)) != NAME:
        return None
    return LU if part is base else CHOLESKY if assume_a == "pos" else HERMITIAN, op
