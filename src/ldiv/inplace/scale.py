"""x <- alpha x.

reverse      dalpha += <x, dx>, x as it was;   then dx <- conj(alpha) dx, exactly zero for alpha = 0
"""

from __future__ import annotations

from typing import Any

from ldiv.inplace.duplicated import number, operands, output, shadow, value
from ldiv.inplace.workspace import Workspace, add_inner, scale


def run(workspace: Workspace, alpha: Any, x: Any) -> None:
    operands(x=x)
    s, dalpha, dx = number("alpha", alpha, value(x)), shadow(alpha), shadow(x)
    output("x", x, alpha=alpha)
    kept = None if dalpha is None else workspace.keep("x", value(x))
    with workspace.writing(value(x)):
        scale(value(x), s)

    def back() -> None:
        if kept is not None:
            add_inner(dalpha, kept.value, dx)
        scale(dx, s.conjugate())

    if dx is not None:
        workspace.record(back)
