"""A <- L with A = L L^H, zeros above the diagonal; A is read as its Hermitian part.

reverse      dA <- A_bar, Hermitian; what dA holds above the diagonal is not read
"""

from __future__ import annotations

from typing import Any

from ldiv.errors import value_error
from ldiv.inplace.duplicated import operands, output, value
from ldiv.inplace.replaced import replaced
from ldiv.inplace.workspace import Workspace
from ldiv.rules.cholesky import Cholesky


def run(workspace: Workspace, A: Any) -> None:
    operands(A=A)
    shape = tuple(value(A).shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise value_error(
            "A",
            "square matrices (*batch, n, n)",
            f"shape {shape}",
            "Only Hermitian matrices have a Cholesky factor.",
        )
    output("A", A)
    replaced(workspace, Cholesky(), A)
