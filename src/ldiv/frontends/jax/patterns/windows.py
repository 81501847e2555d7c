"""Index sets through windows: convolutions, and sums, products and maxima over windows.

Which element of its window a maximum is depends on x, so that it depends on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Index
from ldiv.frontends.index_sets import numbers, through, united
from ldiv.frontends.jax.patterns.rules import Cell, all_of_all, shapes_of


def _windows(
    ids: Index,
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    dilation: Sequence[int],
) -> Index:
    """The elements in each window over the last axes, in as many new axes; -1 for none."""
    first = ids.ndim - len(sizes)
    for axis, (step, (low, high)) in enumerate(zip(base_dilation, padding, strict=True), first):
        size = max((ids.shape[axis] - 1) * step + 1, 0)
        wide = np.full((*ids.shape[:axis], low + size + high, *ids.shape[axis + 1 :]), -1)
        onto, kept = np.moveaxis(wide, axis, 0), np.moveaxis(ids, axis, 0)
        places = low + step * np.arange(len(kept))
        inside = (places >= 0) & (places < len(onto))  # padding may be negative
        onto[places[inside]] = kept[inside]
        ids = wide
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, sizes, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(ids, spans, tuple(range(first, ids.ndim)))
    steps = [slice(None)] * first + [slice(None, None, s) for s in (*strides, *dilation)]
    return seen[tuple(steps)]


def _paired(to: Index, seen: Index) -> tuple[Index, Index]:
    to, seen = np.broadcast_arrays(to, seen)
    return to[seen >= 0], seen[seen >= 0]


def _reduced(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """The sets of a reduction over windows, for any function that reduces them."""
    given = [
        (c.sets, s) for c, s in zip(ins, shapes_of(eqn.invars), strict=True) if c.sets is not None
    ]
    onto, params = shapes_of(eqn.outvars)[0], eqn.params
    if any(len(shape) != len(params["window_dimensions"]) for _, shape in given):
        return all_of_all(eqn, ins)
    found = []
    for sets, shape in given:
        seen = _of_window(numbers(shape), params)
        to = numbers(onto).reshape(*onto, *(1,) * len(shape))
        found.append(through(sets, *_paired(to, seen), math.prod(onto)))
    return [Cell(united(found)) for _ in eqn.outvars]


def _of_window(ids: Index, params: Any) -> Index:
    ones = (1,) * ids.ndim
    dilations = (params.get("base_dilation", ones), params.get("window_dilation", ones))
    return _windows(
        ids, params["window_dimensions"], params["window_strides"], params["padding"], *dilations
    )


def _scattered_to_maxima(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """The sets of select_and_scatter: a value may go to any element of its window."""
    source, _ = ins
    if source.sets is None:
        return all_of_all(eqn, ins)
    (shape, image), params = shapes_of(eqn.invars), eqn.params
    seen = _of_window(numbers(image), params)
    numbered = numbers(shape).reshape(*shape, *(1,) * len(shape))
    from_, to = _paired(numbered, seen)
    return [Cell(through(source.sets, to, from_, math.prod(image)))]


def _convolved(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """The sets of a convolution: an element sees its window of the image in all group channels."""
    params, where = eqn.params, eqn.params["dimension_numbers"]
    if ins[0].sets is None or ins[1].sets is not None or params["batch_group_count"] > 1:
        return all_of_all(eqn, ins)
    (image, kernel), (onto,) = shapes_of(eqn.invars), shapes_of(eqn.outvars)
    seen = _windows(
        numbers(image).transpose(where.lhs_spec),
        [kernel[i] for i in where.rhs_spec[2:]],
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    )
    seen = np.moveaxis(seen, 1, -1)
    to = np.moveaxis(numbers(onto).transpose(where.out_spec), 1, 0)
    to = to.reshape(*to.shape, *(1,) * (seen.ndim + 1 - to.ndim))
    groups = params["feature_group_count"]
    pairs = [
        _paired(other, own[None])
        for own, other in zip(np.split(seen, groups, -1), np.split(to, groups, 0), strict=True)
    ]
    to, seen = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return [Cell(through(ins[0].sets, to, seen, math.prod(onto)))]


WINDOWS: dict[str, Callable[[Any, list[Cell]], list[Cell]]] = {
    "conv_general_dilated": _convolved,
    "reduce_window_sum": _reduced,
    "reduce_window": _reduced,
    "select_and_gather_add": _reduced,
    "select_and_scatter_add": _scattered_to_maxima,
}
