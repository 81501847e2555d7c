"""T, the space in which an argument moves, by its orthogonal projection P; a cotangent counts on T alone: <g, P d> = <P g, d>.

symmetric          P d = (d + d^T) / 2,  of a matrix with this structure too, unmarked
hermitian          P d = (d + d^H) / 2
positive_definite  the same, within half of the least eigenvalue
triangular         P d = the triangle of d, without its diagonal where that is one
orthonormal        P d = d - X (X^H d + d^H X) / 2
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays import adjoint, numpy_dtype, transpose
from ldiv.core.dispatch import asnumpy
from ldiv.core.finite import require_finite
from ldiv.core.pytree import ArrayHolder
from ldiv.core.trees import Array, leaves
from ldiv.core.validate import require_flag, require_float, require_square
from ldiv.derivatives.vjp_jvp import like
from ldiv.errors import NotPositiveDefiniteError, NotSymmetricError, got
from ldiv.linalg.eigen import eigsh
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

FIRST = 2.0**-5  # the largest step, relative to the argument
FLOOR = 1e-3
DENSE = 1000  # up to this order the least eigenvalue is LAPACK's
Map = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Argument(ArrayHolder):
    """An argument of a function, and where it may move."""

    value: Any
    mark: Map | None = None  # the projection, where a mark says it
    reach: float = np.inf  # how long a perturbation may be

    def __post_init__(self) -> None:
        for leaf in self.flat:
            require_float("an argument of gradcheck", leaf)
            if np.finfo(dtype := numpy_dtype(leaf)).eps > 1e-15:
                advice = "Differences of single precision have 3 digits: convert the arguments (in JAX with jax_enable_x64)."
                raise TypeError(got("an argument of gradcheck", "float64 or complex128", dtype.name, advice))

    @property
    def flat(self) -> list[Array]:
        return leaves(self.value.params) if isinstance(self.value, Matrix) else [self.value]

    @property
    def project(self) -> Map:
        return self.mark or _promised(self.value)

    def rebuilt(self, flat: list[Array]) -> Any:
        return like(self.value, flat)

    def random(self, rng: np.random.Generator) -> list[Array]:
        """A direction of about the size of the argument."""
        return self._within([self.project(_normal(rng, x) * _sizes(x)) for x in map(asnumpy, self.flat)])

    def basis(self) -> Iterator[tuple[str, list[Array]]]:
        """One direction for each entry that is free, two for a complex one."""
        values, seen = [asnumpy(x) for x in self.flat], set[bytes]()
        for at, x in enumerate(values):
            sizes = _sizes(x).ravel()
            for k in range(x.size):
                for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                    flat = [np.zeros(v.shape, v.dtype) for v in values]
                    flat[at].reshape(-1)[k] = unit * sizes[k]
                    flat[at] = self.project(flat[at])
                    if _new(flat[at], seen):  # each pair (i, j), (j, i) once
                        yield f"[{', '.join(map(str, np.unravel_index(k, x.shape)))}]" + " i" * (unit == 1j), self._within(flat)

    def _within(self, flat: list[Array]) -> list[Array]:
        length = np.sqrt(sum(np.linalg.norm(d) ** 2 for d in flat))
        return [d * min(1.0, self.reach / (2 * FIRST * length)) if length else d for d in flat]


def _new(d: Array, seen: set[bytes]) -> bool:
    """Whether d is not zero, and neither d nor -d has been seen."""
    known = {d.tobytes(), (0 - d).tobytes()} & seen
    seen.add((d + 0.0).tobytes())
    return bool(d.any()) and not known


def _normal(rng: np.random.Generator, x: Array) -> Array:
    d = rng.standard_normal(x.shape)
    return d + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else d


def _sizes(x: Array) -> Array:
    """Every entry moves by its own size, so that bad scaling is kept, but by no less than a thousandth of what they have on average."""
    size = np.abs(x)
    largest = size.max(initial=0)
    return np.maximum(size, FLOOR * largest * np.sqrt(np.mean((size / largest) ** 2))) if largest else np.ones_like(size)


# -- the marks -----------------------------------------------------------------------------------------------------------------------


def symmetric(A: Any) -> Argument:
    """For gradcheck: A (*batch, n, n), or a SparseArray, is symmetric and stays so."""
    return _self_adjoint("symmetric", A, _itself, "transpose")


def hermitian(A: Any) -> Argument:
    """For gradcheck: A (*batch, n, n), or a SparseArray, is Hermitian and stays so."""
    return _self_adjoint("hermitian", A, np.conj, "conjugate transpose")


def positive_definite(A: Any) -> Argument:
    """For gradcheck: A (*batch, n, n), or a SparseArray, is Hermitian positive definite and stays so."""
    argument = hermitian(A)
    if not (least := _least_eigenvalue(A)) > 0:
        raise NotPositiveDefiniteError("gradcheck", f"the eigenvalue {least:.1e}")
    return Argument(A, argument.project, least)


def triangular(L: Any, *, lower: bool = True, unit_diagonal: bool = False) -> Argument:
    """For gradcheck: only one triangle of L (*batch, n, n), or of a SparseArray, is read, its diagonal only where it is not one."""
    lower, unit_diagonal = require_flag("lower", lower), require_flag("unit_diagonal", unit_diagonal)
    _matrix("L", L)
    row, col = places(L)
    below = row - col if lower else col - row
    return Argument(L, partial(operator.mul, below > 0 if unit_diagonal else below >= 0))


def orthonormal(X: Any) -> Argument:
    """For gradcheck: X (*batch, n, k) has orthonormal columns, and keeps them: X^H dX + dX^H X = 0."""
    x = asnumpy(_matrix("X", X, arrays=True))
    if (defect := np.abs(adjoint(x) @ x - np.eye(x.shape[-1])).max(initial=0)) > 1e-8:
        raise ValueError(got("X", "orthonormal columns", f"X^H X - I up to {defect:.1e}", "Take the Q of a QR factorization."))
    return Argument(X, partial(_tangent_to_orthonormal, x))


def _matrix(name: str, a: Any, *, arrays: bool = False) -> Any:
    """An array of matrices, or a SparseArray, with finite numbers."""
    sparse = isinstance(a, SparseArray) and not arrays
    values = require_float(name, a.data if sparse else a)
    if not sparse and values.ndim < 2:
        raise ValueError(got(name, "a matrix (*batch, m, n)", f"shape {tuple(values.shape)}", "Add the missing axis."))
    require_finite(name, asnumpy(values))
    return a


def _self_adjoint(name: str, A: Any, conj: Map, partner: str) -> Argument:
    require_square("A", tuple(_matrix("A", A).shape[-2:]))
    if (swap := exchange(A)) is None:
        advice = "Add up the duplicates of a SparseArray first."
        raise TypeError(got(name, "a square array, or a SparseArray without duplicates", repr(A)[:60], advice))
    (x,) = map(asnumpy, Argument(A).flat)
    defect, largest = np.abs(x - conj(swap(x))).max(initial=0), np.abs(x).max(initial=0)
    if defect > 1e-12 * largest:
        raise NotSymmetricError(float(defect / largest), partner)
    return Argument(A, partial(_self_adjoint_part, swap, conj))


# -- projections, which are pickled with the arguments that they belong to: functions of this module with some arguments given ----------


def _itself(d: Array) -> Array:
    return d


def _self_adjoint_part(swap: Map, conj: Map, d: Array) -> Array:
    return (d + conj(swap(d))) / 2


def _tangent_to_orthonormal(x: Array, d: Array) -> Array:
    return d - x @ (adjoint(x) @ d + adjoint(d) @ x) / 2


def _entries_exchanged(partner: Array, there: Array, d: Array) -> Array:
    return d[..., partner] * there


def _promised(value: Any) -> Map:
    """A matrix that is known to be symmetric stays so; all numbers of any other one may move."""
    if isinstance(value, Matrix) and isinstance(structure := value.structure, Symmetric):
        base, p = structure.base, value.params
        swap = exchange(SparseArray(base, p) if isinstance(base, Sparse) else p)
        if swap is not None:
            return partial(_self_adjoint_part, swap, np.conj if structure.op == "H" else _itself)
    return _itself


def _least_eigenvalue(A: Any) -> float:
    if isinstance(A, SparseArray):
        A = A.with_data(asnumpy(A.data))
        if A.shape[-1] > DENSE:
            return float(eigsh(A, k=1, sigma=0.0, return_eigenvectors=False)[0])
        A = A.toarray()
    return float(np.linalg.eigvalsh(asnumpy(A)).min(initial=np.inf))


def places(a: Any) -> Any:
    """The row and the column of every number that a matrix holds."""
    if isinstance(a, SparseArray):
        return a.row.astype(np.int64), a.col.astype(np.int64)
    if isinstance(a, Matrix) or a.ndim < 2:
        raise TypeError(got("a matrix of gradcheck", "an array (*batch, m, n) or a SparseArray", repr(a)[:60], "Give it as it is, unmarked."))
    return np.indices(a.shape[-2:])


def exchange(a: Any) -> Map | None:
    """The numbers of a matrix -> those of its transpose, zero where that has none; None where there is no such map."""
    if (isinstance(a, Matrix) and not isinstance(a, SparseArray)) or len(a.shape) < 2 or a.shape[-1] != a.shape[-2]:
        return None
    if not isinstance(a, SparseArray):
        return transpose
    (row, col), n = places(a), a.shape[-1]
    key, mirrored = row * n + col, col * n + row
    order = np.argsort(key)
    if (np.diff(key[order]) == 0).any():
        return None
    partner = order[np.searchsorted(key[order], mirrored).clip(max=len(key) - 1)] if len(key) else order
    return partial(_entries_exchanged, partner, key[partner] == mirrored)
