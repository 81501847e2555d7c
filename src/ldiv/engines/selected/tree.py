"""The elimination tree of a symmetric pattern, postordered, and the column sizes of its factor.

    parent(j) = min { i > j : L[i, j] != 0 }
    count(j)  = the number of entries of column j of L, its diagonal included

Reference: Davis, Direct Methods for Sparse Linear Systems (2006), sections 4.1 to 4.5; Gilbert, Ng,
Peyton, SIAM J. Matrix Anal. Appl. 15 (1994).
"""

from __future__ import annotations

import numpy as np

from ldiv.core.pattern import Index


def elimination_tree(indptr: Index, indices: Index, order: Index) -> Index:
    """The parents of the columns of A[order][:, order], -1 for a root."""
    n = len(order)
    place = np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)  # of each column, as high as is known: compressed paths
    for j in range(n):
        column = order[j]
        for e in range(indptr[column], indptr[column + 1]):
            i = place[indices[e]]
            while i != -1 and i < j:
                above = ancestor[i]
                ancestor[i] = j
                if above == -1:
                    parent[i] = j
                i = above
    return parent


def postorder(parent: Index) -> Index:
    """An order of the nodes of a forest in which every subtree is contiguous, its root last."""
    n = len(parent)
    child = np.full(n, -1, np.int64)
    sibling = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        if parent[j] != -1:
            sibling[j] = child[parent[j]]
            child[parent[j]] = j
    order = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    done = 0
    for root in range(n):
        if parent[root] != -1:
            continue
        stack[0] = root
        top = 0
        while top >= 0:
            j = stack[top]
            if child[j] == -1:
                order[done] = j
                done += 1
                top -= 1
            else:
                top += 1
                stack[top] = child[j]
                child[j] = sibling[child[j]]
    return order


def column_counts(indptr: Index, indices: Index, order: Index, parent: Index) -> Index:
    """The entries in each column of L, for a postordered tree: without forming L.

    Column j has as many as leaves of row subtrees lie under it, less their least common ancestors.
    """
    n = len(order)
    place = np.empty(n, np.int64)
    for k in range(n):
        place[order[k]] = k
    count = np.zeros(n, np.int64)
    first = np.full(n, -1, np.int64)  # the first descendant
    for k in range(n):
        j = k
        if first[j] == -1:
            count[j] = 1
        while j != -1 and first[j] == -1:
            first[j] = k
            j = parent[j]
    latest = np.full(n, -1, np.int64)  # the first descendant of the latest leaf of each row
    leaf = np.full(n, -1, np.int64)  # and that leaf
    ancestor = np.arange(n)
    for j in range(n):
        if parent[j] != -1:
            count[parent[j]] -= 1
        column = order[j]
        for e in range(indptr[column], indptr[column + 1]):
            i = place[indices[e]]
            if i <= j or first[j] <= latest[i]:
                continue  # j is no leaf of the subtree of row i
            latest[i] = first[j]
            before = leaf[i]
            leaf[i] = j
            count[j] += 1
            if before != -1:
                common = before
                while common != ancestor[common]:
                    common = ancestor[common]
                while before != common:
                    above = ancestor[before]
                    ancestor[before] = common
                    before = above
                count[common] -= 1
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(n):
        if parent[j] != -1:
            count[parent[j]] += count[j]
    return count
