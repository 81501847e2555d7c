"""S(p) = sum_e p_e e_row(e) e_col(e)^T, a sparse matrix by coordinates.

S^*(u v^H)_e = sum_q u[row_e, q] conj(v[col_e, q]), the sampled product (SDDMM).
Duplicates are summed, so each of them receives the same cotangent: finite-element assembly.
No array here is n x n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, broadcast, conj, fold, result_dtype, unfold
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host, namespace, on_host, places, scatter, traced
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules import entry_programs
from ldiv.core.rules.linear import Linear
from ldiv.core.rules.structure import VIEWS

FEW = 4  # columns of a sampled product up to which each is gathered on its own
RUN = 1 << 14  # entries at a time in that case, which stay in the cache
CACHED = 1 << 16  # numbers gathered at a time for more columns


@dataclass(frozen=True)
class Sparse(Linear):
    """A sparsity pattern. Parameters (*batch, nnz), in the order of the user's entries."""

    entries: Pattern

    core = 1

    @property
    def pattern(self) -> Pattern:
        return self.entries

    @property
    def parameter_places(self) -> Pattern:
        return self.entries

    @property
    def shape(self) -> tuple[int, int]:
        return self.entries.shape

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return [(self.entries.nnz,)]

    def slot_values(self, p: Any) -> Any:
        return self.entries.slot_values(p)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        m = self.shape[VIEWS[op][0]]
        if host(x):
            batch, k = broadcast(batch_of(p, 1), batch_of(x, 2)), x.shape[-1]
            spec = ((*batch, m, k), result_dtype(p, x))
            return on_host(partial(self._apply_on_host, op, spec), (spec,), p, x)[0]
        rows, cols = places(self.entries, x)
        if VIEWS[op][0]:
            rows, cols = cols, rows
        p = conj(p) if VIEWS[op][1] else p
        return scatter(p[..., None] * x[..., cols, :], rows, m)

    def _apply_on_host(self, op: str, spec: Any, p: Any, x: Any) -> tuple[Any, ...]:
        values = self.entries.factor_values(p)
        if p.ndim == 1:
            return (unfold(self._product(values, fold(x), op), x.shape[:-2], x.shape[-1]),)
        y, (n, k), batch = np.empty(*spec), x.shape[-2:], spec[0][:-2]
        nnz, count = values.shape[-1], math.prod(batch)
        values = np.broadcast_to(values, (*batch, nnz)).reshape(count, nnz)
        x = np.broadcast_to(x, (*batch, n, k)).reshape(count, n, k)
        out, step = (
            y.reshape(count, -1, k) if y.size else y,
            max(1, CACHED // max(nnz, *self.shape, 1)),
        )
        for i in range(0, count if y.size else 0, step):  # several members as one matrix of blocks
            some = slice(i, i + step)
            members = values[i] if step == 1 else values[some]
            found = self._product(members, x[some].reshape(-1, k), op)
            out[some] = found.reshape(out[some].shape)
        return (y,)

    def _product(self, values: Any, x: Any, op: str) -> Any:
        transposed, conjugated = VIEWS[op]
        if not conjugated:
            return self.entries.product(values, x, transposed)
        return np.conj(self.entries.product(values, np.conj(x), transposed))

    def project(self, u: Array, v: Array) -> Tree:
        if type(u) is np.ndarray:
            return self._project_on_host(u, v)[0]
        if host(u):
            return on_host(self._project_on_host, (), u, v)[0]
        (rows, cols), v, k = places(self.entries, u), conj(v), u.shape[-1]
        if traced(u) and 0 < k <= entry_programs.FEW:  # the compiler joins them
            return reduce(add, (u[..., q][..., rows] * v[..., q][..., cols] for q in range(k)))
        return namespace(u).sum(u[..., rows, :] * v[..., cols, :], axis=-1)

    def _project_on_host(self, u: Any, v: Any) -> tuple[Any, ...]:
        rows, cols, v = self.entries.rows, self.entries.cols, conj(v)
        if u.shape[1:] == v.shape[1:] == (1,) and len(rows) <= RUN:
            rows, cols = self.entries.places
            return (u.ravel().take(rows) * v.ravel().take(cols),)
        batch, k = broadcast(batch_of(u, 2), batch_of(v, 2)), max(u.shape[-1], v.shape[-1])
        make, count = np.empty if k else np.zeros, math.prod(batch)
        y = make((*batch, len(rows)), np.result_type(u, v))
        # the members of u, of v and of y, in one axis
        us, vs = (
            np.broadcast_to(x, (*batch, x.shape[-2], k)).reshape(count, x.shape[-2], k)
            for x in (u, v)
        )
        found, step = y.reshape(count, len(rows)), max(CACHED // max(len(rows) * k, 1), 1)
        for i in range(0, count if y.size and k else 0, step):
            some = slice(i, i + step)
            if step == 1 or count == 1:
                found[i] = _sampled(us[i], vs[i], rows, cols)
            else:  # small members together
                parts = np.take(us[some], rows, axis=1), np.take(vs[some], cols, axis=1)
                found[some] = np.einsum("beq,beq->be", *parts)
        return (y,)

    def todense(self, p: Tree) -> Array:
        m, n = self.shape
        place = self.entries.rows.astype(np.int64) * n + self.entries.cols
        if type(p) is np.ndarray and not self.entries.has_duplicates:
            dense = np.zeros((*p.shape[:-1], m * n), p.dtype)
            dense[..., place] = p
            return dense.reshape(*p.shape[:-1], m, n)
        return namespace(p).reshape(
            scatter(p[..., None], place, m * n)[..., 0], (*p.shape[:-1], m, n)
        )


def runs(count: int, most: int = RUN) -> Iterator[slice]:
    """Entries 0 to count, at most so many at a time."""
    return (slice(e, e + most) for e in range(0, count, most))


def _sampled(u: Any, v: Any, rows: Any, cols: Any) -> Any:
    """sum_q u[row_e, q] v[col_e, q], in runs of entries that fit into the cache."""
    dtype = np.result_type(u, v)
    u, v = np.ascontiguousarray(u, dtype), np.ascontiguousarray(v, dtype)
    by = _by_columns if u.shape[1] <= FEW else _by_rows
    return by(u, v, rows, cols)


def _by_columns(u: Any, v: Any, rows: Any, cols: Any) -> Any:
    u, v = np.ascontiguousarray(u.T), np.ascontiguousarray(v.T)
    y, most = np.empty(len(rows), u.dtype), min(RUN, len(rows))
    scratch, places = np.empty((2, most), u.dtype), np.empty((2, most), np.intp)
    for run in runs(len(rows)):
        total = y[run]
        (left, right), (i, j) = scratch[:, : len(total)], places[:, : len(total)]
        i[:], j[:] = rows[run], cols[run]
        for q, (a, b) in enumerate(zip(u, v, strict=True)):
            into = left if q else total
            # "clip" writes to `out` directly, "raise" would buffer; the indices are valid
            np.take(a, i, out=into, mode="clip")
            np.take(b, j, out=right, mode="clip")
            np.multiply(into, right, out=into)
            if q:
                np.add(total, left, out=total)
    return y


def _by_rows(u: Any, v: Any, rows: Any, cols: Any) -> Any:
    k = u.shape[1]
    most = max(min(CACHED // k, len(rows)), 1)
    y, scratch = np.empty(len(rows), u.dtype), np.empty((2, most, k), u.dtype)
    places = np.empty((2, most), np.intp)
    for run in runs(len(rows), most):
        total = y[run]
        (left, right), (i, j) = scratch[:, : len(total)], places[:, : len(total)]
        i[:], j[:] = rows[run], cols[run]
        np.take(u, i, axis=0, out=left, mode="clip")
        np.take(v, j, axis=0, out=right, mode="clip")
        np.einsum("eq,eq->e", left, right, out=total)
    return y


def cases(draw: Any) -> Iterator[tuple[Sparse, Tree]]:
    rows, cols = np.array([2, 0, 1, 3, 4, 0, 2, 3, 1, 0]), np.array([2, 0, 1, 3, 4, 3, 0, 1, 4, 0])
    strong = 4.0 * (rows == cols)
    yield Sparse(Pattern(rows, cols, (5, 5))), draw(10) + strong  # unsorted, (0, 0) twice
    yield Sparse(Pattern(rows, cols, (5, 5))), draw(2, 10) + strong
    yield Sparse(Pattern(rows[:6], cols[:6], (6, 5))), draw(6)
