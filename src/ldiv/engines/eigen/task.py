"""The task A X = B X Lam: which k pairs, and by which engine.

An eigensolver is one file in `engines/eigen/`, an `Eigensolver`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ldiv.core.arrays.shapes import beside, device_of, numpy_dtype, result_dtype
from ldiv.core.arrays.space import Space
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure
from ldiv.engines.iterative.observers import Observer
from ldiv.engines.registry import Ranked, engines, first_able
from ldiv.structures.identity import Identity


@dataclass(frozen=True)
class EigenTask:
    """k pairs of A x = lam B x.

    `which` is "LM", "SM", "LA", "SA" or "BE" of lam, or of 1 / (lam - sigma) if there is a sigma.
    Magnitudes for "LM" and "SM" are those of that number plus `offset`. With "index" the pairs are
    those from `first` on in ascending order. M is the structure of a preconditioner; its
    parameters, a starting block, a block of constraints and, with a sigma, the unit in which sigma
    and 1 / offset are eigenvalues are `auxiliaries`.
    """

    A: Structure
    B: Structure
    k: int
    which: str = "LM"
    sigma: float | None = None
    first: int = 0
    guard: int = 2
    method: str = "auto"
    tol: float = 0.0
    maxiter: int | None = None
    ncv: int | None = None
    on_degenerate: str = "raise"
    M: Structure | None = None
    start: bool = False
    constraints: int = 0
    positive: bool = False  # must all eigenvalues be positive?
    offset: float = 0.0
    check: bool = False  # that none was skipped near sigma
    observers: tuple[Observer, ...] = ()  # of the solves with deflated systems, per step
    # is called with how many eigenvalues lie above and below sigma, where a factor tells
    on_count: Callable[[int, int], None] | None = None

    @property
    def n(self) -> int:
        return self.A.order

    @property
    def space(self) -> Space:
        """The space of the eigenvectors."""
        return self.A.space

    @property
    def on_host(self) -> bool:
        """Whether A, B and M may have NumPy arrays as parameters."""
        return all(s.on_host for s in (self.A, self.B, self.M) if s is not None)

    @property
    def standard(self) -> bool:
        """Whether B is the identity."""
        return isinstance(self.B, Identity)

    @property
    def core(self) -> tuple[Tree, ...]:
        """The own axes of A, B and the auxiliaries."""
        return self.A.core, self.B.core, self.auxiliaries_core

    @property
    def auxiliaries_core(self) -> tuple[Tree, ...]:
        return (
            () if self.M is None else self.M.core,
            2 if self.start else (),
            2 if self.constraints else (),
            () if self.sigma is None else 0,
        )

    def in_unit(self, unit: Array) -> EigenTask:
        """Return the task with sigma and offset in the unit of the eigenvalues, which is known."""
        if self.sigma is None:
            return self
        of_sigma = float(unit)
        return replace(self, sigma=self.sigma * of_sigma, offset=self.offset / of_sigma)

    def order(self, lam: Array) -> Array:
        """The indices of lam (*batch, m): the k wanted pairs, then the others, each ascending."""
        xp, k = namespace(lam), self.k
        if self.which == "index":
            inside = xp.arange(lam.shape[-1], **beside(lam))
            wanted = (inside >= self.first) & (inside < self.first + k)
            # wanted ones get the key 0, others 1; the sort is stable, so that both stay ascending
            return xp.argsort(xp.where(wanted, 0, 1) * xp.ones_like(lam), axis=-1, stable=True)
        up = xp.argsort(lam, axis=-1, stable=True)
        lam = xp.take_along_axis(lam, up, axis=-1)
        # rank_i: the place of lam_i by preference, the inverse of the sorting permutation
        rank = xp.argsort(
            xp.argsort(self._preference(lam), axis=-1, stable=True), axis=-1, stable=True
        )
        # the k wanted first; a stable sort keeps both parts ascending
        at = xp.argsort(xp.where(rank < k, 0.0, 1.0), axis=-1, stable=True)
        return xp.take_along_axis(up, at, axis=-1)

    def _preference(self, lam: Array) -> Array:
        """A sort key, smaller is better; lam ascends."""
        xp = namespace(lam)
        # lam = sigma ranks as if nu were huge: a tiny divisor in place of 0
        nu = (
            lam
            if self.sigma is None
            else 1 / xp.where(lam == self.sigma, np.finfo(numpy_dtype(lam)).tiny, lam - self.sigma)
        )
        if self.which == "BE":
            up = xp.argsort(nu, axis=-1, stable=True)
            rank = xp.argsort(up, axis=-1, stable=True)
            low, high = rank, lam.shape[-1] - 1 - rank
            # alternate between both ends, the high one first
            return xp.where(low < high, 2 * low + 1, 2 * high)
        keys: dict[str, Callable[[Array], Array]] = {
            "LM": lambda v: -xp.abs(v + self.offset),
            "SM": lambda v: xp.abs(v + self.offset),
            "LA": lambda v: -v,
            "SA": lambda v: v,
        }
        return keys[self.which](nu)


class Eigensolver(Ranked, Protocol):
    """The type of these files."""

    ON_HOST: bool  # does it need NumPy arrays, one problem at a time?
    # the deflated systems of the derivative, as `deflated_solve.reduced` solves them, for an engine
    # that solves them by itself
    reduced: Callable[..., Array] | None

    def supports(self, task: EigenTask, dtype: Any, device: str, /) -> str | None:
        """None, or the reason why not, which is shown to the user."""

    def pairs(self, task: EigenTask, pA: Tree, pB: Tree, auxiliaries: Any, /) -> tuple[Array, ...]:
        """lam (*batch, k + g), X (*batch, n, k + g) with X^H B X = I, error_bound (*batch, k + g).

        The k wanted pairs come first, ascending, then g guard pairs, as many as it likes, ascending:
        they are for the deflated systems of the derivative. `error_bound` says
        how far an eigenvalue may be from lam: |A x - lam B x| |x|, and rounding.
        """


def choose(task: EigenTask, *params: Tree) -> Eigensolver:
    """The first engine that supports the task, or the one that `method` names."""
    dtype, device = result_dtype(params), device_of(leaves(params)[0])
    able: dict[str, Eigensolver] = engines(task.space.eigensolvers)
    return first_able(
        {task.method: able[task.method]} if task.method in able else able,
        lambda engine: engine.supports(task, dtype, device),
        f"finds {task.k} eigenpairs of a {type(task.A).__name__} matrix of {dtype}, method={task.method!r}",
    )
