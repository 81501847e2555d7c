"""B <- op(T)^-1 B, T a triangle of A.

reverse      lam = op(T)^-H dB;   dA -= triangle of op(lam X^H), X the solution;   then dB <- lam
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.arrays.validate import require_flag, transposition
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.rules.finite import all_finite, require_finite
from ldiv.core.rules.structure import compose
from ldiv.errors import SingularMatrixError, overflowed
from ldiv.inplace.duplicated import block, operands, output, shadow, value
from ldiv.inplace.solve import require_systems
from ldiv.inplace.trsm import trsm
from ldiv.inplace.workspace import Workspace, add


def run(
    workspace: Workspace,
    A: Any,
    B: Any,
    *,
    lower: bool = False,
    trans: Any = "N",
    unit_diagonal: bool = False,
) -> None:
    operands(B=B, A=A)
    op = transposition(trans)
    lower = require_flag("lower", lower)
    unit = require_flag("unit_diagonal", unit_diagonal)
    require_systems(value(A), value(B))
    output("B", B, A=A)
    a, B = value(A), block(B)
    _require_regular(a, unit)
    _require_finite(a, value(B), lower, unit)
    (x, dA, dB) = (value(B), shadow(A), shadow(B))
    kept = None if shadow(B) is None else workspace.keep("A", a)
    with workspace.writing(x):
        _solve(workspace, a, x, lower, op, unit)
    if kept is None:
        return
    out = None if dA is None else workspace.keep("the solution", x)

    def back() -> None:
        require_finite("the shadow of B", dB)
        _solve(workspace, kept.value, dB, lower, compose(op, "H"), unit)
        if out is not None:
            with workspace.scratch(a, tuple(a.shape)) as g:
                workspace.product(g, dB, "N", out.value, "H")
                g *= _triangle(workspace, g, lower != (op in "TH"), unit)
                add(dA, -1, g, op)

    workspace.record(back)


def _solve(workspace: Workspace, a: Buffer, x: Buffer, lower: bool, op: str, unit: bool) -> None:
    trsm(workspace, a, x, lower, op, unit)
    check_or_raise(all_finite(x), partial(overflowed, "the solution"))


def _triangle(workspace: Workspace, g: Buffer, lower: bool, unit: bool) -> Array:
    """Return a matrix of ones on the triangle of op(T), zero elsewhere."""
    n, xp = g.shape[-1], namespace(g)

    def make() -> Array:
        ones = xp.ones_like(g)
        return xp.tril(ones, k=-int(unit)) if lower else xp.triu(ones, k=int(unit))

    return workspace.constant(
        ("triangle", tuple(g.shape), g.dtype, str(g.device), n, lower, unit), make
    )


def _require_finite(a: Buffer, b: Buffer, lower: bool, unit: bool) -> None:
    """Finite numbers in B and in the triangle that is read; the rest of A may be anything."""
    require_finite("B", b)
    if not bool(all_finite(a)):
        xp = namespace(a)
        require_finite("A", xp.tril(a, k=-int(unit)) if lower else xp.triu(a, k=int(unit)))


def _require_regular(a: Buffer, unit: bool) -> None:
    zeros = namespace(a).linalg.diagonal(a) == 0
    if not unit and bool(zeros.any()):
        raise SingularMatrixError("substitution", "a zero on the diagonal")
