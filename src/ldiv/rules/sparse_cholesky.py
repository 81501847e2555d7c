"""P S(p) P^T = L L^H for a sparse Hermitian S linear in p: the entries of L, in every order.

tangent      dL = T(L, E),   T L^H + L T^H = E,   E the entries of dS in the places of L
cotangent    p_bar = E^*[C(L, L_bar)],   C(L, .) the adjoint of T(L, .)
             of T: dT = T(L, dE - Q(T, dL)),    of C: dC = C(L, dY - R(C, dL))
             Q(X, Y) = X Y^H + Y X^H,    R(G, X) = tril(2 G X), adjoint in Y
cost         1 factorization, and twice as much for each direction of a derivative
reference    Smith, Differentiation of the Cholesky algorithm, J. Comput. Graph. Stat. 4 (1995)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, conj, is_complex, take
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, scatter
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import plus
from ldiv.engines import entries
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


@dataclass(frozen=True)
class SparseCholesky(Rule):
    """Argument p (*batch, nnz); output l (*batch, entries of L)."""

    structure: Symmetric

    traits = Traits(on_host=True)
    core = (1,)

    units = (Unit((2,), (1,)),)

    def kernel(self, *args: Tree) -> Arrays:
        return (entries.triangle(self.structure, args[0]),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (dp,), (l,) = tangents, out
        return (_bilinear("tangent", self.structure, l, lower_part(self.structure, dp)),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (l_bar,), (l,) = cotangents, out
        e_bar = _bilinear("cotangent", self.structure, l, l_bar)
        return (lower_part_adjoint(self.structure, e_bar),)


@dataclass(frozen=True)
class OfTriangles(Rescaled):
    """Arguments x and y, entries in the places of L; output T, C, Q or R, by its name.

    T and C read the real part of the diagonal of L.
    """

    name: str
    places: Symmetric  # the matrix that has these places of L

    traits = Traits(on_host=True)
    core = (1, 1)

    @property
    def units(self) -> tuple[Unit, ...]:
        # T and C solve with L: their power of L is -1; Q and R are bilinear
        inverts = self.name in ("tangent", "cotangent")
        return (
            Unit((2, 0), (-2 if inverts else 2,), by=(0,), name="L"),
            Unit((0, 2), (2,), by=(1,), name="the derivative of A"),
        )

    def kernel(self, *args: Tree) -> Arrays:
        return (entries.of_triangles(self.name, self.places, *args),)

    def _bind(self, name: str, x: Array, y: Array) -> Array:
        return _bilinear(name, self.places, x, y)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (dx, dy), (x, y), (z,) = tangents, args, out
        moved = None if dy is None else self._bind(self.name, x, dy)
        if dx is None:
            return (moved,)
        if self.name in ("product", "restricted"):
            return (plus(moved, self._bind(self.name, dx, y)),)
        # dT = T(x, dy - Q(T, dx)),  dC = C(x, dy - R(C, dx))
        by = "product" if self.name == "tangent" else "restricted"
        change = self._bind(by, z, _with_real_diagonal(self.places, dx))
        return (plus(moved, -self._bind(self.name, x, change)),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (z_bar,), (x, y), (z,) = cotangents, args, out
        of_x, of_y = need
        # Q is symmetric in its arguments, and R its adjoint in each
        if self.name == "product":
            return (
                self._bind("restricted", z_bar, y) if of_x else None,
                self._bind("restricted", z_bar, x) if of_y else None,
            )
        # <R(G, X), Z> = <G, Q(X, Z)> = <X, R(G, Z)>
        if self.name == "restricted":
            return (
                self._bind("product", y, z_bar) if of_x else None,
                self._bind("restricted", x, z_bar) if of_y else None,
            )
        # T and C are adjoint in y;  x_bar = -R(y_bar, T) of T, -R(C, y_bar) of C
        other = "cotangent" if self.name == "tangent" else "tangent"
        y_bar = self._bind(other, x, z_bar)
        pair = (y_bar, z) if self.name == "tangent" else (z, y_bar)
        return (
            -_with_real_diagonal(self.places, self._bind("restricted", *pair)) if of_x else None,
            y_bar if of_y else None,
        )


def _bilinear(name: str, structure: Symmetric, x: Array, y: Array) -> Array:
    return bind(OfTriangles(name, structure), x, y)[0]


def _with_real_diagonal(structure: Symmetric, x: Array) -> Array:
    if not is_complex(x):
        return x
    xp = namespace(x)
    _, rows, cols = entries.fronts_of(structure).factor_entries
    return xp.where(xp.asarray(rows == cols), (x + conj(x)) / 2, x)


# -- entries of S(p) in the places of L -----------------------------------------------------------


def lower_part(structure: Symmetric, p: Array) -> Array:
    """The lower triangle of the Hermitian part, each entry of p in its place."""
    place, weight, mirrored, size = _places(structure)
    return scatter(_weighted(p, weight, mirrored)[..., None], place, size)[..., 0]


def lower_part_adjoint(structure: Symmetric, e: Array) -> Array:
    place, weight, mirrored, _ = _places(structure)
    return _weighted(take(e, place), weight, mirrored)


def _weighted(x: Array, weight: Any, mirrored: Any) -> Array:
    xp = namespace(x)
    kept = x
    if is_complex(x):
        kept = xp.where(xp.asarray(mirrored), conj(x), x)
    return kept * xp.asarray(weight, **alike(x))


def _places(structure: Symmetric) -> tuple[Any, Any, Any, int]:
    """Return for each entry of p its place in L, its weight there, and whether it is conjugated."""

    def make() -> tuple[Any, Any, Any, int]:
        fronts = entries.fronts_of(structure)
        _, rows, cols = fronts.factor_entries
        # the inverse of the permutation `fronts.rows`: row i of S is row number[i] of L
        number = np.empty(fronts.n, np.int64)
        number[fronts.rows] = np.arange(fronts.n)
        assert structure.base.pattern is not None
        i, j = number[structure.base.pattern.rows], number[structure.base.pattern.cols]
        keys = cols.astype(np.int64) * fronts.n + rows  # increasing
        # (i, j) and (j, i) share the place below the diagonal, and each counts half
        place = np.searchsorted(keys, np.minimum(i, j) * fronts.n + np.maximum(i, j))
        return place, np.where(i == j, 1.0, 0.5), i < j, len(rows)

    found: tuple[Any, Any, Any, int] = structure.cached("places of L", make)
    return found


def sparse_cholesky(structure: Symmetric, p: Array) -> Array:
    """The entries of L."""
    return bind(SparseCholesky(structure), p)[0]


def cases(structures: Any, draw: Any) -> Cases:
    i = np.arange(5)
    rows, cols = np.concatenate([i, i[1:], i[:-1]]), np.concatenate([i, i[:-1], i[1:]])
    structure = Symmetric(Sparse(Pattern(rows, cols, (5, 5))), "H")
    below = draw(4) / 4
    yield SparseCholesky(structure), (np.concatenate([5.0 + i, below, np.conj(below)]),)
    _, r, c = entries.fronts_of(structure).factor_entries
    l = draw(len(r)) / 4
    l[r == c] = abs(l[r == c]) + 2
    for name in ("tangent", "cotangent", "product", "restricted"):
        yield OfTriangles(name, structure), (l, draw(len(r)))
