"""Preconditioners of PETSc by name: `M="amg"` of `solve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.errors import EngineError, shown, value_error

NAMES: dict[str, dict[str, str | None]] = {
    "amg": {"pc_type": "gamg"},
    "gamg": {"pc_type": "gamg"},
    "hypre": {"pc_type": "hypre"},
    "jacobi": {"pc_type": "jacobi"},
    "block_jacobi": {"pc_type": "bjacobi"},
    "ilu": {"pc_type": "bjacobi", "sub_pc_type": "ilu"},
}


@dataclass(frozen=True)
class Named(Structure):
    """A preconditioner that PETSc sets up, without parameters of its own."""

    name: str
    n: int

    core = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    def matmul(self, p: Tree, x: Array) -> Array:
        raise EngineError(f"{self.name} is a preconditioner of PETSc, which has no products.")

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return self.matmul(p, x)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        return self.matmul(p, u)

    def todense(self, p: Tree) -> Array:
        return self.matmul(p, p)

    def view(self, op: str) -> Structure:
        return self


def named(M: Any, n: int) -> Named:
    """The preconditioner of this name."""
    if not isinstance(M, str) or M not in NAMES:
        what = f"one of {', '.join(map(repr, NAMES))} for a matrix over several processes"
        advice = "Others are options of PETSc: solver_parameters={'pc_type': ...}."
        raise value_error("M", what, shown(M), advice)
    return Named(M, n)
