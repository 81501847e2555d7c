"""torch.ops.ldiv.rule(key, x): a rule as an operator of PyTorch, which recorded programs call.

PyTorch knows it by its name, by the shapes of its results and by its derivative; the rule is found
by its key when the program runs. An operator holds no objects: the factors that its derivatives
find again are in the store, as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ldiv.core.finite import unwarned
from ldiv.core.holder import holding, store
from ldiv.core.trees import rebuild
from ldiv.frontends.torch import private
from ldiv.frontends.torch.evaluation import kernel, leading, pullback
from ldiv.frontends.torch.recorded import recorded, rule_of
from ldiv.frontends.torch.recorders import (
    recording_error,
    shapes_alone,
    sized,
    unfilled,
    values_known,
)


@torch.library.custom_op("ldiv::rule", mutates_args=(), schema="(str key, Tensor[] xs) -> Tensor[]")
def run(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    if unfilled():
        with private.FakeTensorMode() as mode:
            shapes = _shapes(key, [mode.from_tensor(x) for x in xs])
        return [torch.zeros(y.shape, dtype=y.dtype, device=y.device) for y in shapes]
    with values_known(), torch.no_grad(), holding(store):
        return _separate(kernel(rule_of(key), [x.detach() for x in xs]), xs)


def _separate(ys: Sequence[torch.Tensor], xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results in rows, as programs expect them, and in memory of their own."""
    found, taken = [], {x.untyped_storage().data_ptr() for x in xs}
    for y in ys:
        own = y.resolve_conj().resolve_neg().contiguous()
        own = own.clone() if own.untyped_storage().data_ptr() in taken else own
        taken.add(own.untyped_storage().data_ptr())
        found.append(own)
    return found


@run.register_fake
def _shapes(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """By a run of the kernel on tensors without numbers."""
    rule = rule_of(key)
    try:
        with shapes_alone(), unwarned(), holding(None):
            ys = rule.kernel(*rebuild(rule.core, [sized(x) for x in xs]))
    except Exception as error:  # a kernel that must read numbers
        raise recording_error() from error
    return [torch.empty(y.shape, dtype=y.dtype, device=y.device) for y in ys]


@run.register_vmap
def _over_batch(
    info: Any, dims: tuple[Any, list[int | None]], key: str, xs: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[int]]:
    ys = torch.ops.ldiv.rule(key, leading(rule_of(key), xs, dims[1]))
    return ys, [0] * len(ys)


# -- the derivative -----------------------------------------------------------


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    key, xs = inputs
    ctx.rule, ctx.count = rule_of(key), len(xs)
    ctx.save_for_backward(*xs, *output)


def _backward(ctx: Any, cotangents: Sequence[torch.Tensor | None]) -> Any:
    smooth = ctx.rule.differentiable or (True,) * len(cotangents)
    cotangents = [c if s else None for c, s in zip(cotangents, smooth, strict=True)]
    need = [bool(n) for n in ctx.needs_input_grad[1]]
    pull: Callable[..., Any] = partial(pullback, ctx.rule, need)
    return None, pull(*ctx.saved_tensors, *cotangents)


run.register_autograd(_backward, setup_context=_save)
torch.library.register_torch_dispatch("ldiv::rule", private.ProxyMode, recorded)
