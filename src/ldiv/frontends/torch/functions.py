"""y = rule(x) with x_bar = rule.vjp(y_bar), dy = rule.jvp(dx): autograd.Functions for all rules.

There are two forms of it, `Eager` and, for torch.func, `Transformed`; and `Few`, an `Eager` whose
kernel and vjp see NumPy arrays. In all the arguments are the rule, the owner of its factors, and
then the tensors. Saved are the tensors and the outputs, after a
token that carries the owner: so a factor lives as long as the buffers of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad

from ldiv.core.closures import counting_closures
from ldiv.core.holder import Holder, Owner, holding, owner
from ldiv.core.rule import Rule
from ldiv.frontends.torch import closures, few, private
from ldiv.frontends.torch.evaluation import kernel, leading, pullback, pushforward
from ldiv.frontends.torch.functionalized import is_functionalized, one_level_below
from ldiv.frontends.torch.legacy_batching import over_legacy_batch
from ldiv.frontends.torch.recorded import record
from ldiv.frontends.torch.recorders import tangents_recorded, traced, unobserved
from ldiv.frontends.torch.rule_operator import run


def bind(rule: Rule, flat: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The kernel alone where no derivative can be asked for, else a Function."""
    if few.are_few(rule, flat) and unobserved() and not private.in_forward_mode():
        if torch.is_grad_enabled():
            for x in flat:
                if x.requires_grad:
                    return Few.apply(rule, _keeper(), *flat)  # type: ignore[no-untyped-call]
        return few.kernel(rule, flat)
    if private.are_transforms_active():
        if is_functionalized():
            return one_level_below(partial(bind, rule), flat)
        with counting_closures(closures.watch()):
            return Transformed.apply(rule, _keeper(), *flat)  # type: ignore[no-untyped-call]
    if not torch.is_grad_enabled() and not private.in_forward_mode():
        return kernel(rule, flat)
    if traced(None) and not private.in_forward_mode():
        return tuple(record(rule, flat, run))  # the operator has a derivative of its own
    if rule.on_host:  # calls no function that could close over anything
        return _bind(rule, flat)
    with counting_closures(closures.watch()):
        return _bind(rule, flat)


def _bind(rule: Rule, flat: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if private.in_forward_mode() or (
        torch.is_grad_enabled() and any(x.requires_grad for x in flat)
    ):
        return Eager.apply(rule, _keeper(), *flat)  # type: ignore[no-untyped-call]
    with torch.no_grad():  # what a user's function closes over is a constant here too
        return kernel(rule, flat)


def _keeper() -> Owner:
    """Who owns what this call makes: the call whose derivative it is, or it itself."""
    return Holder() if (keeper := owner()) is None else keeper


class Bound(torch.autograd.Function):
    """A rule, bound to its arrays: the derivatives that both of its forms share."""

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        need = ctx.needs_input_grad[2:]
        if all(c is None for c in cotangents):
            return None, None, *(None for _ in need)  # of rule and owner, and of the tensors
        token, *saved = ctx.saved_tensors
        # a pullback of torch.func.vjp may be called after its level has ended
        saved = [private.unwrapped_if_dead(t) for t in saved]
        with holding(_kept_with(ctx, token)):
            pull = partial(pullback, ctx.rule, need)
            return None, None, *over_legacy_batch(pull, [*saved, *cotangents])

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, *tangents: torch.Tensor | None) -> Any:
        """The trap: torch switches forward mode off in here for all levels, so a second one,
        outside, would silently see zeros.

        Values saved at this level carry this level's tangents; those are taken off, and forward
        mode is switched on for the levels outside, which is what is meant when a functorch
        transform is active.
        """
        outer_levels = private.are_transforms_active()
        token, *saved = ctx.saved_tensors
        saved = [forward_ad.unpack_dual(t).primal for t in saved]
        with (
            private.set_forward_mode(outer_levels or private.is_forward_mode_enabled()),
            holding(_kept_with(ctx, token)),
            tangents_recorded(),
        ):
            push = partial(pushforward, ctx.rule, len(tangents))
            return tuple(over_legacy_batch(push, [*saved, *tangents]))


# -- what is saved, and the owner of factors with it --------------------------


def save(
    ctx: Any,
    rule: Rule,
    token: torch.Tensor,
    flat: tuple[torch.Tensor, ...],
    outputs: tuple[torch.Tensor, ...],
) -> None:
    ctx.rule = rule
    ctx.set_materialize_grads(False)  # None stands for zero, in rules as well
    if rule.differentiable is not None:
        ctx.mark_non_differentiable(
            *(y for y, d in zip(outputs, rule.differentiable, strict=True) if not d)
        )
    ctx.save_for_backward(token, *flat, *outputs)
    if private.in_forward_mode():
        ctx.save_for_forward(token, *flat, *outputs)


def token_of(keeper: Owner) -> torch.Tensor:
    """An empty tensor that carries the owner of the factors: saved with the others, it is freed
    with the buffers of the graph.
    """
    token = torch.empty(0)
    token.keeper = keeper  # type: ignore[attr-defined]
    return token


def _kept_with(ctx: Any, token: torch.Tensor) -> Owner:
    """The owner on the token, or where functorch or a hook replaced the token on the call
    itself, or a new one.
    """
    keeper: Owner | None = getattr(token, "keeper", None) or getattr(ctx, "keeper", None)
    return Holder() if keeper is None else keeper


# -- the two forms ------------------------------------------------------------


class Eager(Bound):
    """Outside torch.func: the form of Function that costs 100 microseconds less."""

    @staticmethod
    def forward(
        ctx: Any, rule: Rule, keeper: Owner, *flat: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        with holding(keeper):
            outputs = kernel(rule, flat)
        save(ctx, rule, token_of(keeper), flat, outputs)
        return outputs


class Few(Eager):
    """Of a few numbers, which are NumPy arrays to the rule, except to derivatives of derivatives."""

    @staticmethod
    def forward(
        ctx: Any, rule: Rule, keeper: Owner, *flat: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        with holding(keeper):
            outputs = few.kernel(rule, flat)
        save(ctx, rule, token_of(keeper), flat, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        if not few.is_plain_backward(cotangents):
            return Bound.backward(ctx, *cotangents)
        return Few.pulled_back(ctx, cotangents, *ctx.saved_tensors)

    @staticmethod
    def pulled_back(
        ctx: Any, cotangents: Sequence[torch.Tensor | None], token: Any, *saved: torch.Tensor
    ) -> Any:
        """What is saved is taken as it comes: a checkpoint gives it once."""
        with holding(_kept_with(ctx, token)):
            return None, None, *few.pullback(ctx.rule, ctx.needs_input_grad[2:], saved, cotangents)


class Transformed(Bound):
    """Under torch.func transforms, which call the parts one by one."""

    @staticmethod
    def forward(rule: Rule, keeper: Owner, *flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with holding(keeper):
            return kernel(rule, flat)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        # functorch wraps the tensors that are saved, and a wrapper carries no owner
        rule, ctx.keeper, *flat = inputs
        save(ctx, rule, torch.empty(0), tuple(flat), output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, rule: Rule, keeper: Owner, *flat: torch.Tensor) -> Any:
        with holding(keeper):  # one level less is active here; the others are met in turn
            outputs = bind(rule, leading(rule, flat, in_dims[2:]))
        return outputs, tuple(0 for _ in outputs)
