"""A derivative that one level of torch.func takes, or none, and that nobody differentiates, maps or records.

Its numbers lie one level below, where compiled code and NumPy find it as they do without torch.func.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import unobserved
from ldiv.frontends.torch.values import PLAIN


def only_level(xs: Sequence[torch.Tensor | None], kind: Any) -> int | None:
    """Return the only level of this kind that sees these tensors; 0 if no level is active; None if
    other transforms see them.
    """
    level = 0
    if not unobserved():
        levels: Any = private.levels() or ()
        if len(levels) != 1 or levels[0].key() != kind or not unobserved(in_level=True):
            return None
        level = levels[0].level()
    is_recorded = torch.is_grad_enabled()
    for x in xs:
        if x is None:
            continue
        x = below(x) if level else x
        if type(x) not in PLAIN or private.is_legacy_batch(x) or (is_recorded and x.requires_grad):
            return None
    return level


def below(x: Any) -> Any:
    """Return the tensor one level below, None for None."""
    return private.unwrapped(x) if x is not None and private.is_wrapped(x) else x
