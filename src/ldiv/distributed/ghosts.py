"""x_g = G x and y = G^T y_g: the unknowns that a process reads, wherever they live.

G has one 1 in each row. G x brings entries of x from their owners, G^T adds up at the owners what
the processes bring; both exchange messages between neighbors only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.distributed.communicator import Communicator
from ldiv.distributed.petsc import petsc


class Ghosts:
    """The exchange for one list of global indices per process; `at` are the places of the entries
    in the sorted list of different ones.
    """

    def __init__(self, comm: Communicator, indices: Any, own: int, offset: int, size: int) -> None:
        needed, at = np.unique(indices, return_inverse=True)
        self.at, self.count, self.own = at.astype(np.intp), len(needed), own
        inside = (needed >= offset) & (needed < offset + own)
        self.inside, self.local = np.flatnonzero(inside), needed[inside] - offset
        self.outside = np.flatnonzero(~inside)
        PETSc = petsc()
        self._whole = PETSc.Vec().createMPI((own, size), comm=comm.comm)
        self._part = PETSc.Vec().createSeq(len(self.outside))
        index = PETSc.IS().createGeneral(needed[~inside].astype(PETSc.IntType), comm.comm)
        self._scatter = PETSc.Scatter().create(self._whole, index, self._part, None)
        # does any process need what it does not own? Then all take part in an exchange
        self.any = bool(comm.largest(len(self.outside)))

    def gather(self, x: Any) -> Any:
        """G x for x (*batch, own, k)."""
        y = np.empty((*x.shape[:-2], self.count, x.shape[-1]), x.dtype)
        y[..., self.inside, :] = x[..., self.local, :]
        if self.any:
            for i in np.ndindex(*x.shape[:-2]):
                for q in range(x.shape[-1]):
                    y[(*i, self.outside, q)] = self._each(self._forward, x[(*i, slice(None), q)])
        return y

    def add(self, y: Any) -> Any:
        """G^T y for y (*batch, count, k)."""
        x = np.zeros((*y.shape[:-2], self.own, y.shape[-1]), y.dtype)
        x[..., self.local, :] = y[..., self.inside, :]
        if self.any:
            for i in np.ndindex(*x.shape[:-2]):
                for q in range(x.shape[-1]):
                    part = y[(*i, self.outside, q)]
                    x[(*i, slice(None), q)] += self._each(self._backward, part)
        return x

    def _each(self, exchange: Any, x: Any) -> Any:
        """Apply an exchange to real and imaginary parts, since PETSc's numbers are real."""
        if x.dtype.kind == "c":
            return exchange(x.real) + 1j * exchange(x.imag)
        return exchange(x)

    def _forward(self, x: Any) -> Any:
        self._whole.array[...] = x
        self._move(self._whole, self._part, "INSERT_VALUES", "FORWARD")
        return self._part.array.copy()

    def _backward(self, y: Any) -> Any:
        self._whole.set(0)
        self._part.array[...] = y
        self._move(self._part, self._whole, "ADD_VALUES", "REVERSE")
        return self._whole.array.copy()

    def _move(self, source: Any, target: Any, how: str, way: str) -> None:
        PETSc = petsc()
        self._scatter.scatter(
            source, target, getattr(PETSc.InsertMode, how), getattr(PETSc.ScatterMode, way)
        )
