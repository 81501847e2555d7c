"""C' = alpha op(A) op(B) + beta C,  op = N, T, H or C.

tangent      dC' = dalpha op(A) op(B) + alpha (op(dA) op(B) + op(A) op(dB)) + dbeta C + beta dC
cotangent    G = C'_bar op(B)^H;
             A_bar = op(conj(alpha) G),   B_bar = op(op(A)^H conj(alpha) C'_bar),
             C_bar = conj(beta) C'_bar,   beta_bar = <C, C'_bar>,
             alpha_bar = <op(A) op(B), C'_bar> = <op(A), G>, which needs no third product
cost         1 product forward, 2 backward; derivatives of higher order consist of products, too
reference    Dongarra, Du Croz, Hammarling and Duff, A set of level 3 basic linear algebra
             subprograms (1990)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.linear import Bilinear
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import compose, plus, view_dense


@dataclass(frozen=True)
class Gemm(Rule):
    """Arguments (alpha, a, b), or with `adds` (alpha, a, b, beta, c).

    Scalars are (*batch,), matrices (*batch, m, n).
    """

    op_a: str = "N"
    op_b: str = "N"
    adds: bool = True

    traits = Traits(may_overflow=True)

    @property
    def core(self) -> Trees:
        return (0, 2, 2, 0, 2) if self.adds else (0, 2, 2)

    @property
    def product(self) -> Product:
        return Product(self.op_a, self.op_b)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2, 0, 0, 2, 0) if self.adds else (2, 0, 0), (2,)),)

    def kernel(self, alpha: Array, a: Array, b: Array, *more: Array) -> Arrays:
        y = _wide(alpha) * self.product.kernel(a, b)[0]
        return (y + Scaled().kernel(*more)[0] if more else y,)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (alpha, a, b, *more), (dalpha, da, db, *dmore) = args, tangents
        # alpha (op(dA) op(B) + op(A) op(dB)) + dalpha op(A) op(B) + dbeta C + beta dC
        moved = self.product.jvp((da, db), (), a, b)[0]
        dy = None if moved is None else _wide(alpha) * moved
        if dalpha is not None:
            dy = plus(dy, _wide(dalpha) * bind(self.product, a, b)[0])
        return (plus(dy, Scaled().jvp(tuple(dmore), (), *more)[0]) if more else dy,)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (alpha, a, b, *more), (y_bar,) = args, cotangents
        alpha_bar = a_bar = b_bar = None
        if need[0] or need[1]:
            # G = C'_bar op(B)^H serves alpha_bar and A_bar
            g = bind(Product("N", compose(self.op_b, "H")), y_bar, b)[0]
            alpha_bar = _inner(view_dense(a, self.op_a), g) if need[0] else None
            a_bar = view_dense(_wide(conj(alpha)) * g, self.op_a) if need[1] else None
        if need[2]:
            # op(A)^H C'_bar
            g = bind(Product(compose(self.op_a, "H"), "N"), a, y_bar)[0]
            b_bar = view_dense(_wide(conj(alpha)) * g, self.op_b)
        return (
            alpha_bar,
            a_bar,
            b_bar,
            *(Scaled().vjp(need[3:], cotangents, (), *more) if more else ()),
        )


@dataclass(frozen=True)
class Product(Bilinear):
    """P = op(A) op(B);   dP = op(dA) op(B) + op(A) op(dB).

    Cotangent: A_bar = op(P_bar op(B)^H), B_bar = op(op(A)^H P_bar).
    """

    op_a: str = "N"
    op_b: str = "N"

    traits = Traits(may_overflow=True)
    core = (2, 2)

    def kernel(self, a: Array, b: Array) -> Arrays:
        return (view_dense(a, self.op_a) @ view_dense(b, self.op_b),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (a, b), (y_bar,) = args, cotangents
        # A_bar = op(P_bar op(B)^H),  B_bar = op(op(A)^H P_bar): op is its own adjoint and inverse
        return (
            view_dense(bind(Product("N", compose(self.op_b, "H")), y_bar, b)[0], self.op_a)
            if need[0]
            else None,
            view_dense(bind(Product(compose(self.op_a, "H"), "N"), a, y_bar)[0], self.op_b)
            if need[1]
            else None,
        )


@dataclass(frozen=True)
class Scaled(Bilinear):
    """Y = s X, and 0 where s = 0 (as BLAS, whatever X holds);  dY = ds X + s dX.

    Cotangent: s_bar = <X, Y_bar>, X_bar = conj(s) Y_bar.
    A rule of its own: at s = 0 the derivative in s is X, which `where` would lose.
    """

    traits = Traits(may_overflow=True)
    core = (0, 2)

    def kernel(self, s: Array, x: Array) -> Arrays:
        y, xp = _wide(s) * x, namespace(x)
        # as BLAS: s = 0 gives 0, even where X holds NaN
        return (xp.where(_wide(s) == 0, xp.zeros_like(y), y),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (s, x), (y_bar,) = args, cotangents
        return _inner(x, y_bar) if need[0] else None, bind(self, conj(s), y_bar)[0] if need[
            1
        ] else None


def _wide(s: Array) -> Array:
    """s (*batch,) as (*batch, 1, 1), to multiply the matrices of a batch."""
    return s[..., None, None] if s.ndim else s


def _inner(x: Array, y: Array) -> Array:
    """tr(x^H y)."""
    return namespace(x).sum(conj(x) * y, axis=(-2, -1))


def cases(structures: Any, draw: Any) -> Cases:
    """Yield both rules in one shape: other shapes and pairs of op differ in the kernel alone."""
    yield Gemm("T", "H"), (draw(), draw(3, 3), draw(3, 3), draw(), draw(3, 3))
    yield Product("H", "C"), (draw(3, 3), draw(3, 3))
