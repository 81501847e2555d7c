"""s = prod_i d_i / |d_i|, l = sum_i log |d_i|: the determinant of a diagonal or a triangle.

tangent      dl = Re t,  ds = i s Im t,  t = sum_i dd_i / d_i
cotangent    d_bar = (l_bar + i Im(conj(s) s_bar)) / conj(d)
cost         n divisions
reference    the chain rule
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays import conj, is_complex, real
from ldiv.core.dispatch import check_or_raise, namespace
from ldiv.core.finite import require_finite
from ldiv.core.rule import Rule
from ldiv.core.trees import Array, Tree
from ldiv.errors import SingularMatrixError
from ldiv.rules.slogdet import with_turn


@dataclass(frozen=True)
class DiagonalSLogDet(Rule):
    """Argument d (*batch, n); outputs (s, l), (*batch,)."""

    core = (1,)
    on_host = True

    @property
    def public_name(self) -> str:
        return "slogdet"

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        (d,) = args
        require_finite("A", d)
        xp, size = namespace(d), namespace(d).abs(d)
        check_or_raise((size > 0).all(), _singular)
        return xp.prod(d / size, axis=-1), xp.sum(xp.log(size), axis=-1)

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (d,), (dd,), (sign, _) = args, tangents, out
        if dd is None:
            return None, None
        t = namespace(d).sum(dd / d, axis=-1)
        return sign * (1j * namespace(t).imag(t)) if is_complex(t) else 0 * t, real(t)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (d,), (s_bar, l_bar), (sign, _) = args, cotangents, out
        weight = with_turn(l_bar, s_bar, sign)
        return (None if weight is None else weight[..., None] / conj(d),)


def _singular() -> SingularMatrixError:
    return SingularMatrixError("division", "a zero on the diagonal", certain=True)


def cases(structures: Any, draw: Any) -> Iterator[tuple[Rule, tuple[Tree, ...]]]:
    yield DiagonalSLogDet(), (draw(4) + 3,)
    yield DiagonalSLogDet(), (draw(2, 4) - 3,)
