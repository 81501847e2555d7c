"""y = rule(x) with x_bar = rule.vjp(y_bar), dy = rule.jvp(dx): one node of PyTorch's graph, the same
for all rules, in eager mode and at each level of torch.func.

The outputs are there before the node is made. Saved are the tensors and the outputs, after a token
that carries the owner of the factors: so a factor lives as long as the buffers of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.autograd import forward_ad

from ldiv.core.arrays.shapes import leading
from ldiv.core.owners.holder import Holder, Owner, holding, owner
from ldiv.core.owners.store import Store
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.rule import Rule, depends_on_scale
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import kernels
from ldiv.frontends.torch.graph.behind_hooks import owner_behind_hooks, shared_store
from ldiv.frontends.torch.graph.evaluation import conformed, pullback, pushforward
from ldiv.frontends.torch.graph.kernels import Tensors, rows
from ldiv.frontends.torch.graph.legacy_batching import Results, over_legacy_batch
from ldiv.frontends.torch.graph.one_level import below, only_level
from ldiv.frontends.torch.graph.recomputed import recomputed
from ldiv.frontends.torch.recorders import tangents_recorded, unobserved
from ldiv.frontends.torch.values import as_tensor

STATIC = 4  # arguments before the tensors: rule, owner, compiled operation with its factor, outputs
_STATIC = [None] * STATIC
Taken: TypeAlias = (
    tuple[Compiled, Any] | None
)  # an operation and its factor; None if none was taken


def _token(keeper: Owner | None, taken: Taken) -> Any:
    """An empty tensor that carries the owner of the factors: it is freed with the buffers of the graph."""
    token: Any = torch.empty(0)
    token.keeper, token.taken = keeper, taken
    return token


class Node(torch.autograd.Function):
    """A rule, bound to its tensors."""

    @staticmethod
    def forward(
        ctx: Any,
        rule: Rule,
        keeper: Owner,
        taken: Taken,
        outputs: tuple[torch.Tensor, ...],
        *flat: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Save what the derivatives need."""
        token = _token(keeper, taken)
        ctx.rule, ctx.store = rule, keeper if type(keeper) is Store else None
        ctx.set_materialize_grads(False)  # None stands for zero, in rules as well
        if (differentiable := rule.traits.differentiable) is not None:
            constants = [y for y, d in zip(outputs, differentiable, strict=True) if not d]
            ctx.mark_non_differentiable(*constants)
        ctx.save_for_backward(token, *flat, *outputs)
        if private.in_forward_mode():
            ctx.save_for_forward(token, *flat, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor | None) -> Any:
        need = ctx.needs_input_grad[STATIC:]
        _shared, ctx.store = ctx.store, None  # freed after the last backward pass that needs it
        for c in cotangents:
            if c is not None:
                break
        else:
            return (*_STATIC, *[None] * len(need))
        # saved tensors are unpacked once: a checkpoint allows no second time
        token, *saved = ctx.saved_tensors
        # a pullback of torch.func.vjp may be called after its level has ended
        xs = [*map(private.unwrapped_if_dead, saved), *cotangents]
        level = None if private.in_forward_mode() else only_level(xs, private.GRAD)
        plain = None
        if level == 0 and not torch.is_grad_enabled():
            if (plain := _plain(ctx, need, token, 0, xs)) is not None:
                return (*_STATIC, *plain)
        elif level:
            plain = _in_level(level, partial(_plain, ctx, need, token, level), xs)
        pull = partial(pullback, ctx.rule, need)
        with holding(_keeper_of(ctx, token)):
            found = over_legacy_batch(pull, xs) if plain is None else recomputed(pull, plain, xs)
            return (*_STATIC, *found)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        """The trap: torch switches forward mode off in here for all levels, so a second one,
        outside, would silently see zeros.

        Values saved at this level carry this level's tangents; those are taken off, and forward
        mode is switched on for the levels outside, which is what is meant when a functorch
        transform is active.
        """
        outer_levels = private.are_transforms_active()
        token, *saved = ctx.saved_tensors
        saved = [forward_ad.unpack_dual(t).primal for t in saved]
        given = tangents[STATIC:]
        xs, keeper = [*saved, *given], _keeper_of(ctx, token)
        if (level := only_level(xs, private.JVP)) is not None:
            with holding(keeper):
                found = _in_level(level, partial(_pushed, ctx.rule, len(given)), xs)
            if found is not None:
                return tuple(found)
        with (
            private.set_forward_mode(outer_levels or private.is_forward_mode_enabled()),
            holding(keeper),
            tangents_recorded(),
        ):
            push = partial(pushforward, ctx.rule, len(given))
            return tuple(over_legacy_batch(push, xs))


def _keeper_of(ctx: Any, token: torch.Tensor) -> Owner:
    """Return the owner of factors. It is on the token; on the call itself if functorch or a hook
    replaced the token; in the store that a hook left; or new.
    """
    found = getattr(token, "keeper", None) or getattr(ctx, "keeper", None)
    keeper: Owner = found or shared_store(ctx.rule) or Holder()
    return keeper


def _in_level(
    level: int, f: Callable[[list[Any]], Results | None], xs: list[Any]
) -> Results | None:
    """Apply f to the tensors below this level, and lift its results to the level; None if f returns
    None.
    """
    if level == 0:
        return f(xs)
    with private.without_transforms(), torch.no_grad():
        found = f([*map(below, xs)])
    return found and [None if y is None else private.wrapped(y, level) for y in found]


def _pushed(rule: Rule, count: int, xs: list[Any]) -> Results | None:
    """Return the tangents of the outputs if nothing differentiates them; None if tensors are
    necessary.
    """
    saved, given = xs[:-count], xs[-count:]
    moved = kernels.pushforward(rule, saved, given)
    return moved and conformed(rule, moved, saved[count:])


def _plain(ctx: Any, need: Sequence[bool], token: Any, level: int, xs: list[Any]) -> Results | None:
    """The cotangents of the arguments in a backward pass that nobody differentiates, by the compiled
    operation or on NumPy arrays; None if tensors are necessary.
    """
    count = (len(xs) + len(need)) // 2
    saved, cotangents = xs[:count], xs[count:]
    flat, out = saved[: len(need)], saved[len(need) :]
    taken: Taken = getattr(token, "taken", None)  # a hook may have replaced the token
    if (
        taken is not None
        and (given := rows(cotangents)) is not None
        and (results := rows(out)) is not None
        and (args := flat if taken[1] is not None else rows(flat)) is not None
    ):
        operation, factor = taken
        found = operation.backward(factor, need, tuple(given), tuple(results), *args)
        if found is not None:
            return [x if x is None else as_tensor(x) for x in found]
    if not kernels.are_few(ctx.rule, flat):
        return None
    with holding(_keeper_of(ctx, token)):
        # at a level a batch takes the vjp: compiled operations decline all its members with one, and
        # the bits of the others depend on none; so does a rule that takes it in other units
        is_batch = any(x.ndim > core for x, core in zip(flat, ctx.rule.cores, strict=True))
        takes_vjp = level > 0 and (is_batch or depends_on_scale(ctx.rule))
        declined = taken is not None or takes_vjp
        return kernels.pullback(ctx.rule, need, saved, cotangents, declined)


class OfUser(Node):
    """A rule that calls a function of the user, at a level of torch.func: such a function may use
    torch.func itself, which the dispatcher does not allow inside of an operator.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        rule: Rule, keeper: Owner, taken: Taken, run: Any, *flat: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        with holding(keeper):
            return tuple(run(rule, flat))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        rule, keeper, taken, _, *flat = inputs
        Node.forward(ctx, rule, keeper, taken, output, *flat)
        ctx.keeper = (
            keeper  # functorch wraps the tensors that are saved, and a wrapper carries none
        )

    @staticmethod
    def vmap(
        info: Any, dims: Any, rule: Rule, keeper: Owner, taken: Taken, run: Any, *flat: torch.Tensor
    ) -> Any:
        with holding(keeper):  # one level less is active here; the other levels follow
            outputs = run(rule, leading(flat, rule.cores, dims[STATIC:]))
        return outputs, tuple(0 for _ in outputs)


# `Function.apply` goes through functorch, in Python, one level after the other. The operator
# (`operator`) meets the levels in C++, and asks for a node at each of them.
_apply: Any = super(torch.autograd.Function, Node).apply


def compiled(rule: Rule, flat: Sequence[torch.Tensor]) -> Tensors | None:
    """The outputs of the compiled operation, as nodes of the graph; None if it declines. No mode or
    transform may be active.
    """
    if (operation := rule.compiled) is None or not flat[0].is_cpu:
        return None
    # tensors of a transform of torch.func that has ended are plain again
    flat = [private.unwrapped_if_dead(x) for x in flat]
    if (taken := operation.taking(*flat)) is None or (given := rows(flat)) is None:
        return None
    owner_of_factors, growing = owner(), grows(flat)
    if growing and owner_of_factors is None and (shared := owner_behind_hooks(rule)) is not None:
        owner_of_factors = shared
        with holding(shared):
            made = taken.forward(*given)
    else:
        made = taken.forward(*given)
    if made is None:
        return None
    outputs = tuple([as_tensor(y) for y in made[0]])
    if not growing:
        return outputs
    # the owner needs no factor: the derivatives get it from the token
    return _apply(rule, owner_of_factors, (taken, made[1]), outputs, *flat)


def carefully(rule: Rule, flat: Sequence[torch.Tensor]) -> Tensors:
    """Return the outputs of the kernel in Python, as nodes of the graph, after the compiled
    operation declined.
    """
    flat = [private.unwrapped_if_dead(x) for x in flat]
    if not grows(flat):
        with torch.no_grad():
            return kernels.kernel(rule, flat, declined=True)
    owner_of_factors = keeper(rule)
    with holding(owner_of_factors), torch.no_grad():
        if private.in_forward_mode():
            with private.set_forward_mode(False):
                outputs = kernels.kernel(rule, flat, declined=True)
        else:
            outputs = kernels.kernel(rule, flat, declined=True)
    return grown(rule, owner_of_factors, outputs, flat)


def keeper(rule: Rule) -> Owner:
    """Return the owner of the factors of this call: the call that it differentiates, or else the
    call itself.
    """
    return owner() or owner_behind_hooks(rule) or Holder()


def grown(
    rule: Rule, keeper: Owner, outputs: Sequence[torch.Tensor], flat: Sequence[torch.Tensor]
) -> Tensors:
    """Make the outputs nodes of the graph of this level."""
    if not private.are_transforms_active():
        return _apply(rule, keeper, None, tuple(outputs), *flat)
    private.allow_one_level(True)
    try:
        return _apply(rule, keeper, None, tuple(outputs), *flat)
    finally:
        private.allow_one_level(False)


def grows(flat: Sequence[torch.Tensor]) -> bool:
    """Whether this level may differentiate with respect to any of the tensors."""
    is_recorded, is_pushed = torch.is_grad_enabled(), private.in_forward_mode()
    for x in flat:  # a list is faster here than a generator
        if is_recorded and x.requires_grad:
            return True
        if is_pushed and private.has_tangent(x):
            return True
    return False


def differentiates(*xs: torch.Tensor) -> bool:
    return not unobserved() or grows(xs)
