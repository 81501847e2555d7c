"""The time and memory of a sparse factorization, about, by the entries of its factors and its operations.

    seconds ~ entries / MOVED + operations / SPEED

Analyses count both before anything is factored. Where the graph of a matrix has no small separators,
as that of a random network, factors fill in. Then an iteration may take a hundredth of the time, and
whether it converges is the user's to say. So a warning names it, and the accuracy is never changed.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.core.owners.holder import PHYSICAL
from ldiv.engines.libraries import native, ordering

SPEED = 5e9  # operations a second, on one thread, of engines with dense blocks
MOVED = 1e7  # entries a second, at most
LONG = 30.0  # seconds
MUCH = PHYSICAL // 4  # bytes
OF_ENGINES = {"cholesky": 1.0, "ldl": 1.0, "pardiso": 2.0, "superlu": 2.5, "lu": 20.0}
ONE_TRIANGLE = ("cholesky", "ldl")  # of two


class Work(NamedTuple):
    """The entries of L, and the operations of L L^T."""

    entries: int
    operations: float

    def seconds(self, engine: str) -> float:
        """The time in which an engine factors, about, on one thread; L U takes twice the work of
        L L^T, and blocks that are not dense are slower.
        """
        triangles = 1 if engine in ONE_TRIANGLE else 2
        return triangles * self.entries / MOVED + OF_ENGINES[engine] * self.operations / SPEED


def work(pattern: Pattern) -> Work:
    """The work of L L^T of a matrix with this pattern, made symmetric."""
    return counted(pattern, required(ordering.of_sum(pattern)))


def counted(pattern: Pattern, order: Index) -> Work:
    """The entries of L in this order, and the operations of its factorization, about."""
    assert native.native is not None
    entries, operations = native.native.fill(*in_order(pattern, order, order))
    return Work(int(entries), operations)


def required(order: Index | None) -> Index:
    assert order is not None, "fronts are compiled, as orderings are"
    return order


def in_order(pattern: Pattern, rows: Index, cols: Index) -> tuple[Index, Index, Index]:
    """A[rows][:, cols] with its mirror image, by compressed columns, and the order of elimination.

    Where rows is cols, rows is the order of elimination, and A is not renumbered.
    """
    i, j, order = pattern.indices, pattern.columns, rows
    if rows is cols and pattern.transposition is not None:
        return pattern.indptr, i, order
    if rows is not cols:
        number = np.empty((2, pattern.shape[0]), np.int64)
        order = np.arange(pattern.shape[0])
        # number[0][rows] and number[1][cols]: the new numbers of rows and columns
        number[0][rows] = number[1][cols] = order
        i, j = number[0][i], number[1][j]
    both = Pattern(np.concatenate([i, j]), np.concatenate([j, i]), pattern.shape)
    return both.indptr, both.indices, order


def warn_if_long(n: int, work: Work, threads: int, copies: int = 1) -> None:
    """Warn before a factorization, of one triangle or of two."""
    seconds = copies * (work.entries / MOVED + work.operations / SPEED / threads)
    if seconds <= LONG and 8 * copies * work.entries <= MUCH:
        return
    warnings.warn(
        f"The factors of a {n} x {n} matrix fill in: they take about "
        f"{copies * work.entries / 2**17:.0f} MiB and {seconds:.0f} s. An iteration takes less where it "
        "converges: method='gmres' with M=ldiv.spilu(A), or for a positive definite matrix "
        "method='cg' with M='jacobi' or 'amg'; print(ldiv.explain(A)) compares the engines.",
        stacklevel=2,
    )


def warn_if_dense(pattern: Pattern, entries: int, threads: int, copies: int) -> None:
    """Warn, too, where the entries of a triangle are counted, and the operations are not.

    Nothing takes more of them than a dense triangle: (2 entries)^(3/2) / 3. Only if this is long they
    are counted.
    """
    most = Work(entries, (2.0 * entries) ** 1.5 / 3)
    if native.native is not None and copies * most.operations / SPEED / threads > LONG:
        warn_if_long(pattern.shape[0], work(pattern), threads, copies)
