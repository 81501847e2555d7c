"""The public functions, under SciPy's names and argument order: they validate, choose the
structure, and call rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ldiv.core.arrays import batch_of, broadcast, is_complex
from ldiv.core.dispatch import frontend_of, traced
from ldiv.core.errstate import singular_state
from ldiv.core.holder import Holder, holding, owner
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.core.validate import (
    PROMISES,
    as_block,
    common_precision,
    require_batches,
    require_callable,
    require_flag,
    require_int,
    require_number,
    require_option,
    require_square,
    transposition,
)
from ldiv.engines import registry, solve_log
from ldiv.engines.observers import observers
from ldiv.engines.options import Options
from ldiv.errors import expected_got
from ldiv.linalg import preconditioner
from ldiv.linalg.door import Call, Door, door
from ldiv.linalg.solve_info import solve_info
from ldiv.matrices.assumptions import definiteness, promised, triangle
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.solve import Solve

ABSOLUTE = 0.0


@public
def solve(
    A: Any,
    b: Array,
    *,
    assume_a: str = "gen",
    trans: Any = "N",
    method: str = "auto",
    rtol: float | None = None,
    atol: float = ABSOLUTE,
    maxiter: int | None = None,
    restart: int | None = None,
    M: Any = None,
    x0: Array | None = None,
    callback: Callable[[Any], Any] | None = None,
    progress: bool = False,
    info: bool = False,
) -> Any:
    """Solve a linear system with a dense, sparse or otherwise structured matrix, or with an
    operator, differentiably.

        op(A) x = b,    op = N, T (transpose) or H (conjugate transpose)

    A: an array (*batch, n, n), a SparseArray with values (*batch, nnz), a LinearOperator, or any
    `Matrix`; b: (n,) or (*batch, n, k); a one-dimensional b is a vector, anything else is a block
    of columns. Returns x, shaped like b, batch axes broadcast; with info=True also a `SolveInfo`:
    engine, residual, backward error, condition, iterations.
    dtypes: float32, float64, complex64, complex128; of two precisions the wider is used.
    assume_a: "gen", "sym", "her", "pos" (Hermitian positive definite), "diagonal", "upper
    triangular", "lower triangular". With a symmetric promise both triangles must be there and agree
    up to rounding; the matrix is read as its symmetric part, and so its cotangent is sym(-lam x^H)
    on the pattern. With a triangular one the other triangle is not read.
    method: "auto", "direct", "iterative", or the name of an engine; `ldiv.explain(A, b)` says which
    one "auto" takes and why. Engines that iterate (`cg` for "pos", `minres` for "her", `gmres`,
    `bicgstab`) stop at |b - A x| <= max(rtol |b|, atol) in every column; rtol is eps^(2/3) by
    default, 4e-11 in double precision: SciPy's 1e-5 would be the accuracy of the gradient. M, a
    matrix near A^-1: "jacobi", "amg", what `factorized` gives for a matrix nearby, any Matrix, or
    `preconditioner(...)`. x0: a guess. maxiter: steps (cycles of `restart` steps for gmres).
    callback(x) after each step; progress=True prints a line. Any of these options makes "auto"
    choose among the engines that iterate.
    Differentiable in A and b in every mode and order, under torch.func and torch.vmap: with lam =
    op(A)^-H x_bar, b_bar = lam, A_bar = -lam x^H on the pattern of A. Not in M and x0, on which the
    solution does not depend.
    Cost: 1 factorization and 1 solve; the derivative reuses the factorization, one more solve for
    each direction. An iteration is differentiated by one more iteration, with A^H and M^H; nothing
    of its steps is kept.
    Raises SingularMatrixError (or warns: see `errstate`), once the last engine agrees;
    NotPositiveDefiniteError, NotSymmetricError; ConvergenceError, forward and adjoint; ValueError
    for shapes, NaN and infinity; TypeError for dtypes and mixed frameworks; EngineError when no
    engine can do it, or the one that is named gives up where another one does not.
    Source: Giles (2008), section 2.3; Golub and Van Loan, chapters 3 and 4; Saad, Iterative Methods
    for Sparse Linear Systems.

    >>> import ldiv, numpy as np
    >>> A = ldiv.coo_array((np.array([4.0, 4.0, 1.0, 1.0]), ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(2, 2))
    >>> ldiv.solve(A, np.array([1.0, 0.0]), assume_a="pos")
    array([ 0.26666667, -0.06666667])
    """
    through = None
    if (
        rtol is maxiter is restart is M is x0 is callback is None
        and atol is ABSOLUTE
        and progress is info is False
    ):
        through = door(A, b, "solve", assume_a, trans, method, singular_state())
        if through is not None and through.call is not None:
            return through.call(A, b)
    require_option("assume_a", assume_a, PROMISES)
    matrix = _square(A)
    structure, params = promised(matrix, assume_a)
    structure = structure.view(transposition(trans))
    assumption = definiteness(structure, assume_a)
    if through is not None:
        return solved(structure, params, b, assumption, method, through=through)
    asked = Iteration(rtol, atol, maxiter, restart, M, x0, callback, progress)
    if not require_flag("info", info):
        return solved(structure, params, b, assumption, method, asked)
    keeper = Holder() if (present := owner()) is None else present
    with solve_log.reading() as entries, holding(keeper):
        x = solved(structure, params, b, assumption, method, asked)
    if not entries or any(map(traced, (x, *leaves(params)))):
        raise TypeError(
            expected_got(
                "info=True",
                "values that are known now",
                "a trace (jit, vmap)",
                "Ask for info outside of the transformation.",
            )
        )
    return x, solve_info(structure, params, b, x, assumption, method, entries[-1], keeper)


@public
def solve_triangular(
    A: Any, b: Array, *, lower: bool = False, trans: Any = "N", unit_diagonal: bool = False
) -> Array:
    """Solve a triangular system, dense or sparse, differentiably.

        op(T) x = b,    T the upper (or lower) triangle of A, with ones on its diagonal if `unit_diagonal`

    A, b, dtypes, errors as in `solve`; the other triangle of A, and a unit diagonal, are not read,
    and their cotangents are 0.
    Differentiable in A and b in every mode and order; A_bar is the triangle of -lam x^H.
    Cost: 1 substitution each way, n^2 or nnz operations for a right-hand side; nothing is factored
    for a dense A.

    >>> import ldiv, numpy as np
    >>> ldiv.solve_triangular(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([2.0, 5.0]), lower=True)
    array([1., 1.])
    """
    through = door(A, b, "solve_triangular", lower, trans, unit_diagonal, singular_state())
    if through is not None and through.call is not None:
        return through.call(A, b)
    matrix = _square(A)
    lower, unit = require_flag("lower", lower), require_flag("unit_diagonal", unit_diagonal)
    structure = triangle(matrix.structure, lower, "unit" if unit else "own")
    return solved(
        structure.view(transposition(trans)), matrix.params, b, "gen", "auto", through=through
    )


@dataclass(frozen=True, eq=False)
class Iteration:
    """What a user may say about an iteration."""

    rtol: float | None = None
    atol: float = 0.0
    maxiter: int | None = None
    restart: int | None = None
    M: Any = None
    x0: Array | None = None
    callback: Callable[[Any], Any] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        require_number("atol", self.atol, 0)
        if self.rtol is not None:
            require_number("rtol", self.rtol, 0)
        for name in ("maxiter", "restart"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), 1)
        if self.callback is not None:
            require_callable(
                "callback", self.callback, "a function of x", "It is called after each step."
            )
        require_flag("progress", self.progress)

    @property
    def given(self) -> list[str]:
        """The options that differ from their defaults."""
        ours: dict[str, Any] = {"atol": 0, "progress": False}
        return [
            name
            for name, value in vars(self).items()
            if not (value is None or (name in ours and value == ours[name]))
        ]


def _square(A: Any) -> Matrix:
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    return matrix


def solved(
    structure: Structure,
    params: Tree,
    b: Any,
    assume_a: str,
    method: str,
    asked: Iteration | None = None,
    through: Door | None = None,
) -> Array:
    """The solution, for arguments still to be checked; if nothing had to be done to them, the
    door is told so.
    """
    rule, args, vector = build_problem(structure, params, b, assume_a, method, asked)
    if (
        through is not None
        and args[0] is through.p
        and args[1].dtype == b.dtype
        and isinstance(structure.core, int)
    ):
        call = Call(replace(rule, vector=vector), frontend_of(params, b).bind)
        through.remember(call)
        return call.bound(params, b)
    x = bind(rule, *args)[0]
    return x[..., 0] if vector else x


def build_problem(
    structure: Structure,
    params: Tree,
    b: Any,
    assume_a: str,
    method: str,
    asked: Iteration | None = None,
) -> tuple[Solve, tuple[Tree, ...], bool]:
    """Checked: the rule, its arguments, and whether b came as a vector."""
    require_method(method)
    flat = leaves(params)
    block, vector = as_block("b", b, structure.shape[0], flat[0])
    cores = leaves(structure.core)
    require_batches(
        "b",
        broadcast(*(batch_of(x, c) for x, c in zip(flat, cores, strict=True))),
        batch_of(block, 2),
    )
    *flat, block = common_precision(*flat, block)
    p = rebuild(structure.core, flat)
    if asked is None or not asked.given:
        return Solve(structure, assume_a, method), (p, block), vector
    method, options, auxiliaries = _options(asked, method, structure, p, b, vector)
    return Solve(structure, assume_a, method, options), (p, block, *auxiliaries), vector


def _options(
    asked: Iteration, method: str, structure: Structure, p: Tree, b: Array, vector: bool
) -> tuple[str, Options, tuple[Tree, ...]]:
    """Checked: the method, the options, and the arrays that they stand for."""
    direct = method in registry.engines() and not registry.is_iterative(registry.engines()[method])
    if direct or method == "direct":
        advice = "Leave it out, or use method='iterative'."
        raise ValueError(
            expected_got(" and ".join(asked.given), "a method that iterates", repr(method), advice)
        )
    M, auxiliaries = None, []
    if asked.M is not None:
        M, m = preconditioner.given(asked.M, structure, p)
        if any(map(is_complex, leaves(m))) and not any(map(is_complex, (*leaves(p), b))):
            raise ValueError(
                expected_got(
                    "M",
                    "real numbers, as those of A and b",
                    "complex ones",
                    "Make b complex, or M real.",
                )
            )
        auxiliaries.append(m)
    if asked.x0 is not None:
        x0, is_vector = as_block("x0", asked.x0, structure.shape[1], leaves(p)[0])
        if tuple(asked.x0.shape) != tuple(b.shape) or is_vector != vector:
            raise ValueError(
                expected_got(
                    "x0",
                    f"the shape of b, {tuple(b.shape)}",
                    str(tuple(asked.x0.shape)),
                    "It is a guess for x.",
                )
            )
        if is_complex(x0) and not any(map(is_complex, (*leaves(p), b))):
            raise ValueError(
                expected_got(
                    "x0",
                    "real numbers, as those of A and b",
                    "complex ones",
                    "The solution is real.",
                )
            )
        auxiliaries.append(x0)
    callback = OfVector(asked.callback) if vector and asked.callback is not None else asked.callback
    rtol = None if asked.rtol is None else float(asked.rtol)
    maxiter, restart = (None if n is None else int(n) for n in (asked.maxiter, asked.restart))
    options = Options(
        rtol,
        float(asked.atol),
        maxiter,
        restart or 20,
        M,
        asked.x0 is not None,
        observers(callback, bool(asked.progress)),
    )
    return "iterative" if method == "auto" else method, options, tuple(auxiliaries)


@dataclass(frozen=True)
class OfVector:
    """A callback that is shown a vector, not a block of one column."""

    callback: Callable[[Any], Any]

    def __call__(self, x: Array) -> Any:
        return self.callback(x[..., 0])


def require_method(method: str) -> None:
    """The name of an engine or of a kind of them."""
    require_option("method", method, ("auto", "direct", "iterative", *registry.engines()))
