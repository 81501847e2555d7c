"""The public arguments of A x = lam M x, validated: the task for the rules, and their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import numpy as np

from ldiv.core.arrays.shapes import alike, common_batch, is_complex, real, result_dtype
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_block,
    common_precision,
    require_batches,
    require_int,
    require_number,
    require_option,
    require_square,
    together,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import known, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure
from ldiv.engines.eigen import arpack
from ldiv.engines.eigen.task import EigenTask, choose
from ldiv.engines.iterative.observers import Observer
from ldiv.engines.registry import engines
from ldiv.errors import value_error
from ldiv.matrices.assumptions import promised
from ldiv.matrices.matrix import MatrixLike, as_matrix
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.identity import Identity

Which: TypeAlias = Literal["LM", "SM", "LA", "SA", "BE"]
Mode: TypeAlias = Literal["normal", "buckling", "cayley"]
OTHER_END = {"LA": "SA", "SA": "LA"}
# SciPy's words
OF_NCV = "`ncv` must be an integer satisfying `k < ncv`: it is the dimension of the Krylov space."
OF_MAXITER = "`maxiter` must be a positive integer."
OF_TOL = "`tol` must be a non-negative floating point value."
OnDegenerate: TypeAlias = Literal["raise", "warn", "drop"]


class EigenKeywords(TypedDict, total=False):
    """The options that all functions of eigenpairs share, as `eigsh` explains them."""

    v0: AnyArray | None
    ncv: int | None
    maxiter: int | None
    tol: float
    method: str
    guard: int
    on_degenerate: OnDegenerate


class EighKeywords(TypedDict, total=False):
    """The keywords of `eigh` that its overloads share."""

    lower: bool
    overwrite_a: bool
    overwrite_b: bool
    check_finite: bool
    driver: str | None
    UPLO: Literal["L", "U"]
    type: Literal[1, 2, 3]
    subset_by_value: tuple[float, float] | list[float] | None
    on_degenerate: OnDegenerate


class EigshKeywords(EigenKeywords, total=False):
    """The keywords that only `eigsh` has."""

    Minv: object
    OPinv: object
    mode: Mode
    rng: object
    check: bool


@dataclass(frozen=True, eq=False)
class EigenOptions:
    """The pairs that a user wants, and how to find them, not yet validated; names as in `eigsh`."""

    k: int
    sigma: float | None = None
    which: str = "LM"
    v0: AnyArray | None = None
    ncv: int | None = None
    maxiter: int | None = None
    tol: float = 0
    method: str = "auto"
    guard: int = 2
    on_degenerate: str = "raise"
    observers: tuple[Observer, ...] = ()
    offset: float = 0.0
    check: bool = False
    on_count: Callable[[int, int], None] | None = None

    def task(self, A: Structure, B: Structure) -> EigenTask:
        """The task for a pencil (A, B), validated."""
        k = require_count(self.k, A.order)
        require_option("which", self.which, get_args(Which))
        require_option("method", self.method, ("auto", *engines("eigensolver")))
        require_option("on_degenerate", self.on_degenerate, get_args(OnDegenerate))
        require_limits(self.ncv, k + 1, self.maxiter)
        guard = require_int("guard", self.guard, 0)
        sigma = None if self.sigma is None else require_number("sigma", self.sigma)
        return EigenTask(
            A,
            B,
            k,
            self.which,
            sigma,
            guard=guard,
            method=self.method,
            tol=require_tolerance(self.tol),
            maxiter=self.maxiter,
            ncv=self.ncv,
            on_degenerate=self.on_degenerate,
            start=self.v0 is not None,
            observers=self.observers,
            offset=self.offset,
            check=self._checked(sigma),
            on_count=self.on_count,
        )

    def _checked(self, sigma: float | None) -> bool:
        """Whether to count eigenvalues, which takes an interval that ends at sigma or contains it."""
        if self.check and (sigma is None or self.which not in ("LM", "LA", "SA") or self.offset):
            what = "False without sigma, or with another `which` than 'LM', 'LA' and 'SA'"
            advice = "The eigenvalues nearest to sigma are counted."
            raise value_error("check", what, "True", advice)
        return self.check


def require_count(k: Any, n: int) -> int:
    """The number of pairs, of n that there are."""
    what = f"a number of pairs from 1 to {n}"
    return require_int("k", k, 1, n, what=what, advice="It is how many are returned.")


def require_limits(ncv: Any, least: int, maxiter: Any) -> None:
    """Raise unless the dimension of the Krylov space and the number of steps are absent or valid."""
    for name, value, low, words in (
        ("ncv", ncv, least, OF_NCV),
        ("maxiter", maxiter, 1, OF_MAXITER),
    ):
        if value is not None:
            require_int(name, value, low, advice=words)


def require_tolerance(tol: Any) -> float:
    return require_number("tol", tol, 0, advice=OF_TOL)


def required_shift(options: EigenOptions, mode: str) -> float:
    """The sigma that a mode needs."""
    if options.sigma is None or require_number("sigma", options.sigma) == 0:
        what = f"a number other than 0 with mode={mode!r}"
        raise value_error("sigma", what, options.sigma, "The mode transforms by it.")
    return float(options.sigma)


def cayley(options: EigenOptions) -> EigenOptions:
    """(lam + sigma) / (lam - sigma) = 2 sigma (nu + 1 / (2 sigma)) of nu = 1 / (lam - sigma)."""
    shift = required_shift(options, "cayley")
    if options.which in ("LM", "SM"):
        return replace(options, offset=0.5 / shift)
    end = options.which if shift > 0 else OTHER_END.get(options.which, options.which)
    return replace(options, which=end)


def build_problem(
    A: MatrixLike, M: MatrixLike | None, options: EigenOptions, metric: str = "M"
) -> tuple[EigenTask, tuple[Tree, ...]]:
    """The task and the arguments of its rules, validated; error messages call M by `metric`."""
    structure, pA = hermitian("A", A, M)
    B, pB = measure(metric, M, structure, pA)
    if not isinstance(B, Identity) and B.space is not structure.space:
        expected, advice = "on the processes of A", "Make both by ldiv.distributed.coo_array."
        raise value_error(metric, f"a matrix {expected}", "another", advice)
    if structure.order == 0:
        raise value_error("A", "a matrix with at least one row", "0 x 0", "It has no eigenvalues.")
    task = options.task(structure, B)
    pA, pB = rebuild((structure.core, B.core), common_precision(*leaves((pA, pB))))
    like = leaves((pA, pB))
    start = () if options.v0 is None else _start(options.v0, structure.shape[0], like)
    # preconditioner, start, constraints and the unit of sigma; lobpcg has the first three
    return _by_definiteness(task, pA, pB), (pA, pB, ((), start, (), unit_of(task.sigma, like[0])))


def _by_definiteness(task: EigenTask, pA: Tree, pB: Tree) -> EigenTask:
    """The task by ARPACK, whose factor of A - sigma M needs no definite M, where M is known not to be.

    LAPACK, which small and dense pencils go to, needs the Cholesky factor of M.
    """
    by_arpack, values = replace(task, method="arpack"), [known(x) for x in leaves(pB)]
    if (
        task.method != "auto"
        or task.sigma is None
        or task.standard
        or any(x is None for x in values)
        or not (task.A.on_host and task.B.on_host)
        or arpack.supports(by_arpack, result_dtype(pA, pB), "cpu") is not None
        or choose(task, pA, pB) is not choose(replace(task, method="lapack"), pA, pB)
    ):
        return task
    b = task.B.todense(rebuild(task.B.core, values))
    # NaN and infinity are refused later, under the policy of the call
    return by_arpack if np.isfinite(b).all() and not _is_definite(b) else task


def _is_definite(b: Any) -> bool:
    try:
        np.linalg.cholesky(b)
    except np.linalg.LinAlgError:
        return False
    return True


def hermitian(name: str, a: MatrixLike, *others: Any) -> tuple[Structure, Tree]:
    """A Hermitian structure and its parameters, by assumption where it is not one by itself."""
    matrix = as_matrix(name, a, *others)
    require_square(name, matrix.structure.shape)
    if isinstance(matrix.structure.unview()[0], Diagonal) and not any(
        map(is_complex, leaves(matrix.params))
    ):
        return matrix.structure, matrix.params
    return promised(matrix, "her")


def measure(
    name: str,
    M: MatrixLike | None,
    A: Structure,
    pA: Tree,
    convert: Callable[..., tuple[Structure, Tree]] = hermitian,
) -> tuple[Structure, Tree]:
    """M, in whose inner product eigenvectors are orthonormal; the identity by default."""
    if M is None:
        return Identity(A.shape[0]), ()
    B, pB = convert(name, M, *leaves(pA))
    if B.shape != A.shape:
        raise value_error(name, f"shape {A.shape}", B.shape, "It measures the vectors of A.")
    for x in leaves(pB):
        together(name, x, leaves(pA)[0])
    require_batches(name, common_batch(A.core, pA), common_batch(B.core, pB))
    return B, pB


def unit_of(sigma: Any, like: Array) -> Tree:
    """The number 1, whose derivative is that in the units of sigma; nothing without a sigma."""
    return () if sigma is None else namespace(like).ones((), **alike(real(like)))


def _start(v0: Any, n: int, params: list[Array]) -> Array:
    """The starting vector, validated, as a block of one column."""
    block, _ = as_block("v0", v0, n, params[0])
    if tuple(block.shape) != (n, 1) or (is_complex(block) and not any(map(is_complex, params))):
        advice = "ldiv.lobpcg starts from a block."
        raise value_error("v0", f"shape ({n},), real where A and M are", tuple(block.shape), advice)
    return block
