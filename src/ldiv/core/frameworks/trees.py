"""Arguments of rules are nested tuples of arrays; a single array is the smallest tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ldiv.core.frameworks.array_protocol import Array

HostArray: TypeAlias = np.ndarray[Any, Any]  # of engines on the host, which call NumPy and SciPy
Tree = Any  # a nested tuple of arrays; a single array is the smallest tree
Trees: TypeAlias = tuple[Tree, ...]  # the arguments of a rule, their tangents or their cotangents
Arrays: TypeAlias = tuple[Array, ...]  # the outputs of a rule
Tangents: TypeAlias = tuple[Array | None, ...]  # the tangents of the outputs; None is zero
Cotangents: TypeAlias = tuple[Any, ...]  # the cotangents of the outputs; None is zero


def leaves(tree: Tree) -> list[Any]:
    """The arrays of a nested tuple, from left to right."""
    if not isinstance(tree, tuple):
        return [tree]
    for branch in tree:
        if isinstance(branch, tuple):
            return [leaf for branch in tree for leaf in leaves(branch)]
    return list(tree)


def rebuild(like: Tree, flat: Sequence[Any]) -> Tree:
    """The nested tuple with the shape of `like` and the leaves `flat`."""
    if like.__class__ is int:
        return next(iter(flat))
    if isinstance(like, tuple):
        for branch in like:
            if isinstance(branch, tuple):
                break
        else:
            return tuple(flat)
    return _take(like, iter(flat))


def _take(like: Tree, flat: Iterator[Any]) -> Tree:
    return tuple(_take(branch, flat) for branch in like) if isinstance(like, tuple) else next(flat)
