"""S(p) = B(p), under the assumption B = B^H (or B = B^T): each view is S or its conjugate.

For matrices without explicit entries; where there are entries, `Symmetric` checks the assumption.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, Wrapper


@dataclass(frozen=True)
class SelfAdjoint(Wrapper):
    """A base assumed Hermitian (`op="H"`) or symmetric (`op="T"`), unchecked."""

    base: Structure
    op: str = "H"

    @property
    def definite(self) -> bool:
        return self.base.definite

    @property
    def plain(self) -> Structure:
        return self.base

    def matmul(self, p: Tree, x: Array) -> Array:
        return self.base.matmul(p, x)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return self.base.push(p, dp, x)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return self.base.outer(p, u, v, need)

    def view(self, op: str) -> Structure:
        return self if op in ("N", self.op) else SelfAdjoint(self.base.C, self.op)

    def unview(self) -> tuple[Structure, str]:
        base, op = self.base.unview()
        transposed, conjugated = VIEWS[op]
        return SelfAdjoint(base, self.op), "C" if conjugated != (
            transposed and self.op == "H"
        ) else "N"

    def todense(self, p: Tree) -> Array:
        return self.base.todense(p)
