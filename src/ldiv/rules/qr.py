"""A = Q R for m >= n: Q^H Q = I, R upper triangular with a real diagonal, signs as from LAPACK.

tangent      X = dA R^-1,   M = Q^H X,   C = triu(M, 1) + tril(M, -1)^H + Re diag(M);
             dQ = X - Q C,   dR = C R
cotangent    W = R_bar R^H - Q^H Q_bar,   N = triu(W, 1) + triu(W, 1)^H + Re diag(W);
             A_bar = (Q_bar + Q N) R^-H
cost         1 factorization forward; each direction 1 triangular solve and 2 products
reference    Walter and Lehmann, arXiv:1009.6112; Roberts and Roberts, arXiv:2009.10071
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.core.rules.structure import minus, nonzero, plus
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.orthogonal_calls import QRCalls
from ldiv.rules.assertion import checked
from ldiv.rules.full_rank import require_derivative
from ldiv.rules.triangular_quotients import eye, right_solve, upper


@dataclass(frozen=True)
class QR(Rule):
    """Argument (*batch, m, n), m >= n; outputs Q (*batch, m, n) and R (*batch, n, n)."""

    core = (2,)
    traits = Traits(on_host=True, only_refuses=True)

    def operation(self) -> Compiled:
        return QRCalls()

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.qr(*flat)

    units = (Unit((2,), (0, 2)),)

    def kernel(self, a: Array) -> Arrays:
        require_finite("A", a)
        q, r = frontend_of(a).dense.qr(a)
        return q, namespace(r).triu(r)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (q, r) = tangents, out
        # X = dA R^-1,  M = Q^H X
        x = right_solve(da, *upper(checked(require_derivative, r)))
        m = adjoint(q) @ x
        # C is upper with a real diagonal, as dR R^-1 is, and M - C skew-Hermitian
        c = _above(m) + adjoint(_below(m)) + _on(m)
        return x - q @ c, namespace(r).triu(c @ r)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (q_bar, r_bar), (q, r) = cotangents, out
        xp = namespace(r)
        # W = R_bar R^H - Q^H Q_bar
        w = nonzero(
            minus(
                None if r_bar is None else xp.triu(r_bar) @ adjoint(r),
                None if q_bar is None else adjoint(q) @ q_bar,
            )
        )
        # A_bar = (Q_bar + Q N) R^-H, N Hermitian with the upper triangle of W
        x_bar = plus(q_bar, q @ (_above(w) + adjoint(_above(w)) + _on(w)))
        structure, p = upper(checked(require_derivative, r))
        return (right_solve(x_bar, structure.H, p),)


def _above(x: Array) -> Array:
    return namespace(x).triu(x, k=1)


def _below(x: Array) -> Array:
    return namespace(x).tril(x, k=-1)


def _on(x: Array) -> Array:
    """Re diag(X)."""
    return real(x) * eye(x, x.shape[-1])


def cases(structures: Any, draw: Any) -> Cases:
    for shape in ((4, 3), (2, 4, 4), (2, 4, 2), (1, 3, 1)):
        yield QR(), (draw(*shape),)
