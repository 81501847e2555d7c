"""What users may ask of A x = lam M x, checked: the task for the rules, and their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays import common_batch, is_complex
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.core.validate import (
    as_block,
    common_precision,
    require_batches,
    require_int,
    require_number,
    require_option,
    require_square,
    together,
)
from ldiv.engines.eigen_task import Task
from ldiv.engines.observers import Observer
from ldiv.engines.registry import engines
from ldiv.errors import expected_got
from ldiv.matrices.assumptions import promised
from ldiv.matrices.matrix import as_matrix
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.identity import Identity

WHICH = ("LM", "SM", "LA", "SA", "BE")


@dataclass(frozen=True, eq=False)
class EigenOptions:
    """What a user may say about the pairs, and about how they are found: under the names that
    `eigsh` explains.
    """

    k: Any
    sigma: float | None = None
    which: str = "LM"
    v0: Array | None = None
    ncv: int | None = None
    maxiter: int | None = None
    tol: float = 0
    method: str = "auto"
    guard: int = 2
    on_degenerate: str = "raise"
    observers: tuple[Observer, ...] = ()

    def task(self, A: Structure, B: Structure) -> Task:
        """The task that they make of a pencil, checked."""
        n = A.shape[0]
        k = require_int(
            "k",
            self.k,
            1,
            n,
            what=f"a number of pairs from 1 to {n}",
            advice="It is how many are returned.",
        )
        require_option("which", self.which, WHICH)
        require_option("method", self.method, ("auto", *engines("eigensolver")))
        require_option("on_degenerate", self.on_degenerate, ("raise", "warn", "drop"))
        for name, value, low in (("ncv", self.ncv, k + 1), ("maxiter", self.maxiter, 1)):
            if value is not None:
                require_int(name, value, low)
        guard = require_int("guard", self.guard, 0)
        sigma = None if self.sigma is None else require_number("sigma", self.sigma)
        way = (
            self.method,
            require_number("tol", self.tol, 0),
            self.maxiter,
            self.ncv,
            self.on_degenerate,
        )
        return Task(
            A,
            B,
            k,
            self.which,
            sigma,
            0,
            guard,
            *way,
            start=self.v0 is not None,
            observers=self.observers,
        )


def build_problem(
    A: Any, M: Any, options: EigenOptions, metric: str = "M"
) -> tuple[Task, tuple[Tree, ...]]:
    """Checked: the task, and the arguments of the rules that answer it; errors call M by the
    name of `metric`.
    """
    structure, pA = hermitian("A", A)
    B, pB = _measure(metric, M, structure, pA)
    if structure.shape[0] == 0:
        raise ValueError(
            expected_got("A", "a matrix with at least one row", "0 x 0", "It has no eigenvalues.")
        )
    task = options.task(structure, B)
    pA, pB = rebuild((structure.core, B.core), common_precision(*leaves((pA, pB))))
    return task, (
        pA,
        pB,
        (
            (),
            () if options.v0 is None else _start(options.v0, structure.shape[0], leaves((pA, pB))),
            (),
        ),
    )


def hermitian(name: str, a: Any) -> tuple[Structure, Tree]:
    """A structure that is Hermitian, by promise where it is not by itself."""
    matrix = as_matrix(name, a)
    require_square(name, matrix.structure.shape)
    if isinstance(matrix.structure.unview()[0], Diagonal) and not any(
        map(is_complex, leaves(matrix.params))
    ):
        return matrix.structure, matrix.params
    return promised(matrix, "her")


def _measure(name: str, M: Any, A: Structure, pA: Tree) -> tuple[Structure, Tree]:
    """M, which measures the vectors of A; the identity if there is none."""
    if M is None:
        return Identity(A.shape[0]), ()
    B, pB = hermitian(name, M)
    if B.shape != A.shape:
        raise ValueError(
            expected_got(name, f"shape {A.shape}", str(B.shape), "It measures the vectors of A.")
        )
    for x in leaves(pB):
        together(name, x, leaves(pA)[0])
    require_batches(name, common_batch(A.core, pA), common_batch(B.core, pB))
    return B, pB


def _start(v0: Array, n: int, params: list[Array]) -> Array:
    block, vector = as_block("v0", v0, n, params[0])
    if not vector or (is_complex(block) and not any(map(is_complex, params))):
        raise ValueError(
            expected_got(
                "v0",
                f"shape ({n},), real where A and M are",
                str(tuple(v0.shape)),
                "ldiv.lobpcg starts from a block.",
            )
        )
    return block
