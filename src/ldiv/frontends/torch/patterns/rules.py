"""Maps of index sets for ATen's operations: the entries of x that results depend on.

    elementwise        operations that torch tags as pointwise: the union of the operands
    moves              the operation itself, applied to the numbers of the elements
    sums, mixtures     over axes; along axes
    scatters           the gather that undoes them, applied to the numbers of the elements
    products           of matrices: a known operand's zeros are seen

A rule takes a `Operation` to the sets of its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from ldiv.frontends.index_sets import (
    Sets,
    Untraceable,
    by_known,
    chosen,
    elementwise,
    mixed,
    multiplied,
    numbers,
    of_product,
    selected,
    spread,
    summed,
    through,
    united,
)
from ldiv.frontends.torch.patterns.calls import (
    Operation,
    all_of_all,
    aten,
    by_units,
    nonzero,
    tensors_in,
)
from ldiv.frontends.torch.patterns.windows import WINDOWS


def sets_of_results(call: Operation) -> Sequence[Sets | None]:
    """The sets of results, by the table; an operation that is not in it raises Untraceable."""
    name, overload = call.op._schema.name.removeprefix("aten::"), call.op._schema.overload_name
    if call.op._schema.is_mutable and name.endswith("_"):  # in place: as that of the same name
        name = name[:-1]
        packet = getattr(aten, name, None)
        call.op = getattr(packet, overload or "default", call.op)
    rule = _TABLE.get(name)
    if rule is None and torch.Tag.pointwise in call.op.tags:
        rule = _elementwise
    if rule is None and _is_fixed(call):
        rule = by_units
    if rule is None or overload.endswith(("out", "grad_input")) or not call.results:
        raise Untraceable(name)
    found = rule(call)
    return found if isinstance(found, list) else [found]


def _is_fixed(call: Operation) -> bool:
    """Whether it is linear in one operand, and nothing else in it depends on x."""
    given = tensors_in([*call.args, *call.kwargs.values()])
    return len(call.moving) == 1 and all(call.is_constant(t) for t in given if call.sets(t) is None)


# -- elementwise --------------------------------------------------------------


def _elementwise(call: Operation) -> Sets:
    given = tensors_in([*call.args, *call.kwargs.values()])
    return elementwise(list(map(call.operand, given)), call.onto)


def _copied(call: Operation) -> Sets | None:
    """y.copy_(x): nothing is left of y."""
    source = call.args[1]
    sets = call.sets(source)
    return None if sets is None else spread(sets, tuple(source.shape), call.onto)


def _filled(call: Operation) -> None:
    return None


def _multiplied(call: Operation) -> Sets:
    return multiplied(list(map(call.operand, call.args[:2])), call.onto)


def _chosen(call: Operation) -> Sets:
    """where(c, a, b)."""
    which, *cases = call.args
    choice = (~nonzero(which)).astype(int) if call.is_constant(which) else None
    return chosen(choice, list(map(call.operand, cases)), call.onto)


# -- moves, sums, scatters ----------------------------------------------------


def _moved(call: Operation) -> list[Sets]:
    """Apply the move to numbers of elements, where 0 is none and also the fill value."""
    if not all(call.is_constant(t) for t in tensors_in(call.args) if call.sets(t) is None):
        return _by_computed(call)
    parts, at = [], 0

    def numbered(t: torch.Tensor) -> torch.Tensor:
        nonlocal at
        sets = call.sets(t)
        parts.append(sets)
        ids = torch.from_numpy(numbers(tuple(t.shape))) + (at + 1)
        at += t.numel()
        return ids

    def erased(t: Any) -> Any:
        """Replace operands without sets by zeros, and keep indices."""
        if isinstance(t, list | tuple):
            return type(t)(map(erased, t))
        moves = isinstance(t, torch.Tensor) and t.dtype.is_floating_point
        return torch.zeros(t.shape, dtype=torch.int64) if moves and call.sets(t) is None else t

    call.args = [erased(a) for a in call.args]
    out = call.again(numbered)
    stacked = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
    return [selected(stacked, y.numpy() - 1) for y in tensors_in([out])]


def _doubled(call: Operation) -> Sets:
    """The sets of the backward pass of glu: both halves of x see the same element."""
    ids = numbers(tuple(call.args[0].shape))
    return selected(call.sets(call.args[0]), np.concatenate([ids, ids], call.args[2]))


def _by_computed(call: Operation) -> list[Sets]:
    """The sets of indexing with an index that depends on x: mixed along its axis, if it has one."""
    axis, index = [*call.args, None, None][1:3]
    if not (isinstance(axis, int) and isinstance(index, torch.Tensor)):
        return all_of_all(call)
    found = []
    for t in tensors_in(call.args):
        if (sets := call.sets(t)) is not None:
            shape, along = list(t.shape), axis % max(t.ndim, 1)
            if [*shape[:along], *shape[along + 1 :]] != [
                *call.onto[:along],
                *call.onto[along + 1 :],
            ]:
                return all_of_all(call)
            found.append(mixed(sets, tuple(shape), (along,), call.onto))
    return [united(found)]


def _filled_in(call: Operation) -> list[Sets]:
    """The sets of a move that also fills in a number."""
    if not isinstance(call.args[3], torch.Tensor):
        call.args = [*call.args[:3], 0]
    return _moved(call)


def _summed(call: Operation) -> Sets:
    """sum(x), sum(x, axes), and means."""
    shape = tuple(call.args[0].shape)
    axes = call.args[1] if len(call.args) > 1 else None
    axes = range(len(shape)) if axes in (None, []) else np.atleast_1d(axes)
    return summed(call.sets(call.args[0]), shape, [a % max(len(shape), 1) for a in axes])


def _scattered(
    onto: Callable[..., tuple[torch.Tensor, torch.Tensor]],
) -> Callable[[Operation], Any]:
    """y = self + scattered source: its elements go where the gather that undoes it finds the
    numbers of y; `onto` says the source and these numbers.
    """

    def rule(call: Operation) -> Any:
        target = call.args[0]
        ids = torch.from_numpy(numbers(call.onto))
        source, to = onto(ids, *call.args, **call.kwargs)
        indices = [
            t for t in tensors_in(call.args) if t is not source and not t.is_floating_point()
        ]
        if not all(map(call.is_constant, indices)):
            return _by_computed(call)
        found = []
        if (own := call.sets(target)) is not None and target is not source:
            found.append(own)  # a superset for index_put without accumulation
        if (sets := call.sets(source)) is not None:
            shape, places = tuple(source.shape), to.numpy()
            every = np.broadcast_to(numbers(shape), places.shape)
            found.append(through(sets, places, every, math.prod(call.onto)))
        return united(found)

    return rule


def _unfolded(
    ids: torch.Tensor, grad: torch.Tensor, sizes: Any, dim: int, size: int, step: int
) -> Any:
    return grad, ids.unfold(dim, size, step)


def _by_index(
    ids: torch.Tensor, y: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False
) -> Any:
    return values, aten.index(ids, indices)


def _by_gather(
    ids: torch.Tensor, y: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> Any:
    if source.shape != index.shape:
        raise Untraceable("scatter_add of a part of its source")
    return source, ids.gather(dim, index)


def _by_number(
    ids: torch.Tensor,
    y: torch.Tensor,
    index: torch.Tensor,
    source: torch.Tensor,
    accumulate: bool = False,
) -> Any:
    return source, ids.take(index)


def _by_row(
    ids: torch.Tensor,
    y: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    alpha: Any = 1,
) -> Any:
    return source, ids.index_select(dim, index)


def _by_word(ids: torch.Tensor, grad: torch.Tensor, indices: torch.Tensor, *_: Any) -> Any:
    return grad, ids[indices]


# -- mixtures and products ----------------------------------------------------


def _mixed(axes: Callable[[Operation, int], Sequence[int]]) -> Callable[[Operation], Sets]:
    """Mix along axes of the one moving operand; if several move, all depends on all."""

    def rule(call: Operation) -> Sets:
        moving = [t for t in tensors_in(call.args) if call.sets(t) is not None]
        shape = tuple(moving[0].shape)
        if len(moving) > 1 or shape != call.onto:
            return all_of_all(call)[0]
        along = [a % len(shape) for a in axes(call, len(shape))]
        return mixed(call.sets(moving[0]), shape, along)

    return rule


def _product(names: str, call: Operation) -> Sets:
    """einsum of the last two operands, and what is added to it, if there are three."""
    (left, right), (own, out) = call.args[-2:], names.split("->")
    found = []
    if any(call.sets(t) is not None for t in (left, right)):
        shapes = [tuple(left.shape), tuple(right.shape)]
        sets = by_known(call.operand(left), call.operand(right)) if own == "ij,jk" else None
        if own == "ij,j" and sets is None:
            sets = by_known(call.operand(left), call.operand(right))
        if sets is None:
            sets = of_product([call.sets(left), call.sets(right)], shapes, own.split(","), out)
        found.append(sets)
    found += [
        spread(sets, tuple(added.shape), call.onto)
        for added in call.args[:-2]
        if (sets := call.sets(added)) is not None
    ]
    return united(found)


def _axis(place: int) -> Callable[[Operation, int], Sequence[int]]:
    """The axis, or the axes, that an argument says."""

    def axes(call: Operation, ndim: int) -> Sequence[int]:
        given = call.args[place]
        return [given] if isinstance(given, int) else given

    return axes


def _side(call: Operation, ndim: int) -> Sequence[int]:
    """A X = B mixes rows, X A = B columns."""
    return [ndim - 2 if call.kwargs.get("left", True) else ndim - 1]


# -- the table -----------------------------------------------------------------

_MOVES = """cat stack index index_select gather flip roll repeat constant_pad_nd slice_backward
select_backward diagonal_backward tril triu take slice_scatter select_scatter expand_copy
view_copy _unsafe_view unfold reflection_pad1d replication_pad1d masked_select diag_embed
permute_copy index_copy masked_scatter masked_scatter_backward rot90 pixel_shuffle
pixel_unshuffle channel_shuffle"""
_POINTWISE = """log_sigmoid_backward hardtanh_backward huber_loss_backward mse_loss_backward
smooth_l1_loss_backward binary_cross_entropy_backward softplus_backward elu_backward
leaky_relu_backward mish_backward hardswish_backward hardsigmoid_backward hardshrink_backward
softshrink_backward soft_margin_loss_backward rrelu_with_noise_backward"""
_TABLE: dict[str, Callable[[Operation], Any]] = {
    **dict.fromkeys(("_to_copy", "clone", "real", "detach", "alias"), _elementwise),
    **dict.fromkeys(("zero", "fill", "zeros_like", "new_zeros", "ones_like"), _filled),
    **dict.fromkeys(("new_empty", "empty_like", "new_empty_strided", "new_ones"), _filled),
    "copy": _copied,
    "mul": _multiplied,
    "where": _chosen,
    **dict.fromkeys(_POINTWISE.split(), _elementwise),
    "_prelu_kernel_backward": lambda call: [_elementwise(call)] * len(call.results),
    "glu_backward": _doubled,
    **dict.fromkeys(_MOVES.split(), _moved),
    "scatter": _filled_in,
    "index_fill": _filled_in,
    "sum": _summed,
    "mean": _summed,
    "put": _scattered(_by_number),
    "index_add": _scattered(_by_row),
    "scatter_add": _scattered(_by_gather),
    "index_put": _scattered(_by_index),
    "unfold_backward": _scattered(_unfolded),
    "embedding_dense_backward": _scattered(_by_word),
    # along axes
    "cumsum": _mixed(_axis(1)),
    "_softmax_backward_data": _mixed(_axis(2)),
    "_log_softmax_backward_data": _mixed(_axis(2)),
    "linalg_solve_triangular": _mixed(_side),
    **dict.fromkeys(("_linalg_solve_ex", "linalg_lu_solve", "cholesky_solve"), all_of_all),
    # products
    "mm": partial(_product, "ij,jk->ik"),
    "mv": partial(_product, "ij,j->i"),
    "dot": partial(_product, "i,i->"),
    **WINDOWS,
    "bmm": partial(_product, "bij,bjk->bik"),
    "addmm": partial(_product, "ij,jk->ik"),
    "addmv": partial(_product, "ij,j->i"),
    "baddbmm": partial(_product, "bij,bjk->bik"),
}
