"""s = det A / |det A|, l = log |det A| of a dense A.

tangent      dl = Re t,  ds = i s Im t,  t = tr(A^-1 dA)
cotangent    A_bar = (l_bar + i Im(conj(s) s_bar)) A^-H
cost         1 factorization forward, none backward: n solves, as the gradient of l is A^-H itself
reference    Jacobi's formula
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldiv.core.arrays import conj, is_complex, numpy_dtype, real
from ldiv.core.dispatch import check_or_raise, namespace, traced
from ldiv.core.errstate import singular_state
from ldiv.core.finite import require_finite
from ldiv.core.rule import Rule, bind
from ldiv.core.structure import plus
from ldiv.core.trees import Array, Tree
from ldiv.engines import solver
from ldiv.engines.scaling import balanced
from ldiv.errors import SingularMatrixError, expected_got
from ldiv.rules.inverse import Inverse
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import symmetric_part


@dataclass(frozen=True)
class SLogDet(Rule):
    """Argument A (*batch, n, n); outputs (s, l), (*batch,)."""

    n: int
    positive: bool = False  # must the determinant be positive?
    promise: str = ""  # that A is its transpose, "T", or its conjugate transpose, "H"
    singular: str = field(default_factory=singular_state)

    may_overflow = True
    core = (2,)
    on_host = True

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        require_finite("A", *args)
        if self.promise:
            symmetric_part(args[0], self.promise)  # raises where it is not kept
        sign, size = self._of_factor(args[0])
        if self.positive:
            slack = 8 * self.n * float(np.finfo(numpy_dtype(size)).eps) if is_complex(sign) else 0
            check_or_raise((namespace(sign).abs(sign - 1) <= slack).all(), not_positive)
        return sign, size

    def _of_factor(self, a: Array) -> tuple[Array, Array]:
        """Computed from the LU that the derivative will use again, if A is not singular.

        A singular matrix has no derivative, but it has a determinant.
        """
        a, t = balanced(a)
        if t is None and not traced(a) and 0 not in a.shape:
            with suppress(SingularMatrixError):
                return solver.slogdet(dense(self.n, self.n), a)
        sign, size = namespace(a).linalg.slogdet(a)
        return sign, size if t is None else size - 2 * self.n * namespace(t).log(t[..., 0, 0])

    def jvp(
        self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree
    ) -> tuple[Array | None, ...]:
        (A,), (dA,), (sign, _) = args, tangents, out
        if dA is None:
            return None, None
        t = namespace(A).linalg.trace(self._inverse_times(A, dA))
        return sign * (1j * namespace(t).imag(t) if is_complex(t) else 0 * t), real(t)

    def vjp(
        self,
        need: tuple[Tree, ...],
        cotangents: tuple[Array | None, ...],
        out: tuple[Array, ...],
        *args: Tree,
    ) -> tuple[Tree, ...]:
        (A,), (s_bar, l_bar), (sign, _) = args, cotangents, out
        weight = with_turn(l_bar, s_bar, sign)
        if weight is None:
            return (None,)
        rule = Inverse(dense(self.n, self.n).H, singular=self.singular)
        return (weight[..., None, None] * bind(rule, A)[0],)

    def _inverse_times(self, A: Array, dA: Array) -> Array:
        return solve(dense(self.n, self.n), A, dA, singular=self.singular)


def with_turn(l_bar: Array | None, s_bar: Array | None, sign: Array) -> Array | None:
    """l_bar + i Im(conj(s) s_bar): the weight of A^-H; None is zero."""
    if s_bar is None or not is_complex(sign):
        return l_bar
    inner = conj(sign) * s_bar
    return plus(l_bar, (inner - conj(inner)) / 2)


def not_positive() -> ValueError:
    """The error of logdet for a determinant that is not positive."""
    return ValueError(
        expected_got(
            "logdet",
            "a positive determinant",
            "one that is not",
            'Promise assume_a="pos" where it holds, or use slogdet.',
        )
    )


def cases(structures: Any, draw: Any) -> Iterator[tuple[SLogDet, tuple[Tree, ...]]]:
    yield SLogDet(4), (draw(4, 4) + 4 * np.eye(4),)
