"""Quadratic programs: the public function, which validates, finds the active rows, and solves."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from ldiv.core.arrays import alike, astype, eps, is_complex, numpy_dtype
from ldiv.core.dispatch import asnumpy, constant, is_array, namespace, numbers, traced
from ldiv.core.finite import not_finite
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array
from ldiv.core.typing import AnyArray
from ldiv.core.validate import as_float, require_flag, require_option
from ldiv.engines.libraries import clarabel
from ldiv.errors import (
    ConvergenceError,
    EngineError,
    NotPositiveDefiniteError,
    QuadraticProgramError,
    SingularMatrixError,
    expected_got,
)
from ldiv.linalg.systems.active_set import Program, at, polished, zeros
from ldiv.linalg.systems.factorized import factorized
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.conversion import sparse_at
from ldiv.matrices.matrix import MatrixLike, beside, converted
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.stacking import vstack
from ldiv.rules.kink import Kink

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
    iterations: int


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
    solver: Literal["auto", "clarabel"] = "auto",
    full: bool = False,
) -> Any:
    """Solve a convex quadratic program, differentiably in all its data.

        min x^T P x / 2 + q^T x    with G x <= h, A x = b, lb <= x <= ub

    Parameters
    ----------
    P : array (n, n), SparseArray, or a sparse matrix of another library
        Symmetric, positive semidefinite.
    q : array (n,)
        The linear term.
    G, h : matrix (m, n) and array (m,), optional
        Inequalities.
    A, b : matrix (k, n) and array (k,), optional
        Equalities.
    lb, ub : array (n,) or a number for all, optional
        Bounds, infinite where there is none. Where they are equal they fix x: derivatives are those
        of moving both, half of it in each.
    solver : {"auto", "clarabel"}, default "auto"
        What finds the active rows; equalities alone need none.
    full : bool, default False
        Return more than x.

    Returns
    -------
    x : array (n,)
        The solution; with `full` a tuple (x, value, y, z, z_box, active, iterations): the multipliers
        of the equalities, the inequalities and the bounds (negative at lb), the active rows of
        (G, ub, lb), and the steps of the solver.

    Raises
    ------
    QuadraticProgramError
        "infeasible" or "unbounded", with a certificate.
    SingularMatrixError
        For active rows that depend on each other, and solutions that are not unique.
    NotDifferentiableError
        In the derivative: where a row is active without force, or only just inactive.
    ConvergenceError
        Where the solver gives up.
    EngineError
        For inequalities without Clarabel.
    ValueError
        For shapes, NaN and infinity, and a P that is not positive semidefinite.
    TypeError
        For complex numbers, mixed frameworks, and inside of jit and vmap, where there are no numbers.

    Notes
    -----
    Differentiable in P, q, G, h, A, b, lb, ub, in every mode and order; in P as in its symmetric part.
    The active rows are found by an interior-point method, mended by exchanges, and then constants: x
    solves one symmetric indefinite system, to rounding, and its derivatives are those of `solve`.
    Cost: the solver, 1 Cholesky factorization of P, which shows that the program is convex, and 1 of
    the system, which derivatives reuse.

    References
    ----------
    Nocedal and Wright, Numerical Optimization, chapter 16; Amos and Kolter, OptNet (2017).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> P, q = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([-2.0, -5.0])
    >>> ldiv.solve_qp(P, q, A=np.array([[1.0, 1.0]]), b=np.array([1.0])).round(6)
    array([-0.25,  1.25])
    """
    require_option("solver", solver, ("auto", "clarabel"))
    require_flag("full", full)
    given = {"P": P, "q": q, "G": G, "h": h, "A": A, "b": b, "lb": lb, "ub": ub}
    for pair in (("G", "h"), ("A", "b")):
        if (given[pair[0]] is None) != (given[pair[1]] is None):
            raise ValueError(
                expected_got(
                    pair[0], f"{pair[0]} and {pair[1]}", "one of them", "They go together."
                )
            )
    arrays = _vectors(given)
    like = arrays["q"]
    n = like.shape[0]
    matrices = {name: _matrix(name, given[name], like, n) for name in ("P", "G", "A")}
    for name, of in (("h", "G"), ("b", "A")):
        if matrices[of] is not None and arrays[name].shape != matrices[of].shape[:1]:
            raise ValueError(
                expected_got(
                    name,
                    f"shape {matrices[of].shape[:1]}",
                    str(tuple(arrays[name].shape)),
                    f"It goes with {of}.",
                )
            )
    program, rows = _program(matrices, arrays)
    values = _values(program)
    _require_convex(values.P)
    steps, active = 0, np.zeros(0, np.intp)
    if values.G is not None:
        found = _approximate(values)
        steps, active = found.steps, np.flatnonzero(found.multipliers > found.slack)
    try:
        solution = polished(values, active, eps(like) ** 0.5)
    except SingularMatrixError:
        if values.G is None:
            _require_bounded(values)
        raise
    point = at(program, solution.active)
    x = point.x
    if len(solution.weak):
        x = bind(Kink(_no_derivative(solution.weak, rows)), x)[0]
    return _result(program, point._replace(x=x), rows, n, steps) if full else x


def _approximate(values: Program) -> clarabel.Found:
    P, q, A, b, G, h = values
    n = len(q)
    return clarabel.solve(_scipy(P, n), q, _scipy(A, n), b, _scipy(G, n), h)


def _require_bounded(values: Program) -> None:
    """Where no row decides and the system is singular, the solver tells, if it is here."""
    with suppress(EngineError, ConvergenceError):
        _approximate(values)


def _vectors(given: dict[str, Any]) -> dict[str, Any]:
    """The arrays, all of one framework and precision."""
    others = [x for x in given.values() if is_array(x) and type(x) is not np.ndarray]
    others += [
        x.data
        for x in given.values()
        if isinstance(x, SparseArray) and type(x.data) is not np.ndarray
    ]
    found = {}
    for name in ("q", "h", "b", "lb", "ub"):
        if given[name] is None and name != "q":
            continue
        x = found[name] = as_float(name, given[name], *others[:1])
        if x.ndim == 0 and name in ("lb", "ub"):  # one bound of all
            x = found[name] = namespace(x).broadcast_to(x, found["q"].shape)
        if x.ndim != 1 or is_complex(x):
            came = f"{tuple(x.shape)} {numpy_dtype(x)}"
            advice = ONE_NUMBER_FOR[name] if x.ndim < 2 else "One program at a time."
            raise ValueError(expected_got(name, "a real vector", came, advice))
        _require_numbers(name, x)
    return found


def _require_numbers(name: str, x: Array) -> None:
    """Bounds may be infinite where there is none."""
    if traced(constant(x)):
        raise _decided_by_numbers(name, "a tracer")
    values = numbers(constant(x))
    if values is not None and values.shape != tuple(x.shape):
        raise _decided_by_numbers(name, "a batch of them (vmap)")
    values = asnumpy(constant(x))
    absent = {"lb": -np.inf, "ub": np.inf}.get(name)
    if not (np.isfinite(values) | (values == absent)).all():
        raise not_finite(name)


def _decided_by_numbers(name: str, came: str) -> TypeError:
    advice = "Call solve_qp outside of jit and vmap: which rows are active is decided by numbers."
    return TypeError(expected_got(name, "numbers", came, advice))


def _matrix(name: str, x: Any, like: Array, n: int) -> Any:
    if x is None:
        return None
    A: Any = x if isinstance(x, SparseArray) else converted(name, x)
    if A is None:
        A = as_sparse(name, as_float(name, x, like))
    A = beside(A, like)
    if (
        len(A.shape) != 2
        or A.shape[1] != n
        or (name == "P" and A.shape[0] != n)
        or is_complex(A.data)
    ):
        wanted = f"a real matrix ({n if name == 'P' else 'm'}, {n})"
        came = f"{A.shape} {numpy_dtype(A.data)}"
        raise ValueError(expected_got(name, wanted, came, "Its columns go with q."))
    _require_numbers(name, A.data)
    return A.with_data(astype(A.data, numpy_dtype(like)))


def _require_convex(P: SparseArray) -> None:
    """By a Cholesky factor of P, shifted by what rounding leaves of an eigenvalue 0."""
    size = float(np.abs(P.data).max(initial=0.0))
    if size == 0:
        return
    n = P.shape[0]
    shift = np.full(n, eps(P.data) ** (2 / 3) * size, P.data.dtype)
    at_diagonal = np.arange(n)
    shifted = P + sparse_at(shift, at_diagonal, at_diagonal, (n, n), "coo")
    try:
        factorized(shifted, assume_a="pos")
    except NotPositiveDefiniteError:
        advice = (
            "The program is not convex: a point where its gradient vanishes need not be a minimum."
        )
        raise ValueError(
            expected_got(
                "P", "a positive semidefinite matrix", "one with a negative eigenvalue", advice
            )
        ) from None


class Rows(NamedTuple):
    """Which rows of G, ub and lb are the inequalities of a program, and what its bounds fix."""

    inequalities: int
    upper: Any
    lower: Any
    fixed: Any


def _program(matrices: dict[str, Any], arrays: dict[str, Any]) -> tuple[Program, Rows]:
    like = arrays["q"]
    n, xp = like.shape[0], namespace(like)
    given = matrices["G"] is not None and matrices["G"].shape[0]
    parts = [(matrices["G"], arrays["h"])] if given else []
    bounds: dict[str, Any] = {name: arrays.get(name) for name in ("ub", "lb")}
    limits = {name: _bound(name, x, n) for name, x in bounds.items()}
    meet = (limits["ub"] == limits["lb"]) & np.isfinite(limits["lb"])
    upper, lower = (np.flatnonzero(np.isfinite(limits[x]) & ~meet) for x in ("ub", "lb"))
    for name, places, sign in (("ub", upper, 1.0), ("lb", lower, -1.0)):
        if len(places):
            parts.append((sign * _selection(places, like), sign * bounds[name][places]))
    G = parts[0][0] if len(parts) == 1 else vstack([rows for rows, _ in parts]) if parts else None
    h = zeros(0, like) if not parts else xp.concat([bound for _, bound in parts])
    A, b = matrices["A"], arrays["b"] if matrices["A"] is not None else zeros(0, like)
    if len(fixed := np.flatnonzero(meet)):  # by both bounds alike
        rows = _selection(fixed, like)
        A = rows if A is None else vstack([A, rows])
        b = xp.concat([b, (bounds["lb"][fixed] + bounds["ub"][fixed]) / 2])
    count = 0 if matrices["G"] is None else matrices["G"].shape[0]
    for i in np.flatnonzero(limits["lb"] > limits["ub"])[:1]:
        above = b.shape[0] + count + np.searchsorted(upper, i)
        below = b.shape[0] + count + len(upper) + np.searchsorted(lower, i)
        y = np.zeros(b.shape[0] + h.shape[0])
        y[[above, below]] = 1.0
        where = f"lb[{i}] = {limits['lb'][i]} is larger than ub[{i}] = {limits['ub'][i]}."
        raise QuadraticProgramError("infeasible", y, clarabel.OF_NO_POINT, where)
    return Program(matrices["P"], like, A, b, G, h), Rows(count, upper, lower, fixed)


def _bound(name: str, x: Any, n: int) -> Any:
    """Its numbers, infinite where there is none."""
    if x is None:
        return np.full(n, np.inf if name == "ub" else -np.inf)
    if x.shape != (n,):
        raise ValueError(expected_got(name, f"shape ({n},)", str(tuple(x.shape)), "It bounds x."))
    return asnumpy(constant(x))


def _selection(places: Any, like: Array) -> SparseArray:
    """The matrix that takes these entries of x."""
    count = len(places)
    one = namespace(like).ones((count,), **alike(like))
    return sparse_at(one, np.arange(count), places, (count, like.shape[0]), "coo")


def _values(program: Program) -> Program:
    """The same in NumPy's numbers."""

    def value(x: Any) -> Any:
        if isinstance(x, SparseArray):
            return x.with_data(asnumpy(constant(x.data)))
        return None if x is None else asnumpy(constant(x))

    return Program(*map(value, program))


def _scipy(A: Any, n: int) -> Any:
    if A is None:
        return sp.csc_array((0, n))
    return sp.coo_array((np.asarray(A.data, np.float64), (A.row, A.col)), shape=A.shape).tocsc()


def _no_derivative(weak: Any, rows: Rows) -> str:
    m, upper = rows.inequalities, len(rows.upper)
    names = [
        f"row {i} of G"
        if i < m
        else f"ub[{rows.upper[i - m]}]"
        if i < m + upper
        else f"lb[{rows.lower[i - m - upper]}]"
        for i in weak[:5]
    ]
    more = "" if len(weak) <= 5 else f" and {len(weak) - 5} more"
    return expected_got(
        "solve_qp",
        "constraints that are active with force, or inactive with slack, for a derivative",
        f"{', '.join(names)}{more} with neither",
        "To one side of here it binds, to the other it does not: move the data, or use the value alone.",
    )


def _result(program: Program, point: Any, rows: Rows, n: int, steps: int) -> QPResult:
    xp, m, x = namespace(program.q), rows.inequalities, point.x
    of_rows = _spread(point.multipliers, point.active, len(program.h))
    equalities = point.of_equalities.shape[0] - len(rows.fixed)
    up = len(rows.upper)
    z_box = (
        _spread(of_rows[m : m + up], rows.upper, n)
        - _spread(of_rows[m + up :], rows.lower, n)
        + _spread(point.of_equalities[equalities:], rows.fixed, n)
    )
    value = xp.sum(x * (program.P @ x)) / 2 + xp.sum(program.q * x)
    y = point.of_equalities[:equalities]
    return QPResult(x, value, y, of_rows[:m], z_box, point.active, steps)


def _spread(x: Array, places: Any, n: int) -> Array:
    """n numbers: these at their places, and zeros."""
    count = len(places)
    if not count:
        return zeros(n, x)
    one = namespace(x).ones((count,), **alike(x))
    return sparse_at(one, places, np.arange(count), (n, count), "coo") @ x
