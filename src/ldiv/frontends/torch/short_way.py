"""What is compiled of a rule, on tensors of a known kind: the outputs first, then a node of the graph.

The node saves what `Few` saves, and has all of its derivatives; its own is the compiled one of a
backward pass that nobody differentiates, by the factor on the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ldiv.core.compiled import in_rows
from ldiv.core.holder import Holder, owner
from ldiv.core.rule import Rule
from ldiv.frontends.torch import few, private
from ldiv.frontends.torch.functions import Few, save, token_of
from ldiv.frontends.torch.recorders import unobserved
from ldiv.frontends.torch.values import PLAIN, as_tensor, plain_values_of


def short(rule: Rule, flat: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...] | None:
    """The outputs, or None where what is compiled declines, or anything looks on."""
    if not unobserved() or private.in_forward_mode() or (compiled := rule.compiled) is None:
        return None
    # those of a transform of torch.func that has ended are plain tensors again
    flat, grows = [private.unwrapped_if_dead(x) for x in flat], False
    for x in flat:
        grows = grows or x.requires_grad
    given = _in_rows(flat)
    if given is None or (made := compiled.forward(*given)) is None:
        return None
    outputs, factor = made
    found = tuple([as_tensor(y) for y in outputs])
    return _grown(rule, (factor, found), *flat) if grows and torch.is_grad_enabled() else found


def _in_rows(xs: Sequence[torch.Tensor | None]) -> list[Any] | None:
    """As C++ reads them, by DLPack: in the memory of this process, row after row, and no view that is
    to be conjugated or negated; None where that is not so.
    """
    found: list[Any] = []
    for x in xs:
        if x is None:
            found.append(None)
        elif not x.is_cpu or type(x) not in PLAIN:
            return None
        elif private.is_zero(x) or x.is_neg() or x.is_conj():
            found.append(in_rows(plain_values_of(x)))
        else:  # of columns PyTorch makes rows by tiles
            found.append(x if x.is_contiguous() else x.detach().contiguous())
    return found


ABSENT = object()


class Short(Few):
    """The node of outputs that are there."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, made: Any, *flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs: tuple[torch.Tensor, ...]
        factor, outputs = made
        if (keeper := owner()) is None:
            keeper = Holder()
            if factor is not None:
                keeper.keep(factor)
        token: Any = token_of(keeper)
        token.factor = factor
        save(ctx, rule, token, flat, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        if not few.is_plain_backward(cotangents):
            return Few.backward(ctx, *cotangents)
        token, *saved = ctx.saved_tensors
        need = ctx.needs_input_grad[2:]
        args, out = saved[: len(need)], _in_rows(saved[len(need) :])
        # a hook may have put another tensor in the token's place
        factor, given = getattr(token, "factor", ABSENT), _in_rows(cotangents)
        if factor is None:
            args = _in_rows(args)
        if factor is not ABSENT and args is not None and out is not None and given is not None:
            found = ctx.rule.compiled.backward(factor, need, tuple(given), tuple(out), *args)
            if found is not None:
                return None, None, *[x if x is None else as_tensor(x) for x in found]
        return Few.pulled_back(ctx, cotangents, token, *saved)


# `Function.apply` looks for transforms and for tensors of those that have ended, as `short` has done.
_grown: Any = super(torch.autograd.Function, Short).apply
