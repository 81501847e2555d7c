"""y <- y + alpha x.

reverse      dx += conj(alpha) dy, dalpha += <x, dy>;   dy is unchanged
"""

from __future__ import annotations

from typing import Any

from ldiv.inplace.duplicated import number, operands, output, require_same_shape, shadow, value
from ldiv.inplace.workspace import Workspace, add_inner


def run(workspace: Workspace, alpha: Any, x: Any, y: Any) -> None:
    operands(y=y, x=x)
    require_same_shape(x, y)
    s, dalpha, dx, dy = number("alpha", alpha, value(y)), shadow(alpha), shadow(x), shadow(y)
    output("y", y, x=x, alpha=alpha)
    kept = None if dalpha is None else workspace.keep("x", value(x))
    with workspace.writing(value(y)):
        _add(workspace, value(y), s, value(x))

    def back() -> None:
        if kept is not None:
            add_inner(dalpha, kept.value, dy)
        if dx is not None:
            _add(workspace, dx, s.conjugate(), dy)

    if dy is not None:
        workspace.record(back)


def _add(workspace: Workspace, y: Any, s: complex, x: Any) -> None:
    with workspace.scratch(y, tuple(y.shape)) as work:
        work[...] = x
        work *= s
        y += work
