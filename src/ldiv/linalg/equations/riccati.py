"""Algebraic Riccati equations, brought to those of A, B, Q, R alone."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import adjoint, astype, result_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import common_precision, require_flag
from ldiv.core.calls.public import public
from ldiv.core.rules.finite import require_known_finite
from ldiv.core.rules.rule import bind
from ldiv.linalg.arguments.dense_arguments import (
    require_matrix_array,
    require_partner,
    require_square_array,
)
from ldiv.rules.riccati import ContinuousRiccati, DiscreteRiccati, Riccati
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense

SHAPES = "A is (n, n) and B (n, m); Q and E go with A, R with the columns of B, S with B."


@public
def solve_continuous_are(
    a: ArrayT,
    b: AnyArray,
    q: AnyArray,
    r: AnyArray,
    e: AnyArray | None = None,
    s: AnyArray | None = None,
    balanced: bool = True,
) -> ArrayT:
    """Solve the continuous algebraic Riccati equation, differentiably.

        A^H X E + E^H X A - (E^H X B + S) R^-1 (B^H X E + S^H) + Q = 0

    Parameters
    ----------
    a : array (*batch, n, n)
        A; a number is a matrix 1 x 1, also below.
    b : array (*batch, n, m)
        B, the inputs.
    q : array (*batch, n, n)
        Q, Hermitian.
    r : array (*batch, m, m)
        R, Hermitian and not singular.
    e : array (*batch, n, n), optional
        E, not singular; the identity where it is absent.
    s : array (*batch, n, m), optional
        S; zero where it is absent. Batch axes of all broadcast.
    balanced : bool
        Accepted, as SciPy has it: the equation is always balanced.

    Returns
    -------
    X : array (*batch, n, n)
        The solution for which the closed loop A - B K, K = R^-1 (B^H X E + S^H), is stable:
        Hermitian to the last bit.

    Raises
    ------
    SingularMatrixError
        Where there is no stabilizing solution; for singular R and E.
    ValueError
        For shapes, NaN and infinity, and for Q or R that is not Hermitian.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    solve_discrete_are, solve_continuous_lyapunov

    Notes
    -----
    Differentiable in every argument, in every mode and order; the cotangents of Q and R are
    Hermitian. SciPy finds X on the host, in balanced units; Newton's steps refine it in double
    precision, to an error within condition times rounding in any units.
    Cost: SciPy's Schur form of order 2 n + m, and mostly two of the closed loop; all derivatives
    take one more of these, 25 n^3 operations, and each of them 6 n^3.

    References
    ----------
    Arnold and Laub, Proc. IEEE 72 (1984); Kleinman, IEEE Trans. Autom. Control 13 (1968);
    Kao and Hennequin, arXiv:2011.11430.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> one = np.ones((1, 1))
    >>> ldiv.solve_continuous_are(one, one, 3 * one, one)
    array([[3.]])
    """
    require_flag("balanced", balanced)
    return _solved(ContinuousRiccati(), a, b, q, r, e, s)


@public
def solve_discrete_are(
    a: ArrayT,
    b: AnyArray,
    q: AnyArray,
    r: AnyArray,
    e: AnyArray | None = None,
    s: AnyArray | None = None,
    balanced: bool = True,
) -> ArrayT:
    """Solve the discrete algebraic Riccati equation, differentiably.

        A^H X A - E^H X E - (A^H X B + S) (R + B^H X B)^-1 (B^H X A + S^H) + Q = 0

    Parameters
    ----------
    a, b, q : array (*batch, n, n), (*batch, n, m) and (*batch, n, n)
        As in `solve_continuous_are`.
    r : array (*batch, m, m)
        R, Hermitian; not singular where S is given.
    e, s, balanced : array (*batch, n, n) and (*batch, n, m), and bool, optional
        As in `solve_continuous_are`.

    Returns
    -------
    X : array (*batch, n, n)
        The solution for which the closed loop A - B K, K = (R + B^H X B)^-1 (B^H X A + S^H), is
        stable: Hermitian to the last bit.

    Raises
    ------
    SingularMatrixError, ValueError, TypeError
        As in `solve_continuous_are`.

    See Also
    --------
    solve_continuous_are, solve_discrete_lyapunov

    Notes
    -----
    Differentiable as `solve_continuous_are` is.
    Cost: SciPy's Schur form of order 2 n + m, and mostly two complex ones of the closed loop; all
    derivatives take one more of these.

    References
    ----------
    Arnold and Laub, Proc. IEEE 72 (1984); Kleinman, IEEE Trans. Autom. Control 13 (1968);
    Kao and Hennequin, arXiv:2011.11430.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> one = np.ones((1, 1))
    >>> ldiv.solve_discrete_are(2 * one, one, 0 * one, one)
    array([[3.]])
    """
    require_flag("balanced", balanced)
    return _solved(DiscreteRiccati(), a, b, q, r, e, s)


def _solved(rule: Riccati, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
    a = require_square_array("a", a, b, q, r, scalar=True)
    b = require_matrix_array("b", b, a, scalar=True)
    n, m = a.shape[-1], b.shape[-1]
    sizes = {"b": (n, m), "q": (n, n), "r": (m, m), "e": (n, n), "s": (n, m)}
    given = [
        require_partner(name, x, a, sizes[name], SHAPES, scalar=True)
        for name, x in (("b", b), ("q", q), ("r", r), ("e", e), ("s", s))
        if name in "bqr" or x is not None
    ]
    given, dtype = common_precision(a, *given), result_dtype(a, *given)
    a, b, q, r, *extra = (astype(x, dtype) for x in given)  # PyTorch multiplies one dtype
    if e is not None:  # X is that of A E^-1, E^-H Q E^-1, E^-H S
        e = extra.pop(0)
        whole, half = dense(n, n).H, adjoint
        a, q = half(solve(whole, e, half(a))), solve(whole, e, q)
        q = half(solve(whole, e, half(q)))
        extra = [solve(whole, e, x) for x in extra]
    if extra:
        require_known_finite("b", b)  # before the product
    for x in extra:  # and that of A - B R^-1 S^H, Q - S R^-1 S^H
        solution = solve(dense(m, m), r, adjoint(x))
        a, q = a - b @ solution, q - x @ solution
    return bind(rule, a, b, q, r)[0]
