"""d = det A, whose derivative every matrix has, singular ones too.

tangent      dd = tr(adj(A) dA)
cotangent    A_bar = d_bar adj(A)^H
cost         1 factorization forward; the derivative the inverse of A, or of a matrix little larger
reference    Golub and Van Loan, section 2.1; Magnus and Neudecker, chapter 8

adj(A) is that of `Adjugate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, factors, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace, traced
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import all_finite
from ldiv.core.rules.rule import Cases, Rule, Traits, bind
from ldiv.engines.accuracy.accepted import LU
from ldiv.engines.factors.dense_calls import DetCalls
from ldiv.engines.factors.dense_programs import dense_programs
from ldiv.errors import overflowed
from ldiv.rules.adjugate import Adjugate, adjugate
from ldiv.rules.slogdet import SLogDet
from ldiv.structures.dense import dense


@dataclass(frozen=True)
class Det(Rule):
    """Argument A (*batch, n, n); output (*batch,). `promise` as in `SLogDet`."""

    promise: str = ""

    core = (2,)
    traits = Traits(name="det", on_host=True, sees_overflow=True, only_refuses=True)

    def operation(self) -> Compiled | None:
        """Return the calls that take regular matrices."""
        return None if self.promise else DetCalls(LU, "N", "N", sign=True, positive=False)

    def program(self, *flat: Any) -> CompiledCall | None:
        programs = dense_programs(dense(*flat[0].shape[-2:]), "gen", "auto")
        return None if self.promise or programs is None else programs.det(self.policy, *flat)

    def kernel(self, a: Array) -> Arrays:
        sign, size = SLogDet(dense(*a.shape[-2:]), promise=self.promise).kernel(a)
        with np.errstate(all="ignore"):  # an overflow is an error of ours, not a warning of NumPy's
            d = sign * namespace(size).exp(size)
        check_or_raise(all_finite(d), partial(overflowed, "det"))
        return (d,)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (a,), (da,), (d,) = args, tangents, out
        # tr(adj(A) dA) = the sum of adj(A)^T o dA
        return (namespace(da).sum(transpose(_adjugate(a, d)) * da, axis=(-2, -1)),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (a,), (d_bar,), (d,) = args, cotangents, out
        # A_bar = d_bar adj(A)^H
        return (factors(d_bar) * adjoint(_adjugate(a, d)),)


def _adjugate(a: Array, d: Array) -> Array:
    """adj(A): a rule in a trace, whose program may have one call for it."""
    return bind(Adjugate(), a, d)[0] if traced(a) else adjugate(a, d)


def cases(structures: Any, draw: Any) -> Cases:
    yield Det(), (draw(2, 4, 4),)
