"""Quadratic programs: the public function, which validates and calls the rule."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, batch_of, broadcast, is_complex, numpy_dtype
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_float,
    require_batches,
    require_flag,
    require_option,
    require_two_dimensions,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import matmul
from ldiv.engines.programs.optimality import optimality
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.matrix import Matrix, MatrixLike, beside, converted
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.sparse_indexing import all_of
from ldiv.rules.quadratic_program import QuadraticProgram
from ldiv.structures.placed import require_known_pattern
from ldiv.structures.sparse import Sparse

Solver: TypeAlias = Literal["auto", "clarabel", "piqp", "highs"]
MATRICES = "P", "A", "G"
SOLVERS = get_args(Solver)
PARTNER = {"h": "G", "b": "A"}
NO_BOUND = {"lb": -np.inf, "ub": np.inf}
ONE_NUMBER_FOR = {
    "q": "One number for each unknown.",
    "h": "One number for each row of G.",
    "b": "One number for each row of A.",
    "lb": "One number for each unknown, or one for all.",
    "ub": "One number for each unknown, or one for all.",
}


class QPResult(NamedTuple):
    """A solution with what it was found by."""

    x: Any
    value: Any
    y: Any
    z: Any
    z_box: Any
    active: Any
    iterations: Any


@public
def solve_qp(
    P: MatrixLike,
    q: AnyArray,
    G: MatrixLike | None = None,
    h: AnyArray | None = None,
    A: MatrixLike | None = None,
    b: AnyArray | None = None,
    lb: float | AnyArray | None = None,
    ub: float | AnyArray | None = None,
    solver: Solver = "auto",
    full: bool = False,
) -> Any:
    """Solve a convex quadratic program, differentiably in all its data.

        min x^T P x / 2 + q^T x    with G x <= h, A x = b, lb <= x <= ub

    Parameters
    ----------
    P : array (*batch, n, n), SparseArray, or a sparse matrix of another library
        Symmetric, positive semidefinite.
    q : array (*batch, n)
        The linear term.
    G, h : matrix (*batch, m, n) and array (*batch, m), optional
        Inequalities; an infinite h_i is no constraint.
    A, b : matrix (*batch, k, n) and array (*batch, k), optional
        Equalities.
    lb, ub : array (*batch, n) or a number for all, optional
        Bounds, infinite or of any size where there is none. Equal bounds fix x.
    solver : {"auto", "clarabel", "piqp", "highs"}, default "auto"
        The solver that finds the active rows; equalities alone need none.
    full : bool, default False
        Return more than x.

    Returns
    -------
    x : array (*batch, n)
        The solution; with `full` a tuple (x, value, y, z, z_box, active, iterations), explained in
        the Notes.

    Raises
    ------
    QuadraticProgramError
        "infeasible" or "unbounded", with a certificate.
    SingularMatrixError
        For solutions that are not unique, or that have less than two digits.
    NotDifferentiableError
        In the derivative: if a row is active without force, or only just inactive, or if active rows
        are dependent (see Notes).
    ConvergenceError
        If the solver gives up.
    EngineError
        For inequalities without a solver, unless compiled calls suffice, and for HiGHS with P != 0.
    NotSymmetricError
        For a P that differs from its transpose by more than rounding and steps of differences.
    ValueError
        For shapes, complex numbers, NaN, an infinite number that is no bound, and an indefinite P.
    TypeError
        For mixed frameworks.

    Notes
    -----
    With `full`: y, z and z_box are the multipliers of the equalities, the inequalities and the bounds
    (negative at lb). `active` tells for each row of (G, ub, lb) whether it is active, and `iterations`
    counts the steps of the solver. Multipliers that are not unique are those of least norm, each times
    the largest entry of its row.

    Differentiable in P, q, G, h, A, b, lb, ub, in every mode and order; in P as in its symmetric part.
    Derivatives in equal bounds are those of moving both, half of it in each. A row that is active
    without force, or only just inactive, refuses the derivatives of every x_i, also of one that no
    constraint couples to this row: solve uncoupled programs apart. If active rows are dependent, the
    derivatives in A, b, G, h, lb and ub, and those of multipliers, are refused.

    A batch has one pattern for all programs; leading axes broadcast, `vmap` adds them. The active rows
    are found by the solver, mended by exchanges, and then constants. x solves one symmetric indefinite
    system, to rounding; its derivatives are those of `solve`. Active rows that are implied by others, a
    repeated equality say, are left out of the system. There x has derivatives in P and q where
    multipliers exist that are positive on all active rows; in the other data in forward mode alone, if
    the rows move alike. Under `jax.jit` the solver is called on the host; `jax.export` refuses it.
    Solutions are corrected by residuals of twice the digits, and refused if they have less than two.
    Which solver "auto" takes, and from what size on rounding decides, is in the guide to quadratic
    programs.

    Cost: the solver, 1 Cholesky factorization of P, which shows that the program is convex, and 1 of
    the system, which derivatives reuse; after an exchange 1 more. A derivative is 1 solve, or 3 where
    the first correction was larger than rounding, and under `jax.jit`.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, chapter 16; Amos and Kolter, OptNet (2017); Goldfarb
    and Idnani, A numerically stable dual method for solving strictly convex quadratic programs (1983).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> P, q = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([-2.0, -5.0])
    >>> ldiv.solve_qp(P, q, A=np.array([[1.0, 1.0]]), b=np.array([1.0])).round(6)
    array([-0.25,  1.25])
    """
    require_option("solver", solver, SOLVERS)
    require_flag("full", full)
    given = {"P": P, "q": q, "G": G, "h": h, "A": A, "b": b, "lb": lb, "ub": ub}
    for name, partner in PARTNER.items():
        if (given[name] is None) != (given[partner] is None):
            raise value_error(partner, f"{partner} and {name}", "one of them", "They go together.")
    arrays = _vectors(given)
    like = arrays["q"]
    n = like.shape[-1]
    matrices = {
        name: _matrix(name, given[name], like, n)
        for name in MATRICES
        if name == "P" or given[name] is not None
    }
    sizes = {"q": n, "lb": n, "ub": n}
    for name, partner in PARTNER.items():
        if partner in matrices:
            sizes[name] = matrices[partner][0].shape[0]
    for name, x in arrays.items():
        if x.shape[-1] != sizes[name]:
            advice = f"It goes with {PARTNER.get(name, 'x')}."
            came = str(tuple(x.shape))
            raise value_error(name, f"shape (..., {sizes[name]})", came, advice)
    numbers = arrays | {name: data for name, (_, data) in matrices.items()}
    _require_batches(numbers)
    xp, own, none = namespace(like), alike(like), all_of((0, n))
    P_in, A_in, G_in = [matrices[name][0] if name in matrices else none for name in MATRICES]
    system = optimality(P_in, A_in, G_in, "lb" in arrays or "ub" in arrays)
    if system.bounds:
        for name, side in NO_BOUND.items():
            if name not in numbers:
                numbers[name] = xp.full((n,), side, **own)
    if len(numbers) < len(given):
        numbers = dict.fromkeys(given, xp.zeros((0,), **own)) | numbers
    data = [numbers[name] for name in ("P", "q", "A", "b", "G", "h", "lb", "ub")]
    found, active, weak, steps, _ = bind(QuadraticProgram(system, solver, full), *data)
    if not full:
        return found[..., :n]
    x, y, z, z_box = system.split(found)
    value = xp.sum(x * matmul(P_in, data[0], x[..., None])[..., 0], axis=-1) / 2
    value = value + xp.sum(like * x, axis=-1)
    z_box = z_box if system.bounds else 0 * x
    steps = xp.where(
        steps == steps, steps, xp.zeros_like(steps)
    )  # NaN, as errstate may let them be
    active = ((active > 0) | (weak == 2))[..., system.sizes[1] :]
    return QPResult(x, value, y, z, z_box, active, astype(steps, np.dtype(np.int32)))


def _vectors(given: dict[str, Any]) -> dict[str, Any]:
    """The arrays, all of one framework and precision."""
    arrays = [x.data if isinstance(x, SparseArray) else x for x in given.values() if x is not None]
    others = [x for x in arrays if type(x) is not np.ndarray and is_array(x)]
    found: dict[str, Array] = {}
    for name in ("q", "h", "b", "lb", "ub"):
        if given[name] is None and name != "q":
            continue
        x = as_float(name, given[name], *others[:1])
        if x.ndim == 0 and name in ("lb", "ub"):  # one bound of all
            x = namespace(x).broadcast_to(x, found["q"].shape)
        if x.ndim == 0 or is_complex(x):
            came = f"{tuple(x.shape)} {numpy_dtype(x)}"
            raise value_error(name, "a real vector", came, ONE_NUMBER_FOR[name])
        if name != "q" and x.dtype != found["q"].dtype:
            x = astype(x, numpy_dtype(found["q"]))
        found[name] = x
    return found


def _matrix(name: str, x: Any, like: Array, n: int) -> tuple[Sparse, Array]:
    """The structure of a matrix and its entries."""
    A: Any = x if isinstance(x, Matrix) else converted(name, x)
    if A is not None and not isinstance(A, SparseArray):
        require_known_pattern(name, A.structure)
        advice = "Write it as a SparseArray or an array."
        raise type_error(name, "a matrix with entries", shown(A), advice)
    if A is None:
        x = as_float(name, x, like)
        require_two_dimensions(name, x)
        *batch, m, k = x.shape
        structure, data = all_of((m, k)), namespace(x).reshape(x, (*batch, m * k))
    else:
        A = beside(A, like)
        structure, data = A.structure, A.data
    m, k = structure.shape
    if k != n or (name == "P" and m != n) or is_complex(data):
        wanted = f"a real matrix ({n if name == 'P' else 'm'}, {n})"
        came = f"{(*batch_of(data, 1), m, k)} {numpy_dtype(data)}"
        raise value_error(name, wanted, came, "Its columns go with q.")
    if data.dtype != like.dtype:
        data = astype(data, numpy_dtype(like))
    return structure, data


def _require_batches(given: dict[str, Any]) -> None:
    batch: tuple[int, ...] = ()
    for name, x in given.items():
        if x.ndim > 1:
            require_batches(name, batch, own := batch_of(x, 1))
            batch = broadcast(batch, own)
