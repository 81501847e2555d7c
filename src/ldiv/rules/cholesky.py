"""A = L L^H, L lower with a positive diagonal; A is read as its Hermitian part.

tangent      dL = L half(L^-1 dA L^-H),   half(X) = tril(X) with half of the diagonal
cotangent    A_bar = L^-H herm(half(L^H L_bar)) L^-1
cost         1 factorization forward; each direction 2 triangular solves and 1 product
reference    Murray, Differentiation of the Cholesky decomposition, arXiv:1602.07527
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import hermitian
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.engines.accuracy.scaling import balanced
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.triangle_calls import CholeskyCalls
from ldiv.errors import NotPositiveDefiniteError
from ldiv.rules.triangular_algebra import product
from ldiv.rules.triangular_quotients import congruence_solve, half, lower
from ldiv.structures.symmetric import symmetric_part


@dataclass(frozen=True)
class Cholesky(Rule):
    """Argument (*batch, n, n), of which both triangles are read; output L (*batch, n, n)."""

    core = (2,)
    traits = Traits(on_host=True, only_refuses=True)

    # t^2 A = (t L) (t L)^H
    units = (Unit((2,), (1,)),)

    def operation(self) -> Compiled:
        return _COMPILED

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.cholesky(*flat)

    def kernel(self, a: Array) -> Arrays:
        if 0 in a.shape:
            return (a + 0,)
        require_finite("A", a)
        # T A T = L L^H for a scaling T by powers of two: the factor of A is T^-1 L
        part, t = balanced(symmetric_part(a, "H"))
        l, definite = frontend_of(a).dense.cholesky(part)
        check_or_raise(
            definite,
            lambda: NotPositiveDefiniteError("Cholesky", "a leading minor that is not positive"),
        )
        return (namespace(l).tril(l if t is None else l / t),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (l,) = tangents, out
        # dL = L half(L^-1 dA L^-H)
        return (l @ half(congruence_solve(*lower(l), hermitian(da))),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (l_bar,), (l,) = cotangents, out
        # A_bar = L^-H herm(half(L^H L_bar)) L^-1
        structure, p = lower(l)
        return (congruence_solve(structure.H, p, hermitian(half(product("HN", l, l_bar)))),)


_COMPILED = CholeskyCalls()


def cases(structures: Any, draw: Any) -> Cases:
    for shape in ((4, 4), (1, 1, 1), (2, 3, 3)):
        a = draw(*shape)
        yield Cholesky(), (a @ np.conj(a.mT) + np.eye(shape[-1]),)
