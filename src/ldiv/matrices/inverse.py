"""S(p) = B(p)^-1 as a matrix to multiply with: each product is a solve, whose factorization
is kept as long as it is in use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ldiv.core.arrays.shapes import unit_columns
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import Structure, Wrapper
from ldiv.rules.solve import solve


@dataclass(frozen=True)
class Inverse(Wrapper):
    """The inverse of a square base, whose parameters it shares. d(B^-1) x = -B^-1 dB B^-1 x."""

    base: Structure
    assume_a: str = "gen"
    method: str = "auto"
    singular: str = "raise"
    factor_dtype: str | None = None

    unit_powers = None  # it becomes t^-2 S

    def matmul(self, p: Tree, x: Array) -> Array:
        with under(self.singular):
            return solve(self.base, p, x, self.assume_a, self.method, self.factor_dtype)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return -self.matmul(p, self.base.push(p, dp, self.matmul(p, x)))

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return self.base.outer(p, -self.view("H").matmul(p, u), self.matmul(p, v), need)

    def view(self, op: str) -> Structure:
        return replace(self, base=self.base.view(op))

    def todense(self, p: Tree) -> Array:
        n = self.shape[0]
        return self.matmul(p, unit_columns(leaves(p)[0], n, range(n)))
