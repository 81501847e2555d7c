"""A few numbers in the memory of this process are NumPy arrays to a rule: its operations cost less.

That may be where values alone are asked for: where no mode, transform or recording looks on, and,
in a backward pass, nobody differentiates once more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ldiv.core.arrays import conform
from ldiv.core.finite import derivative, evaluated
from ldiv.core.rule import Rule
from ldiv.core.trees import leaves, rebuild
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import unobserved
from ldiv.frontends.torch.values import PLAIN, as_tensor, plain_values_of, values_of


def are_few(rule: Rule, flat: Sequence[torch.Tensor]) -> bool:
    """Do these stand for values that NumPy may handle as well?"""
    if not rule.on_host:
        return False
    few = True
    for x, core in zip(flat, rule.cores, strict=True):
        if not x.is_cpu or type(x) not in PLAIN:
            return False
        few = few and x.ndim == core and x.numel() <= rule.few
    return few or rule.is_compiled(*flat)


def kernel(rule: Rule, flat: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The outputs of a rule."""
    return tuple([as_tensor(y) for y in evaluated(rule, [values_of(x) for x in flat])])


def is_plain_backward(cotangents: Sequence[torch.Tensor | None]) -> bool:
    """Whether nobody differentiates this backward pass, or maps it over a batch."""
    if torch.is_grad_enabled() or private.in_forward_mode() or not unobserved():
        return False
    given = False
    for c in cotangents:
        if c is not None:
            if type(c) not in PLAIN or private.is_legacy_batch(c):
                return False
            given = True
    return given


def pullback(
    rule: Rule,
    need: Sequence[bool],
    saved: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """The cotangents of the arguments, in their spaces; `saved` are arguments and outputs."""
    values = [plain_values_of(x) for x in saved]
    args, out = values[: len(need)], tuple(values[len(need) :])
    given = tuple([None if c is None else plain_values_of(c) for c in cotangents])
    accepted = rule.accepted_vjp(need, given, out, *args)
    found = accepted or leaves(
        derivative(rule, rule.vjp, rebuild(rule.core, need), given, out, *rebuild(rule.core, args))
    )
    return [
        as_tensor(_conform(g, x)) if n and g is not None else None
        for n, g, x in zip(need, found, args, strict=True)
    ]


def _conform(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The cotangent in the space of x."""
    return g if g.dtype == x.dtype and g.shape == x.shape else conform(g, x)
