"""Supernodes: columns that are eliminated together, as one dense block with the rows below it.

Columns whose patterns are nested are one supernode. A supernode is merged with its parent where
few explicit zeros come of it: larger blocks are faster than exact ones.
Reference: Ashcraft and Grimes, ACM Trans. Math. Softw. 15 (1989).
"""

from __future__ import annotations

import numpy as np

from ldiv.core.pattern import Index
from ldiv.engines.selected.tree import column_counts, elimination_tree, postorder

# Merged are supernodes with, together, at most 6 columns; at most 16 (32) if fewer than a quarter
# (8 in a hundred) of the entries are zeros; and any, if fewer than 2 in a hundred are.
RELAXED = (6, 16, 32, 0.25, 0.08, 0.02)


def fundamental(parent: Index, count: Index) -> Index:
    """The first column of each supernode, and n: columns j - 1, j with nested patterns share one."""
    n = len(parent)
    starts = np.empty(n + 1, np.int64)
    found = 0
    for j in range(n):
        if j == 0 or parent[j - 1] != j or count[j - 1] != count[j] + 1:
            starts[found] = j
            found += 1
    starts[found] = n
    return starts[: found + 1].copy()


def merged(
    parent: Index,
    count: Index,
    starts: Index,
    few: int,
    some: int,
    many: int,
    of_some: float,
    of_many: float,
    of_any: float,
) -> tuple[Index, Index]:
    """(into, above): the supernode that each one is merged into, and the parents of those that stay.

    `into[s] = s` for one that stays.
    """
    size = len(starts) - 1
    owner = np.empty(len(parent), np.int64)
    width = np.empty(size, np.int64)
    below = np.empty(size, np.int64)
    filled = np.empty(size, np.float64)  # the entries that are not zeros
    above = np.full(size, -1, np.int64)
    for s in range(size):
        for j in range(starts[s], starts[s + 1]):
            owner[j] = s
        width[s] = starts[s + 1] - starts[s]
        below[s] = count[starts[s + 1] - 1] - 1
        filled[s] = width[s] * (width[s] + 1) / 2 + width[s] * below[s]
    child = np.full(size, -1, np.int64)
    sibling = np.full(size, -1, np.int64)
    for s in range(size - 1, -1, -1):
        top = parent[starts[s + 1] - 1]
        if top != -1:
            above[s] = owner[top]
            sibling[s] = child[above[s]]
            child[above[s]] = s
    into = np.arange(size)
    for s in range(size):
        total = 0
        c = child[s]
        while c != -1:
            total += 1
            c = sibling[c]
        children = np.empty(total, np.int64)
        rows = np.empty(total, np.int64)
        c = child[s]
        for k in range(total):
            children[k] = c
            rows[k] = -below[c]
            c = sibling[c]
        adopted = -1  # the children of s after merging, as a chain
        for k in np.argsort(
            rows, kind="stable"
        ):  # first the child with most rows, which brings fewest zeros
            c = children[k]
            together = width[c] + width[s]
            entries = together * (together + 1) / 2 + together * below[s]
            zeros = 1 - (filled[c] + filled[s]) / entries
            if (
                together <= few
                or (together <= some and zeros < of_some)
                or (together <= many and zeros < of_many)
                or zeros < of_any
            ):
                into[c] = s
                width[s] = together
                filled[s] += filled[c]
                d = child[c]
                while d != -1:
                    after = sibling[d]
                    sibling[d] = adopted
                    adopted = d
                    above[d] = s
                    d = after
            else:
                sibling[c] = adopted
                adopted = c
        child[s] = adopted
    for s in range(size - 1, -1, -1):
        into[s] = into[into[s]]
    return into, above


def front_rows(
    indptr: Index, indices: Index, order: Index, starts: Index, above: Index, size: Index
) -> Index:
    """The rows below each supernode, sorted, one supernode after the other; `size` are the counts.

    They are those of its columns of A and those of its children, without its own columns.
    """
    n, count = len(order), len(above)
    place = np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    begin = np.zeros(count + 1, np.int64)
    for s in range(count):
        begin[s + 1] = begin[s] + size[s]
    rows = np.empty(begin[count], np.int64)
    seen = np.full(n, -1, np.int64)
    child = np.full(count, -1, np.int64)
    sibling = np.full(count, -1, np.int64)
    for s in range(count):
        at = begin[s]
        end = starts[s + 1]
        for j in range(starts[s], end):
            column = order[j]
            for e in range(indptr[column], indptr[column + 1]):
                i = place[indices[e]]
                if i >= end and seen[i] != s:
                    seen[i] = s
                    rows[at] = i
                    at += 1
        c = child[s]
        while c != -1:
            for k in range(begin[c], begin[c + 1]):
                i = rows[k]
                if i >= end and seen[i] != s:
                    seen[i] = s
                    rows[at] = i
                    at += 1
            c = sibling[c]
        rows[begin[s] : at].sort()
        if above[s] != -1:
            sibling[s] = child[above[s]]
            child[above[s]] = s
    return rows


def supernodes(indptr: Index, indices: Index, order: Index) -> tuple[Index, Index, Index, Index]:
    """(order, starts, above, below): the supernodes in postorder, and the order of the columns."""
    parent = elimination_tree(indptr, indices, order)
    post = postorder(parent)
    place = np.argsort(post)
    order, parent = order[post], np.where(parent[post] < 0, -1, place[parent[post]])
    count = column_counts(indptr, indices, order, parent)
    starts = fundamental(parent, count)
    into, above = merged(parent, count, starts, *RELAXED)
    # the supernodes that stay, in postorder, each with the columns of those merged into it
    kept = np.flatnonzero(into == np.arange(len(into)))
    number = np.full(len(into) + 1, -1)  # the last one: the parent of a root, which is -1
    number[kept] = np.arange(len(kept))
    parents = number[above[kept]]
    rank = np.empty(len(kept), np.int64)
    post = postorder(parents)
    rank[post] = np.arange(len(kept))
    columns = np.argsort(np.repeat(rank[number[into]], np.diff(starts)), kind="stable")
    width = np.bincount(rank[number[into]], np.diff(starts), len(kept)).astype(np.int64)
    tops = starts[1:][kept][post] - 1  # the last column of a supernode is its own
    return (
        order[columns],
        np.concatenate([[0], np.cumsum(width)]),
        np.where(parents[post] < 0, -1, rank[parents[post]]),
        count[tops] - 1,
    )
