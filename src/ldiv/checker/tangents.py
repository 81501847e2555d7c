"""The tangent space T in which an argument moves, given by its orthogonal projection P.

A cotangent g counts on T alone: <g, P d> = <P g, d>.

symmetric          P d = (d + d^T) / 2;  unmarked too for a matrix with this structure
hermitian          P d = (d + d^H) / 2
positive_definite  the same, within half of the least eigenvalue
triangular         P d = the triangle of d, without its diagonal for a unit diagonal
orthonormal        P d = d - X (X^H d + d^H X) / 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.processes import Processes
from ldiv.core.arrays.pytree import ArrayHolder
from ldiv.core.arrays.shapes import numpy_dtype, transpose
from ldiv.core.arrays.validate import require_float
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import HostArray, leaves
from ldiv.derivatives.vjp_jvp import like
from ldiv.errors import type_error
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

Map = Callable[[HostArray], HostArray]
FIRST = 2.0**-5  # the largest step, relative to the argument
FLOOR = 1e-3


@dataclass(frozen=True, eq=False)
class Argument(ArrayHolder):
    """An argument of a function, and the directions in which it may move."""

    value: Any
    mark: Map | None = None  # the projection of a marked argument
    reach: float = np.inf  # the largest norm of a perturbation
    shared: bool = False  # over several processes: one of the whole, equal everywhere

    def __post_init__(self) -> None:
        for leaf in self.flat:
            require_float("an argument of gradcheck", leaf)
            if np.finfo(dtype := numpy_dtype(leaf)).eps > 1e-15:
                advice = "In single precision differences have 3 digits; in JAX set jax_enable_x64."
                raise type_error(
                    "an argument of gradcheck", "float64 or complex128", dtype.name, advice
                )

    @property
    def flat(self) -> list[HostArray]:
        """The arrays that the argument holds."""
        return leaves(self.value.params) if isinstance(self.value, Matrix) else [self.value]

    @property
    def project(self) -> Map:
        """The projection onto the tangent space."""
        return self.mark or _unmarked(self.value)

    @property
    def processes(self) -> Processes | None:
        """The processes that share a matrix."""
        return self.value.structure.space.processes if isinstance(self.value, Matrix) else None

    def rebuilt(self, flat: list[HostArray]) -> Any:
        return like(self.value, flat)

    def random(
        self, rng: np.random.Generator, among: list[HostArray] | None = None
    ) -> list[HostArray]:
        """A random direction of about the size of the argument, of all entries, or of some."""
        values = [asnumpy(x) for x in self.flat]
        steps = [drawn(rng, x) * _sizes(x) for x in values]
        if among is not None:
            steps = [d * m for d, m in zip(steps, among, strict=True)]
        return self._within([self.project(d) for d in steps])

    @property
    def free(self) -> list[HostArray]:
        """A random projected direction: nonzero exactly at the entries that may move."""
        rng = np.random.default_rng(0)
        return [self.project(drawn(rng, asnumpy(x))) for x in self.flat]

    def basis(self) -> Iterator[tuple[str, list[HostArray]]]:
        """Yield one direction for each free entry, two for a complex one."""
        values, seen = [asnumpy(x) for x in self.flat], set[bytes]()
        for at, x in enumerate(values):
            sizes = _sizes(x).ravel()
            for k in range(x.size):
                for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                    flat = [np.zeros(v.shape, v.dtype) for v in values]
                    flat[at].reshape(-1)[k] = unit * sizes[k]
                    flat[at] = self.project(flat[at])
                    if _new(flat[at], seen):  # each pair (i, j), (j, i) once
                        yield (
                            f"[{', '.join(map(str, np.unravel_index(k, x.shape)))}]"
                            + " i" * (unit == 1j),
                            self._within(flat),
                        )

    def _within(self, flat: list[HostArray]) -> list[HostArray]:
        length = np.sqrt(sum(np.linalg.norm(d) ** 2 for d in flat))
        return [d * min(1.0, self.reach / (2 * FIRST * length)) if length else d for d in flat]


def _new(d: HostArray, seen: set[bytes]) -> bool:
    """Whether d is not zero, and neither d nor -d has been seen."""
    repeated = {d.tobytes(), (0 - d).tobytes()} & seen
    seen.add((d + 0.0).tobytes())
    return bool(d.any()) and not repeated


def drawn(rng: np.random.Generator, like: HostArray) -> HostArray:
    """Numbers from 1 to 2 of random signs, of the shape of an array; in both parts of complex ones.

    None is small, as normal ones may be: what they weigh would hardly be seen.
    """
    parts = [
        rng.uniform(1, 2, like.shape) * rng.choice((-1.0, 1.0), like.shape)
        for _ in range(1 + (like.dtype.kind == "c"))
    ]
    return parts[0] + 1j * parts[1] if len(parts) == 2 else parts[0]


def _sizes(x: HostArray) -> HostArray:
    """The step of every entry: its own size, so that bad scaling is respected.

    It is at least FLOOR times the root mean square of the entries.
    """
    size = np.abs(x)
    largest = size.max(initial=0)
    return (
        np.maximum(size, FLOOR * largest * np.sqrt(np.mean((size / largest) ** 2)))
        if largest
        else np.ones_like(size)
    )


def _unmarked(value: Any) -> Map:
    """A matrix that is known to be symmetric stays so; all numbers of any other one may move."""
    if isinstance(value, Matrix) and isinstance(structure := value.structure, Symmetric):
        base, p = structure.base, value.params
        swap = exchange(SparseArray(base, p) if isinstance(base, Sparse) else p)
        if swap is not None:
            return partial(self_adjoint_part, swap, np.conj if structure.op == "H" else itself)
    return itself


def itself(d: HostArray) -> HostArray:
    return d


def self_adjoint_part(swap: Map, conj: Map, d: HostArray) -> HostArray:
    return (d + conj(swap(d))) / 2


def _entries_exchanged(partner: HostArray, there: HostArray, d: HostArray) -> HostArray:
    return d[..., partner] * there


def places(a: Any) -> Any:
    """The row and the column of every number that a matrix stores."""
    if isinstance(a, SparseArray):
        return a.row.astype(np.int64), a.col.astype(np.int64)
    if isinstance(a, Matrix) or a.ndim < 2:
        raise type_error(
            "a matrix of gradcheck",
            "an array (*batch, m, n) or a SparseArray",
            repr(a)[:60],
            "Give it as it is, unmarked.",
        )
    return np.indices(a.shape[-2:])


def exchange(a: Any) -> Map | None:
    """The map from the numbers of a matrix to those of its transpose.

    Zero where the transpose stores nothing; None where there is no such map.
    """
    if (
        (isinstance(a, Matrix) and not isinstance(a, SparseArray))
        or len(a.shape) < 2
        or a.shape[-1] != a.shape[-2]
    ):
        return None
    if not isinstance(a, SparseArray):
        return transpose
    (row, col), n = places(a), a.shape[-1]
    key, mirrored = row * n + col, col * n + row
    order = np.argsort(key)
    if (np.diff(key[order]) == 0).any():
        return None
    partner = (
        order[np.searchsorted(key[order], mirrored).clip(max=len(key) - 1)] if len(key) else order
    )
    return partial(_entries_exchanged, partner, key[partner] == mirrored)
