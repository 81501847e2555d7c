"""B <- A^-1 B.

reverse      lam = A^-H dB;   dA -= lam X^H on the structure of A, X the solution;   then dB <- lam
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.arrays.validate import require_option, require_square
from ldiv.errors import value_error
from ldiv.inplace.duplicated import block, operands, output, value
from ldiv.inplace.replaced import replaced
from ldiv.inplace.workspace import Workspace
from ldiv.linalg.arguments.solve_problem import build_problem
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.matrix import as_matrix


def run(
    workspace: Workspace, A: Any, B: Any, *, assume_a: str = "gen", method: str = "auto"
) -> None:
    operands(B=B, A=A)
    require_option("assume_a", assume_a, ("gen", "sym", "her", "pos"))
    require_systems(value(A), value(B))
    output("B", B, A=A)
    structure, params = promised(as_matrix("A", value(A)), assume_a)
    rule, _, vector = build_problem(
        structure, params, value(B), definiteness(structure, assume_a), method
    )
    replaced(workspace, rule, block(B) if vector else B, A)


def require_systems(a: Buffer, b: Buffer) -> None:
    """A (*batch, n, n) with B (*batch, n, k), or one A with a vector (n,)."""
    if a.ndim < 2:
        raise value_error(
            "A",
            "a square matrix",
            f"shape {tuple(a.shape)}",
            "A rectangular system is a least-squares problem.",
        )
    require_square("A", tuple(a.shape[-2:]))
    if not (
        tuple(b.shape[:-1]) == tuple(a.shape[:-1])
        or (a.ndim == 2 and tuple(b.shape) == tuple(a.shape[:1]))
    ):
        advice = "In place nothing is broadcast."
        raise value_error(
            "B", f"shape {tuple(a.shape[:-1])} and columns, as A has", str(tuple(b.shape)), advice
        )
