"""Index sets: for each element of an array the indices of the entries of x that it depends on.

    y = g(u, v)     D(y) = D_u D(u) + D_v D(v),   sums and products of booleans: the chain rule

D(u) is a sparse boolean matrix, a row for each element of u in C order; D_u has an entry (i, j)
where y_i may depend on u_j. An operation is such a matrix, given by its entries (to, source); all
of them are supersets, so that no entry of a Jacobian is missed.

Each kind of operation is defined here once, as a map of the sets of its operands. The tables of a
front end assign a kind to each of its operations, and read their arguments.

Reference: Griewank and Walther, Evaluating Derivatives, section 7.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Index
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.linear import Matmul, Outer
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.structure import VIEWS

Sets = Any  # sp.csr_array (elements, n) of booleans
Shape = tuple[int, ...]
LARGEST = 1 << 24  # entries of one array's sets; what is denser is no sparse pattern


class Operand(NamedTuple):
    """An array that goes into an operation: its sets, None for none, and where it is not zero, None
    unless its numbers do not depend on x.
    """

    shape: Shape
    sets: Sets | None
    nonzero: Callable[[], Index] | None


class Untraceable(Exception):
    """An operation that is in no table, or sets that are too large."""


def each(n: int) -> Sets:
    """The sets of x itself."""
    return sp.csr_array(sp.eye_array(n, dtype=bool, format="csr"))


def whole(shape: Shape) -> Sets | None:
    """The sets of a vector that depends on all of another; None if they are too large."""
    return None if math.prod(shape) > LARGEST else sp.csr_array(np.ones(shape, dtype=bool))


def numbers(shape: Shape) -> Index:
    """The elements of an array, numbered in C order."""
    return np.arange(math.prod(shape), dtype=np.intp).reshape(shape)


def through(sets: Sets, to: Index, source: Index, size: int) -> Sets:
    """The sets of an array of `size` elements, whose element to[k] depends on element source[k]."""
    to, source = to.ravel(), source.ravel()
    if np.diff(sets.indptr)[source].sum() > LARGEST:
        raise Untraceable("a pattern that is not sparse")
    operation = sp.csr_array(
        (np.ones(len(to), bool), (to, source)), shape=(size, sets.shape[0]), dtype=bool
    )
    return operation @ sets


def selected(sets: Sets, source: Index) -> Sets:
    """The sets of an array whose elements are the elements `source` of another, or -1: nothing."""
    source = source.ravel()
    to = np.flatnonzero(source >= 0)
    return through(sets, to, source[to], len(source))


def spread(sets: Sets, shape: Shape, onto: Shape) -> Sets:
    """The sets of an array that is broadcast."""
    if shape == onto:
        return sets
    return selected(sets, np.broadcast_to(numbers(shape), onto))


def united(parts: Sequence[Sets]) -> Sets:
    """Unions of the sets of arrays of one size."""
    total = parts[0]
    for sets in parts[1:]:
        total = total + sets
    return total


def summed(sets: Sets, shape: Shape, axes: Sequence[int]) -> Sets:
    """The sets of a reduction over some axes."""
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    to = np.broadcast_to(numbers(kept), shape)
    return through(sets, to, numbers(shape), math.prod(kept))


def mixed(sets: Sets, shape: Shape, axes: Sequence[int], onto: Shape | None = None) -> Sets:
    """The sets of an array each of whose elements depends on all others along some axes, in which
    it may be of another size.
    """
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    return spread(summed(sets, shape, axes), kept, shape if onto is None else onto)


def dense(parts: Sequence[Sets], size: int) -> Sets:
    """The sets of an array all of whose elements depend on all operands."""
    every = united([summed(sets, (sets.shape[0],), (0,)) for sets in parts])
    return spread(every, (1,), (size,))


def elementwise(operands: Sequence[Operand], onto: Shape) -> Sets:
    """Sums, products with numbers, any function of each element: the union of the operands."""
    return united([spread(o.sets, o.shape, onto) for o in operands if o.sets is not None])


def multiplied(factors: Sequence[Operand], onto: Shape) -> Sets:
    """The sets of a product, empty where a known factor is zero."""
    found = elementwise(factors, onto)
    for factor in factors:
        if factor.sets is None and factor.nonzero is not None:
            return _kept(found, factor.nonzero(), onto)
    return found


def chosen(choice: Index | None, cases: Sequence[Operand], onto: Shape) -> Sets:
    """The sets of a selection: of the chosen case where the choice is known, else of all cases."""
    if choice is None:
        return elementwise(cases, onto)
    return united(
        [
            _kept(spread(case.sets, case.shape, onto), choice == i, onto)
            for i, case in enumerate(cases)
            if case.sets is not None
        ]
    )


def _kept(sets: Sets, where: Index, onto: Shape) -> Sets:
    """The sets, empty outside of `where`."""
    if where.all():
        return sets
    return selected(sets, np.where(np.broadcast_to(where, onto), numbers(onto), -1))


def by_known(left: Operand, right: Operand) -> Sets | None:
    """The sets of C X or X C for a known matrix C with zeros and a matrix or vector X; None if no
    factor is such a C.
    """
    if left.sets is None and right.sets is not None and left.nonzero is not None:
        c = left.nonzero()
        return None if c.all() else of_matrix(right.sets, c, math.prod(right.shape[1:]))
    if right.sets is None and left.sets is not None and right.nonzero is not None:
        c, rows = right.nonzero().T, left.shape[0]
        if c.ndim < 2 or c.all():
            return None
        y = of_matrix(selected(left.sets, numbers(left.shape).T), c, rows)
        return selected(y, numbers((c.shape[0], rows)).T)
    return None


def of_product(
    parts: Sequence[Sets | None], shapes: Sequence[Shape], names: Sequence[str], out: str
) -> Sets:
    """The sets of einsum of two tensors: each is summed over the names that are not in `out`, and
    then broadcast.
    """
    size = dict(zip("".join(names), sum(shapes, ()), strict=True))
    onto, found = tuple(size[a] for a in out), []
    for sets, shape, own in zip(parts, shapes, names, strict=True):
        if sets is not None:
            rows = summed(sets, shape, [i for i, a in enumerate(own) if a not in out])
            left = "".join(a for a in own if a in out)
            at = numbers(tuple(size[a] for a in left))
            order = [left.index(a) for a in out if a in left]
            at = at.transpose(order).reshape([size[a] if a in left else 1 for a in out])
            found.append(selected(rows, np.broadcast_to(at, onto)))
    return united(found)


def of_matrix(sets: Sets, nonzero: Any, columns: int) -> Sets:
    """The sets of C X, for a known C (m, n) that has zeros, and X (n, columns)."""
    i, j = np.nonzero(nonzero)
    k = np.arange(columns)
    to, source = i[:, None] * columns + k, j[:, None] * columns + k
    return through(sets, to, source, nonzero.shape[0] * columns)


def of_rule(
    rule: Rule, shapes: Sequence[Shape], parts: Sequence[Sets | None], out: Sequence[Shape]
) -> list[Sets]:
    """The sets of the outputs of a rule. Products with a sparse matrix follow its pattern; outputs of
    other rules depend on all arguments of the same batch member.
    """
    if isinstance(rule, Matmul | Outer) and (of_entries := _of_sparse(rule, shapes, parts, out[0])):
        return [united(of_entries)]
    depth = max(len(s) - c for s, c in zip(shapes, leaves(rule.core), strict=True))
    batch = tuple(out[0][:depth])
    found: list[Sets] = []
    for shape, core, sets in zip(shapes, leaves(rule.core), parts, strict=True):
        if sets is not None:
            own = tuple(range(len(shape) - core, len(shape)))
            left = tuple(shape[: len(shape) - core])
            found.append(spread(summed(sets, shape, own), left, batch))
    one = united(found)
    return [spread(one, (*batch, *(1,) * (len(s) - depth)), s) for s in out]


def _of_sparse(
    rule: Matmul | Outer, shapes: Sequence[Shape], parts: Sequence[Sets | None], out: Shape
) -> list[Sets]:
    """y[i, :] of the entry p_e at (i, j) and of x[j, :]; p_e of u[i, :] and v[j, :]."""
    base, op = rule.structure.unview()
    if (pattern := base.parameter_places) is None:
        return []
    rows, cols = pattern.places
    if VIEWS[op][0]:
        rows, cols = cols, rows
    ids = [numbers(s) for s in shapes]
    if isinstance(rule, Matmul):
        entries, onto = [ids[0][..., None], ids[1][..., cols, :]], numbers(out)[..., rows, :]
    else:
        entries, onto = [ids[0][..., rows, :], ids[1][..., cols, :]], numbers(out)[..., None]
    whole = np.broadcast_shapes(*(e.shape for e in entries), onto.shape)
    onto = np.broadcast_to(onto, whole)
    return [
        through(sets, onto, np.broadcast_to(at, whole), math.prod(out))
        for sets, at in zip(parts, entries, strict=True)
        if sets is not None
    ]
