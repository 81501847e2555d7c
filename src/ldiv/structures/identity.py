"""S = I, without parameters: the metric of an eigenproblem A x = lam x without B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure


@dataclass(frozen=True)
class Identity(Structure):
    """The identity of size n. Parameters: the empty tuple, so that it has no tangents."""

    n: int

    core = ()
    definite = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    def matmul(self, p: Tree, x: Array) -> Array:
        return x

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        raise AssertionError("nothing moves")

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return ()

    def view(self, op: str) -> Structure:
        return self

    def todense(self, p: Tree) -> Any:
        return np.eye(self.n)
