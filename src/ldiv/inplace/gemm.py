"""C <- alpha op(A) op(B) + beta C.

reverse      G = dC op(B)^H, H = op(A)^H dC, A and B at the time of the call:
             dA += op(conj(alpha) G), dB += op(conj(alpha) H),
             dalpha += <op(A), G>, dbeta += <C, dC>;
             then, last, dC <- conj(beta) dC, exactly zero for beta = 0.
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.arrays.validate import transposition
from ldiv.core.rules.structure import VIEWS, compose, view_dense
from ldiv.errors import value_error
from ldiv.inplace.duplicated import number, operands, output, shadow, value
from ldiv.inplace.workspace import Workspace, add, add_inner, scale


def run(
    workspace: Workspace,
    alpha: Any,
    A: Any,
    B: Any,
    beta: Any,
    C: Any,
    trans_a: Any = 0,
    trans_b: Any = 0,
) -> None:
    operands(C=C, A=A, B=B)
    op_a, op_b = transposition(trans_a, "trans_a"), transposition(trans_b, "trans_b")
    a, b, c = value(A), value(B), value(C)
    _require_shapes(a, op_a, b, op_b, c)
    s, t = number("alpha", alpha, c), number("beta", beta, c)
    output("C", C, A=A, B=B, alpha=alpha, beta=beta)
    dalpha, dA, dB, dbeta, dC = map(shadow, (alpha, A, B, beta, C))
    a_kept = None if dalpha is dB is None else workspace.keep("A", a)
    b_kept = None if dalpha is dA is None else workspace.keep("B", b)
    c_kept = None if dbeta is None else workspace.keep("C", c)
    with workspace.writing(c):
        forward(workspace, s, a, op_a, b, op_b, t, c)

    def back() -> None:
        if b_kept is not None:
            with workspace.scratch(a, _turned(a, op_a)) as g:
                workspace.product(g, dC, "N", b_kept.value, compose(op_b, "H"))
                if dalpha is not None and a_kept is not None:
                    add_inner(dalpha, view_dense(a_kept.value, op_a), g)
                if dA is not None:
                    add(dA, s.conjugate(), g, op_a)
        if dB is not None and a_kept is not None:
            with workspace.scratch(b, _turned(b, op_b)) as h:
                workspace.product(h, a_kept.value, compose(op_a, "H"), dC, "N")
                add(dB, s.conjugate(), h, op_b)
        if c_kept is not None:
            add_inner(dbeta, c_kept.value, dC)
        scale(dC, t.conjugate())

    if dC is not None:
        workspace.record(back)


def forward(
    workspace: Workspace,
    s: complex,
    a: Buffer,
    op_a: str,
    b: Buffer,
    op_b: str,
    t: complex,
    c: Buffer,
) -> None:
    """C <- s op(A) op(B) + t C; with t = 0 the product is written to C itself."""
    if t == 0:
        workspace.product(c, a, op_a, b, op_b)
        scale(c, s)
        return
    with workspace.scratch(c, tuple(c.shape)) as work:
        workspace.product(work, a, op_a, b, op_b)
        scale(c, t)
        add(c, s, work, "N")


def _turned(x: Buffer, op: str) -> tuple[int, ...]:
    """The shape of op(x)."""
    *batch, m, n = x.shape
    return (*batch, n, m) if VIEWS[op][0] else (*batch, m, n)


def _require_shapes(a: Buffer, op_a: str, b: Buffer, op_b: str, c: Buffer) -> None:
    if min(a.ndim, b.ndim, c.ndim) >= 2:
        (*batch_a, m, k), (*batch_b, l, n) = _turned(a, op_a), _turned(b, op_b)
        if batch_a == batch_b and k == l and tuple(c.shape) == (*batch_a, m, n):
            return
    shapes = f"{op_a} of {tuple(a.shape)}, {op_b} of {tuple(b.shape)} and {tuple(c.shape)}"
    raise value_error(
        "A, B and C",
        "op(A) (*batch, m, k), op(B) (*batch, k, n) and C (*batch, m, n)",
        shapes,
        "Check trans_a and trans_b.",
    )
