"""Pencils of vibrations, K x = lam M x, by finite elements; and two standard problems, M = I. No
two of the lowest eigenvalues coincide.

membrane        squares on a rectangle, bilinear, fixed on its edge: K = S x T + T x S, M = T x T of the stiffness S and the mass T in 1D
block           elastic hexahedra, one face fixed, by scikit-fem; the three sides differ
grid            the 5-point Laplacian of a rectangle
linspace        dense, with eigenvalues 1 ... 50, evenly spaced
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from problems import systems

SIDES = (1.0, 0.8, 0.6)


@dataclass(frozen=True)
class Pencil:
    """K and M in compressed columns, rows sorted, or K dense; M is None for I. A number of lines
    of `line` unknowns, 0 for no lines.
    """

    title: str
    k: Any
    m: Any = None
    line: int = 0

    @property
    def data(self) -> list[Any]:
        """The values of K and, where it is there, of M."""
        return [a.data if sp.issparse(a) else a for a in (self.k, self.m) if a is not None]


def make(kind: str, *sizes: int) -> Pencil:
    """The pencil that a table names, such as ("membrane", 200, 250)."""
    return KINDS[kind](*sizes)


def membrane(*sides: int) -> Pencil:
    """n = the product of the sides."""
    (s, t), (u, v) = (
        tuple(_tridiagonal(side, *of) for of in ((-1.0, 2.0), (1 / 6, 4 / 6))) for side in sides
    )
    return Pencil(
        f"membrane, n = {np.prod(sides):,}",
        _columns(sp.kron(s, v) + sp.kron(t, u)),
        _columns(sp.kron(t, v)),
        sides[1],
    )


def block(side: int) -> Pencil:
    """side^3 hexahedra: n = 3 side (side + 1)^2."""
    import skfem
    from skfem.helpers import dot
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    mesh = skfem.MeshHex.init_tensor(*[np.linspace(0, length, side + 1) for length in SIDES])
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementHex1()), intorder=3)
    free = basis.complement_dofs(basis.get_dofs(lambda x: x[0] == 0))
    forms = (
        linear_elasticity(*lame_parameters(1.0, 0.3)),
        skfem.BilinearForm(lambda u, v, _: dot(u, v)),
    )
    k, m = (sp.csc_array(form.assemble(basis))[free][:, free] for form in forms)
    # rounding in the assembly is not symmetric
    return Pencil(f"elastic block, n = {len(free):,}", _columns(k + k.T), _columns(m + m.T))


def grid(*sides: int) -> Pencil:
    return Pencil(systems.title(*sides), systems.poisson(*sides), line=sides[1])


def linspace(n: int) -> Pencil:
    q = np.linalg.qr(np.random.default_rng(n).standard_normal((n, n)))[0]
    a = (q * np.linspace(1, 50, n)) @ q.T
    return Pencil(f"linspace(1, 50), n = {n:,}", (a + a.T) / 2)


KINDS: dict[str, Callable[..., Pencil]] = {
    "membrane": membrane,
    "block": block,
    "grid": grid,
    "linspace": linspace,
}


def _tridiagonal(n: int, off: float, diagonal: float) -> Any:
    return sp.diags_array([off, diagonal, off], offsets=[-1, 0, 1], shape=(n, n))


def _columns(a: Any) -> Any:
    a = sp.csc_array(a)
    a.sum_duplicates()
    a.sort_indices()
    return a
