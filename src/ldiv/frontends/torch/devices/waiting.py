"""Reads from a device: all checks of a kernel are read by one copy (`ldiv.core.frameworks.looks`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from ldiv.core.frameworks import looks
from ldiv.core.rules.finite import evaluated
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private
from ldiv.frontends.torch.devices import nan_members
from ldiv.frontends.torch.recorders import traced

R = TypeVar("R")


def owns(x: Any) -> bool:
    """Whether x is a tensor that can be read later: a transform's wrapper cannot outlive it."""
    return isinstance(x, torch.Tensor) and not x.is_cpu and not private.is_wrapped(x)


def every(answers: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(answers)).all()


def read(answers: Sequence[torch.Tensor]) -> list[bool]:
    found: list[bool] = torch.stack(list(answers)).cpu().tolist()
    return found


class _Device:
    owns, every, read = staticmethod(owns), staticmethod(every), staticmethod(read)


_device = _Device()


def in_one_wait(x: torch.Tensor, f: Callable[[], R]) -> R:
    """f(), a function of x and other tensors, with one wait for their device, if they are on one."""
    if x.is_cpu or traced(None):
        return f()
    # a thread of torch for the device would not see the checks that this thread collects
    with torch.autograd.set_multithreading_enabled(False):
        return looks.in_one_wait(_device, f)


def outputs(rule: Rule, flat: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The outputs of a kernel, with one wait for the device. Without any wait under the policy "nan",
    if no check changes the control flow.
    """
    if (
        rule.policy == "nan"
        and rule.traits.only_refuses
        and not flat[0].is_cpu
        and not traced(None)
        and (found := nan_members.outputs(rule, flat)) is not None
    ):
        return found
    return in_one_wait(flat[0], partial(evaluated, rule, flat))
