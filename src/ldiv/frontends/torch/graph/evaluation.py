"""x_bar = vjp(y_bar), dy = jvp(dx): the derivatives of a rule, on tensors of the levels outside, since
they are made of rules, which may be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ldiv.core.arrays.shapes import conform
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.policies.errstate import under
from ldiv.core.rules.finite import derivative, look_at_derivative
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private
from ldiv.frontends.torch.devices.waiting import in_one_wait
from ldiv.frontends.torch.graph.recomputed import outside_of_autocast
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.values import innermost, without_autocast


def _derivative(rule: Rule, x: torch.Tensor, f: Callable[..., Any], *given: Any) -> Any:
    """f(*given) at x, checked for overflow."""
    if not private.are_transforms_active() or rule.policy == "nan" or traced(None):
        return in_one_wait(x, partial(derivative, rule, f, *given))
    with under(rule.policy):
        results = f(*given)
    if not rule.traits.may_overflow:  # below the levels of torch.func tensors have values
        found, args = (list(map(innermost, leaves(xs))) for xs in (results, given))
        with private.without_transforms():
            in_one_wait(args[-1], partial(look_at_derivative, rule, found, tuple(args)))
    return results


def pullback(rule: Rule, need: Sequence[bool], *xs: Any) -> Sequence[torch.Tensor | None]:
    """The cotangents of the arguments; xs are arguments, outputs, cotangents of outputs."""
    return outside_of_autocast(partial(_pullback, rule, need), *xs)


def _pullback(rule: Rule, need: Sequence[bool], *xs: Any) -> list[torch.Tensor | None]:
    args, rest = xs[: len(need)], xs[len(need) :]
    out, cotangents = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    results = leaves(
        _derivative(
            rule,
            args[0],
            rule.vjp,
            rebuild(rule.core, need),
            cotangents,
            out,
            *rebuild(rule.core, args),
        )
    )
    return [
        _plain(conform(g, x)) if n and g is not None else None
        for g, x, n in zip(results, args, need, strict=True)
    ]


def pushforward(rule: Rule, count: int, *xs: Any) -> list[torch.Tensor | None]:
    """The tangents of the outputs; xs are arguments, outputs, tangents of arguments."""
    flat, out, tangents = xs[:count], xs[count:-count], xs[-count:]
    with without_autocast(flat[0]):
        moved = _derivative(
            rule, flat[0], rule.jvp, rebuild(rule.core, tangents), out, *rebuild(rule.core, flat)
        )
    return conformed(rule, moved, out)


def conformed(rule: Rule, moved: Sequence[Any], out: Sequence[Any]) -> list[torch.Tensor | None]:
    """Conform the tangents of the outputs to the spaces of the outputs."""
    smooth = rule.traits.differentiable or (True,) * len(out)
    return [
        _conform_tangent(t, y) if s else None for t, y, s in zip(moved, out, smooth, strict=True)
    ]


# -- tangents and cotangents in the spaces of their tensors ------------------


def _plain(t: torch.Tensor) -> torch.Tensor:
    """Resolve lazy conjugation and negation: such views trip an assertion of torch on the layout of
    tangents.
    """
    return t.resolve_conj().resolve_neg().contiguous() if t.is_complex() or t.is_neg() else t


def _conform_tangent(t: torch.Tensor | None, y: torch.Tensor) -> torch.Tensor:
    """Expand t to the shape of y: a rule may leave out axes along which its tangent is constant."""
    return (
        torch.zeros_like(y)
        if t is None
        else _plain(t if t.shape == y.shape else t.expand(y.shape).clone())
    )
