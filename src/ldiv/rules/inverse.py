"""X = S(p)^-1 of a matrix that is stored as a dense array: used by the gradient of the determinant.

tangent      dX = -S^-1 dS[dp] X
cotangent    p_bar = -dS^*[S^-H X_bar X^H]
cost         1 factorization, if there is none, and 2/3 n^3 operations by Cholesky, 2 n^3 by LU; of
             derivatives n solves
reference    Higham, Accuracy and Stability of Numerical Algorithms, chapter 14
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.core.rules.structure import Structure, nonzero, outer, push
from ldiv.core.rules.units import of_matrix
from ldiv.engines import solver
from ldiv.engines.factors.dense_calls import InverseCalls, dense_calls
from ldiv.engines.factors.dense_programs import dense_programs
from ldiv.rules.solve import solve
from ldiv.structures.dense import Dense
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class Inverse(Rule):
    """Argument p; output (*batch, n, n)."""

    structure: Structure
    assume_a: str = "gen"
    method: str = "auto"

    traits = Traits(on_host=True, only_refuses=True)

    @property
    def core(self) -> Trees:
        return (self.structure.core,)

    @property
    def units(self) -> tuple[Unit, ...]:
        return of_matrix(self.structure, (-2,))

    def operation(self) -> Compiled | None:
        found: Compiled | None = dense_calls(
            InverseCalls, self.structure, self.assume_a, self.method
        )
        return found

    def program(self, *flat: Any) -> CompiledCall | None:
        programs = dense_programs(self.structure, self.assume_a, self.method)
        return None if programs is None else programs.inverse(self.policy, *flat)

    def kernel(self, *args: Tree) -> Arrays:
        return (solver.inverse(self.structure, args[0], self.assume_a, self.method),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p,), (dp,), (x,) = args, tangents, out
        moved = push(self.structure, p, dp, x)
        # dX = -S^-1 dS X
        return (-self._solve(self.structure, p, nonzero(moved)),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p,), (x_bar,), (x,) = args, cotangents, out
        # lam = S^-H X_bar,  p_bar = -dS^*[lam X^H]
        lam = self._solve(self.structure.H, p, x_bar)
        return (outer(self.structure, p, -lam, x, need[0]),)

    def _solve(self, structure: Structure, p: Tree, b: Array) -> Array:
        return solve(structure, p, b, self.assume_a, self.method)


def is_whole(structure: Structure) -> bool:
    """Whether S is one dense array or the symmetric part of one, so that dS^*[S^-H] = S^-H."""
    base = structure.base if isinstance(structure, Symmetric) else structure
    return isinstance(base, Dense)


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        if is_whole(structure) and structure.shape[0] == structure.shape[1]:
            yield Inverse(structure), (p,)
            yield Inverse(structure.H), (p,)
