"""A <- tril(L, -1) + U with A[order] = L U; the pivots do not move.

reverse      dA <- A_bar, in the row order of the original A
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.buffers import Buffer
from ldiv.errors import value_error
from ldiv.inplace.duplicated import operands, output, value
from ldiv.inplace.replaced import replaced
from ldiv.inplace.workspace import Workspace
from ldiv.rules.lu import LU


def run(workspace: Workspace, A: Any) -> Buffer:
    """Overwrite A; the result are SciPy's row exchanges."""
    operands(A=A)
    if value(A).ndim < 2:
        raise value_error(
            "A",
            "matrices (*batch, m, n)",
            f"shape {tuple(value(A).shape)}",
            "A vector has no factors.",
        )
    output("A", A)
    return replaced(workspace, LU(), A)[0]
