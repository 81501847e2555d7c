"""What is asked of a device: all answers of a kernel by one copy (`ldiv.core.verdict`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ldiv.core import verdict
from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import traced

R = TypeVar("R")


def owns(x: Any) -> bool:
    """A wrapper of a transform cannot be read after the transform."""
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
    """f(), of x and of others beside it, which waits for their device once, if they are on one."""
    return f() if x.is_cpu or traced(None) else verdict.in_one_wait(_device, f)
