"""y <- x.

reverse      dx += dy;   then dy <- 0
"""

from __future__ import annotations

from typing import Any

from ldiv.inplace.duplicated import operands, output, require_same_shape, shadow, value
from ldiv.inplace.workspace import Workspace


def run(workspace: Workspace, x: Any, y: Any) -> None:
    operands(y=y, x=x)
    require_same_shape(x, y)
    output("y", y, x=x)
    dx, dy = shadow(x), shadow(y)
    with workspace.writing(value(y)):
        value(y)[...] = value(x)

    def back() -> None:
        nonlocal dx
        if dx is not None:
            dx += dy
        dy[...] = 0

    if dy is not None:
        workspace.record(back)
