"""Index sets through convolutions, pools, paddings, norms, and their backward passes.

windows     the pairs of an element and what sees it, either way round
planes      an index that is computed: all of an image depends on all of it
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ldiv.core.frameworks.pattern import Index
from ldiv.frontends.index_sets import Sets, Shape, mixed, numbers, selected, summed, through
from ldiv.frontends.torch.patterns.calls import Operation, all_of_all, aten, by_units, tensors_in


def _convolved(call: Operation) -> Sets:
    """The sets of a convolution: an element sees its window of the image in all group channels."""
    image, *_ = call.args
    if len(call.moving) > 1 or (sets := call.sets(image)) is None:
        return all_of_all(call)[0]
    here, there = _windows(tuple(image.shape), call.onto, *call.args[1:2], *call.args[3:])
    return through(sets, there, here, math.prod(call.onto))


def _convolved_back(call: Operation) -> list[Sets]:
    """The pairs of the convolution, reversed; the kernel sees all of the images."""
    y_bar, image, kernel, _, *options, wanted = call.args
    if len(call.moving) > 1 or (sets := call.sets(y_bar)) is None or not wanted[0]:
        return all_of_all(call)
    here, there = _windows(tuple(image.shape), tuple(y_bar.shape), kernel, *options)
    return [through(sets, here, there, math.prod(image.shape)), *all_of_all(call, 1)]


def _windows(
    image: Shape,
    onto: Shape,
    kernel: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _: Sequence[int],
    groups: int,
) -> tuple[Index, Index]:
    """Pairs of an element of the image, and one of what is convolved from it."""
    if transposed:  # which is the image of the other convolution
        options = (kernel, stride, padding, dilation, False, _, groups)
        return _windows(onto, image, *options)[::-1]
    ids = np.pad(numbers(image) + 1, [(0, 0), (0, 0), *((p, p) for p in padding)])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel.shape[2:], strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(ids, spans, tuple(range(2, ids.ndim)))
    steps = [slice(None)] * 2 + [slice(None, None, s) for s in (*stride, *dilation)]
    seen = np.moveaxis(seen[tuple(steps)], 1, -1) - 1
    to = np.moveaxis(numbers(onto), 1, 0)
    to = to.reshape(*to.shape, *(1,) * (seen.ndim + 1 - to.ndim))
    found = []
    for own, other in zip(np.split(seen, groups, -1), np.split(to, groups, 0), strict=True):
        own, other = np.broadcast_arrays(own[None], other)
        found.append((own[own >= 0], other[own >= 0]))
    seen, to = map(np.concatenate, zip(*found, strict=True))
    return seen, to


# -- fixed by shapes, or by an index that is computed ---------------------------


def _padded_back(call: Operation) -> Sets:
    """An element of the padded image goes where padding took it from."""
    y_bar, _, padding = call.args
    name = call.op._schema.name.removeprefix("aten::").removesuffix("_backward")
    ids = torch.from_numpy(numbers(call.onto)).double()
    to = getattr(aten, name)(ids, padding).numpy().astype(np.intp)
    return through(call.sets(y_bar), to, numbers(tuple(y_bar.shape)), math.prod(call.onto))


def _by_planes(count: int) -> Callable[[Operation], list[Sets]]:
    """Mix along the last axes, whatever the index."""

    def rule(call: Operation) -> list[Sets]:
        if len(call.moving) > 1 or (sets := call.sets(call.args[0])) is None:
            return all_of_all(call)
        shape = tuple(call.args[0].shape)
        axes = range(len(shape) - count, len(shape))
        return [mixed(sets, shape, axes, tuple(y.shape)) for y in call.results]

    return rule


def _by_bag(call: Operation) -> list[Sets]:
    """Rows of a table, by indices that may be computed."""
    if all(call.is_constant(t) for t in tensors_in(call.args) if call.sets(t) is None):
        return by_units(call)
    sets, shape = call.sets(call.args[0]), tuple(call.args[0].shape)
    return [mixed(sets, shape, (0,), call.onto)] if sets is not None else all_of_all(call)


def _sampled_back(call: Operation) -> list[Sets]:
    """grid_sample: of the image by planes, of the grid each point by itself."""
    y_bar, image, grid, *_, wanted = call.args
    if len(call.moving) > 1 or (sets := call.sets(y_bar)) is None:
        return all_of_all(call)
    shape, found = tuple(y_bar.shape), []
    if wanted[0] and call.is_constant(grid):
        found.append(by_units(call)[0])
    elif wanted[0]:
        found += [mixed(sets, shape, range(2, len(shape)), tuple(image.shape))]
    if len(call.results) > len(found):
        points = numbers((shape[0], *shape[2:]))[..., None]
        found.append(selected(summed(sets, shape, (1,)), np.broadcast_to(points, grid.shape)))
    return found


def _normed_back(axes: Callable[[Operation], tuple[Shape, Sequence[int], Sequence[int]]]) -> Any:
    """Mix the image along the axes of its mean; sum over all other axes for weight and bias."""

    def rule(call: Operation) -> list[Sets]:
        if len(call.moving) > 1 or (sets := call.sets(call.args[0])) is None:
            return all_of_all(call)
        shape, along, over = axes(call)
        image = mixed(sets, shape, along)
        every = [image, *[summed(sets, tuple(call.args[0].shape), over)] * 2]
        return [s for s, wanted in zip(every, call.args[-1], strict=True) if wanted]

    return rule


def _of_layer(call: Operation) -> tuple[Shape, Sequence[int], Sequence[int]]:
    shape = tuple(call.args[0].shape)
    first = len(shape) - len(call.args[2])
    return shape, range(first, len(shape)), range(first)


def _of_batch(call: Operation) -> tuple[Shape, Sequence[int], Sequence[int]]:
    shape, in_training = tuple(call.args[0].shape), call.args[7]
    others = [a for a in range(len(shape)) if a != 1]
    return shape, others if in_training else (), others


def _of_group(call: Operation) -> tuple[Shape, Sequence[int], Sequence[int]]:
    shape, groups = tuple(call.args[0].shape), call.args[8]
    others = [a for a in range(len(shape)) if a != 1]
    return (shape[0] * groups, math.prod(shape) // (shape[0] * groups)), (1,), others


def _of_classes(call: Operation) -> Sets:
    """nll_loss: the classes of a sample, of its own loss or of their mean."""
    ids = numbers(tuple(call.args[0].shape))
    ids = np.expand_dims(ids, 1 if ids.ndim else ())
    return selected(call.sets(call.args[0]), np.broadcast_to(ids, call.onto))


_FIXED = """avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward
_adaptive_avg_pool3d_backward upsample_nearest1d_backward upsample_nearest2d_backward
upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward
upsample_trilinear3d_backward im2col col2im"""
_PLANES = "max_pool2d_with_indices adaptive_max_pool2d fractional_max_pool2d"
_SPACES = "max_pool3d_with_indices adaptive_max_pool3d fractional_max_pool3d"
WINDOWS: dict[str, Callable[[Operation], Any]] = {
    "convolution": _convolved,
    "convolution_backward": _convolved_back,
    **dict.fromkeys(_FIXED.split(), by_units),
    **{f"{name}_backward": _by_planes(2) for name in _PLANES.split()},
    **{f"{name}_backward": _by_planes(3) for name in _SPACES.split()},
    **{
        f"re{kind}_pad{n}d_backward": _padded_back
        for kind in ("flection", "plication")
        for n in (1, 2, 3)
    },
    "grid_sampler_2d_backward": _sampled_back,
    "grid_sampler_3d_backward": _sampled_back,
    "_cdist_backward": _by_planes(1),
    "_embedding_bag_backward": _by_bag,
    "_embedding_bag_dense_backward": _by_bag,
    "_segment_reduce_backward": all_of_all,
    "native_layer_norm_backward": _normed_back(_of_layer),
    "native_batch_norm_backward": _normed_back(_of_batch),
    "native_group_norm_backward": _normed_back(_of_group),
    "nll_loss_backward": _of_classes,
    "nll_loss2d_backward": _of_classes,
}
