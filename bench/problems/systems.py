"""The systems of the benchmarks: the Poisson equation, elasticity, convection and diffusion, and
matrices of others.

Poisson         -laplace u = f, u = 0 on the boundary: the 5-point stencil in 2D, the 7-point one in 3D
elasticity      a cube of hexahedra, fixed on one side, by scikit-fem
indefinite      Stokes flow on a staggered grid, Helmholtz's equation with absorption, the optimality system of a
                quadratic program, Poisson minus a shift inside of the spectrum
convection      -laplace u + w . grad u = f in 2D, upwind differences: unsymmetric
circuit         a ring with a few connections more; chemistry: an implicit step of reactions
real            SuiteSparse matrices from the folder in LDIV_TEST_DATA, or ../shared/data beside the repository
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

NAMES = {2: "2D Poisson", 3: "3D Poisson"}
REAL = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
DEFINITE = {"bcsstk13"}
WIND = 200.0


@dataclass(frozen=True)
class Problem:
    """A matrix in compressed columns, rows sorted; what is promised of it; how many dimensions
    the mesh has, 0 for none.
    """

    title: str
    a: Any
    assume_a: str
    dimensions: int = 0


def make(kind: str, *sizes: Any) -> Problem:
    """The problem that a table names, such as ("poisson", 200, 200)."""
    return KINDS[kind](*sizes)


def poisson(*sides: int) -> Any:
    """The matrix sum_d I x .. x tridiag(-1, 2, -1) x .. x I in compressed columns, rows sorted,
    n = the product of the sides.
    """
    a = sp.csc_array((1, 1))
    for side in sides:
        a = sp.kron(a, sp.eye_array(side)) + sp.kron(sp.eye_array(a.shape[0]), _second(side))
    return _columns(a)


def vectors(n: int) -> tuple[Any, Any]:
    """A right-hand side b, and the weights c of the loss c . x."""
    return tuple(np.random.default_rng(n).standard_normal((2, n)))


def title(*sides: int) -> str:
    """The name of the problem in tables."""
    return _counted(NAMES[len(sides)], int(np.prod(sides)))


def elasticity(side: int) -> Any:
    """The stiffness of side^3 hexahedra with one face fixed: n = 3 side (side + 1)^2."""
    import skfem
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    mesh = skfem.MeshHex.init_tensor(*[np.linspace(0, 1, side + 1)] * 3)
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementHex1()), intorder=3)
    free = basis.complement_dofs(basis.get_dofs(lambda x: x[0] == 0))
    stiffness = sp.csc_array(linear_elasticity(*lame_parameters(1.0, 0.3)).assemble(basis))[free][
        :, free
    ]
    return _columns((stiffness + stiffness.T) / 2)  # rounding in the assembly is not symmetric


def stokes(side: int) -> Any:
    """[[A, B^T], [B, 0]] of lid-driven flow on side x side cells, one pressure fixed."""
    each = sp.eye_array(side)
    jump = sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(side, side - 1))
    along = [sp.kronsum(_second(m), _second(side + side - 1 - m)) for m in (side, side - 1)]
    divergence = sp.hstack([sp.kron(jump, each), sp.kron(each, jump)]).tocsr()[1:]
    return _columns(
        sp.block_array(
            [[sp.block_diag(along), divergence.T], [divergence, _zeros(divergence.shape[0])]]
        )
    )


def helmholtz(side: int) -> Any:
    """Poisson minus k^2, ten waves across, with an absorption."""
    k = 20 * np.pi / side
    return _columns(poisson(side, side) - k**2 * (1 + 0.05j) * sp.eye_array(side**2))


def program(n: int, m: int) -> Any:
    """[[H + D, C^T], [C, 0]]: D over six decades, three entries in a row of C."""
    rng = np.random.default_rng(0)
    barrier = sp.diags_array(10.0 ** rng.uniform(-3, 3, n))
    rows = np.repeat(np.arange(m), 3)
    near = np.minimum(rows * (n // m) + rng.integers(0, 30, 3 * m), n - 1)
    c = sp.csr_array((rng.standard_normal(3 * m), (rows, near)), shape=(m, n))
    c += sp.csr_array((np.full(m, 3.0), (np.arange(m), np.arange(m) * (n // m))), shape=(m, n))
    return _columns(sp.block_array([[poisson(n) + barrier, c.T], [c, _zeros(m)]]))


def _zeros(n: int) -> Any:
    """A diagonal that is stored, as PARDISO asks for."""
    return sp.coo_array((np.zeros(n), (np.arange(n),) * 2), shape=(n, n))


def _second(side: int) -> Any:
    return sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))


def convection(*sides: int) -> Any:
    """Poisson plus a diagonal wind, upwind on a grid of width 1."""
    backward = [
        sp.diags_array([-1.0, 1.0], offsets=[-1, 0], shape=(side, side)) * (WIND / side)
        for side in sides
    ]
    along = sp.kron(backward[0], sp.eye_array(sides[1])) + sp.kron(
        sp.eye_array(sides[0]), backward[1]
    )
    return _columns(poisson(*sides) + along)


@cache
def circuit(n: int) -> Any:
    """A ring with a tenth as many connections to places nearby."""
    rng, i = np.random.default_rng(0), np.arange(n)
    a = rng.integers(0, n, n // 10)
    b = (a + rng.integers(1, 30, n // 10)) % n
    rows, cols = np.concatenate([i, i, i, a]), np.concatenate([i, (i + 1) % n, (i - 1) % n, b])
    values = np.concatenate([np.full(n, 4.0), np.full(2 * n, -1.0), np.full(len(a), -0.5)])
    return sp.csc_array(sp.coo_array((values, (rows, cols)), shape=(n, n)))


def chemistry(n: int) -> Any:
    """I - h J, J of n reactions A + B -> C + D of n species, with rates over six decades."""
    rng = np.random.default_rng(0)
    a, b, c, d = np.argsort(rng.random((n, n)))[:, :4].T
    rate, x = 10.0 ** rng.uniform(-3, 3, n), rng.random(n)
    rows, cols = (np.concatenate(z) for z in ([a, a, b, b, c, c, d, d], [a, b] * 4))
    values = np.concatenate([sign * rate * y for sign in (1, 1, -1, -1) for y in (x[b], x[a])])
    J = sp.coo_array((values, (rows, cols)), shape=(n, n))
    return _columns(sp.eye_array(n) + 1e-2 * J)


def by_rows(a: Any) -> Any:
    a = sp.csr_array(a)
    a.sort_indices()
    return a


def real(name: str) -> Any:
    path = REAL / f"{name}.mtx"
    if not path.exists():
        raise FileNotFoundError(
            f"{name} is not in {REAL}: set LDIV_TEST_DATA to a folder with SuiteSparse .mtx files"
        )
    return _columns(scipy.io.mmread(path, spmatrix=False))


KINDS: dict[str, Callable[..., Problem]] = {
    "poisson": lambda *sides: Problem(title(*sides), poisson(*sides), "pos", len(sides)),
    "elasticity": lambda side: Problem(
        _counted("3D elasticity", 3 * side * (side + 1) ** 2), elasticity(side), "pos", 3
    ),
    "convection": lambda *sides: Problem(
        _counted("2D convection", int(np.prod(sides))), convection(*sides), "gen", 2
    ),
    "stokes": lambda side: _indefinite("Stokes", stokes(side)),
    "helmholtz": lambda side: _indefinite("2D Helmholtz, complex symmetric", helmholtz(side)),
    "program": lambda n, m: _indefinite("optimality system", program(n, m)),
    "shifted": lambda side: _indefinite(
        "3D Poisson - 3.1", _columns(poisson(*[side] * 3) - 3.1 * sp.eye_array(side**3))
    ),
    "circuit": lambda n: Problem(_counted("circuit", n), circuit(n), "gen"),
    "real": lambda name: Problem(name, real(name), "pos" if name in DEFINITE else "gen"),
}


def _indefinite(name: str, a: Any) -> Problem:
    return Problem(_counted(name, a.shape[0]), a, "sym")


def _counted(name: str, n: int) -> str:
    return f"{name}, n = {n:,}"


def _columns(a: Any) -> Any:
    a = sp.csc_array(a)
    a.sum_duplicates()
    a.sort_indices()
    return a
