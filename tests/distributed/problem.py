"""A matrix of which every process has scattered entries, and what one process makes of the whole.

The whole problem is small and made alike on every process, so that each compares its own rows and
entries with the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

pytest.importorskip("mpi4py", reason="mpi4py is not installed: `make mpi`")
pytest.importorskip("petsc4py", reason="petsc4py is not installed: `make mpi`")

from mpi4py import MPI

from ldiv import distributed

RANK, SIZE = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
DIRECT, ITERATIVE = 1e-11, 1e-9


def grid(n: int, wind: float = 0.0, noise: float = 0.0) -> Any:
    """An elliptic operator on n x n points, unsymmetric by wind, with variable coefficients."""
    rng = np.random.default_rng(0)
    one = sp.eye_array(n)
    second = sp.diags_array(
        [-np.ones(n - 1), 2.1 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    first = sp.diags_array([-np.ones(n - 1), np.ones(n)], offsets=[-1, 0])
    a = sp.kron(second + wind * first, one) + sp.kron(one, second)
    scale = sp.diags_array(np.exp(rng.standard_normal(n * n) / 4))
    a = (scale @ a @ scale).tocoo()
    a.data = a.data * (1 + noise * rng.standard_normal(a.nnz))
    return a


class Whole:
    """Entries of a whole matrix, and which of them, and of the rows, this process has."""

    def __init__(self, a: Any, empty: int | None = None) -> None:
        self.rows, self.cols = a.coords
        self.values, self.shape = a.data, a.shape
        rng = np.random.default_rng(1)
        who = rng.integers(SIZE, size=len(self.values))
        if empty is not None:  # this process has no entries
            who = np.where(who == empty, (empty + 1) % SIZE, who)
        self.mine = np.flatnonzero(who == RANK)
        self.counts = None
        self.own = np.array(distributed.owned(a.shape[0]))
        self.b, self.weights = rng.standard_normal((2, a.shape[0]))

    def everything(self, values: Any) -> Any:
        return ldiv.coo_array((values, (self.rows, self.cols)), shape=self.shape)

    def part(self, values: Any, **options: Any) -> Any:
        """The same matrix, of the values of this process."""
        places = (self.rows[self.mine], self.cols[self.mine])
        return distributed.coo_array((values, places), self.shape, **options)


def distance(x: Any, y: Any, scale: Any) -> float:
    """The largest difference, relative to the whole."""
    x, y, scale = (np.asarray(z) for z in (x, y, scale))
    return float(np.abs(x - y).max(initial=0) / np.abs(scale).max())
