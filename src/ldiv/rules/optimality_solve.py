"""u = K^-1 r, K the symmetric optimality system of a quadratic program for its active rows.

tangent      du = K^-1 (dr - dK u)
cotangent    lam = K^-1 u_bar;   r_bar = lam,   K_bar = -lam u^T
cost         1 solve with the factor of the program, and 2 more where solves with K are loose, that is,
             leave more than rounding: then u is corrected by residuals of twice the digits
reference    `solve`
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import common_batch, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import ENGINE, Cases, Rule, Traits, bind
from ldiv.core.rules.structure import minus, outer, push
from ldiv.engines.programs import active_system
from ldiv.engines.programs.optimality import Optimality
from ldiv.structures.sparse import Sparse


@dataclass(frozen=True)
class OptimalitySolve(Rule):
    """Arguments: the entries of K, r; and, constants, which rows are active, and where solves are loose,
    or 0. Outputs: u, and, without derivatives, by how much rounding may move it, 0 where none is loose.
    """

    system: Optimality

    core = (1, 1, 1, 1)
    traits = Traits(name="solve_qp", differentiable=(True, False), on_host=True, few=ENGINE)

    def kernel(self, *args: Tree) -> Arrays:
        batch, r = common_batch(self.core, args), args[1]
        spec = ((*batch, r.shape[-1]), numpy_dtype(r))
        return tuple(on_host(partial(active_system.solve, self.system), (spec, spec), *args))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (K, _, *of_rows), (dK, dr, *_), (u, off) = args, tangents, out
        dKu = None if dK is None else push(self.system.structure, K, dK, u[..., None])
        # K du = dr - dK u
        moved = minus(dr, None if dKu is None else dKu[..., 0])
        return 0 * u if moved is None else self._again(K, moved, *of_rows), 0 * off

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (K, _, *of_rows), (u, _), (u_bar, _) = args, out, cotangents
        # K is symmetric: lam = K^-1 u_bar,  K_bar = -lam u^T
        lam = self._again(K, u_bar, *of_rows)
        K_bar = outer(self.system.structure, K, -lam[..., None], u[..., None], need[0])
        constants = (0 * x if wanted else None for x, wanted in zip(of_rows, need[2:], strict=True))
        return K_bar, lam if need[1] else None, *constants

    def _again(self, *args: Tree) -> Array:
        return bind(self, *args)[0]


def cases(structures: Any, draw: Any) -> Cases:
    """Yield a system without rows: their activity is an integer, which has no derivative."""
    P = draw(3)
    if np.iscomplexobj(P):
        return
    i = np.arange(3)
    none, rows = draw(0), Sparse(Pattern(i[:0], i[:0], (0, 3)))
    system = Optimality(Sparse(Pattern(i, i, (3, 3))), rows, rows, False)
    K = system.values(abs(P) + 1, none, none)
    yield OptimalitySolve(system), (K, draw(2, 3), none, 0 * P[:1])
