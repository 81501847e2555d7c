"""Orthonormal bases of the range and of the null space of A, of rank r: R = U_r, N = V_0.

tangent      dR = (I - R R^H) dA A^+ R;    dN = -A^+ dA N
cotangent    A_bar = (I - R R^H) R_bar (A^+ R)^H;    A_bar = -(A^+)^H N_bar N^H
cost         1 singular value decomposition forward, 1 pseudoinverse and a few products each
             direction
reference    Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973)

The spaces are smooth while the rank stays what it is; which basis of them is given is arbitrary, and
a loss that depends on it raises.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.arrays.shapes import adjoint, eps
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Traits, Unit, bind
from ldiv.engines.accuracy.scaling import norm
from ldiv.errors import NotDifferentiableError
from ldiv.rules.assertion import checked
from ldiv.rules.pseudo_inverse import PseudoInverse


@dataclass(frozen=True)
class Span(Rescaled):
    """Argument A (*batch, m, n); output (*batch, m, r), or (*batch, n, n - r) for `null`.

    rtol: which singular values are taken for 0, as they were when the rank was found.
    """

    rank: int
    rtol: float
    null: bool = False

    core = (2,)
    units = (Unit((2,), (0,), by=(0,)),)

    @cached_property
    def traits(self) -> Traits:
        return Traits(name="null_space" if self.null else "orth", on_host=True, only_refuses=True)

    def kernel(self, a: Array) -> Arrays:
        dense = frontend_of(a).dense
        if not self.null:
            return (dense.svd(a)[0][..., : self.rank],)
        m, n = a.shape[-2:]
        if m >= n:
            return (adjoint(dense.svd(a)[2])[..., self.rank :],)
        # A^H = [Q1 Q2] [R; 0]: A = R^H Q1^H takes Q1 x to 0 where R^H x is 0, and Q2
        q, r = dense.qr(adjoint(a), "complete")
        x = adjoint(dense.svd(adjoint(r[..., :m, :]))[2])[..., self.rank :]
        return (namespace(a).concat([q[..., :m] @ x, q[..., m:]], axis=-1),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (a,), (basis,) = tangents, args, out
        x = self._inverse(a)
        # dN = -A^+ dA N
        if self.null:
            return (-x @ (da @ basis),)
        # dR = (I - R R^H) dA A^+ R
        moved = da @ (x @ basis)
        return (moved - basis @ (adjoint(basis) @ moved),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (bar,), (a,), (basis,) = cotangents, args, out
        if 0 in basis.shape:
            return (0 * a,)
        inner = adjoint(basis) @ bar
        # `checked` looks at one array: R^H R_bar above R_bar
        both = namespace(a).concat([inner, bar], axis=-2)
        inner = checked(_require_invariant, both)[..., : inner.shape[-2], :]
        # the component (I - R R^H) R_bar, along which the space can move
        outside, x = bar - basis @ inner, self._inverse(a)
        if self.null:
            return (-adjoint(x) @ outside @ adjoint(basis),)
        return (outside @ adjoint(x @ basis),)

    def _inverse(self, a: Array) -> Array:
        return bind(PseudoInverse(self.rtol, "drop"), a)[0]


def _require_invariant(both: Array) -> None:
    """X^H X_bar, and below it X_bar, of a loss f(X) = f(X Q) for all unitary Q: it is Hermitian."""
    k = both.shape[-1]
    inner, bar = both[..., :k, :], both[..., k:, :]
    xp = namespace(bar)
    skew = norm(xp.abs(inner - adjoint(inner)), axis=(-2, -1))
    check_or_raise(
        (skew <= eps(bar) ** 0.5 * norm(xp.abs(bar), axis=(-2, -1))).all(), _depends_on_basis
    )


def _depends_on_basis() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: the loss depends on which basis of the space is given, which is arbitrary. "
        "Let it depend on X X^H, or on norms of products with X."
    )
