"""The Poisson equation, -laplace u = f with u = 0 on the boundary: the 5-point stencil in 2D, the 7-point one in 3D."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

NAMES = {2: "2D Poisson", 3: "3D Poisson"}


def poisson(*sides: int) -> Any:
    """The matrix sum_d I x .. x tridiag(-1, 2, -1) x .. x I in compressed columns, rows sorted, n = the product of the sides."""
    a = sp.csc_array((1, 1))
    for side in sides:
        second_difference = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
        a = sp.kron(a, sp.eye_array(side)) + sp.kron(sp.eye_array(a.shape[0]), second_difference)
    a = sp.csc_array(a)
    a.sort_indices()
    return a


def vectors(n: int) -> tuple[Any, Any]:
    """A right-hand side b, and the weights c of the loss c . x."""
    return tuple(np.random.default_rng(n).standard_normal((2, n)))


def title(*sides: int) -> str:
    """What tables call the problem."""
    return f"{NAMES[len(sides)]}, n = {int(np.prod(sides)):,}"
