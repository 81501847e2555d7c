"""Linear equations in a matrix: solves with Kronecker sums, of which X is the vector."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ldiv.core.arrays.shapes import batch_of
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import common_precision, require_batches, require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.core.rules.structure import Structure
from ldiv.linalg.arguments.dense_arguments import require_partner, require_square_array
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense
from ldiv.structures.kronecker_sum import kronecker_sum
from ldiv.structures.stein import stein

Method = Literal["direct", "bilinear"]
OF_Q = "It has the rows of A and the columns of X."


@public
def solve_sylvester(a: ArrayT, b: AnyArray, q: AnyArray) -> ArrayT:
    """Solve the Sylvester equation, differentiably.

        A X + X B = Q

    Parameters
    ----------
    a : array (*batch, m, m)
        A.
    b : array (*batch, n, n)
        B.
    q : array (*batch, m, n)
        Q. Batch axes broadcast.

    Returns
    -------
    X : array (*batch, m, n)
        The solution, real for real arrays.

    Raises
    ------
    SingularMatrixError
        Where an eigenvalue of A and one of -B are the same, to rounding: both are named.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    kronsum : the matrix of this equation.

    Notes
    -----
    Differentiable in every argument, in every mode and order: with A^H L + L B^H = X_bar the
    cotangents are Q_bar = L, A_bar = -L X^H, B_bar = -X^H L.
    LAPACK factors on the host. Cost: the Schur forms of A and B, 25 (m^3 + n^3) operations, once
    for the solution and its gradient, and once more for all other derivatives. Each of these takes
    3 m n (m + n) operations more.

    References
    ----------
    Bartels and Stewart, Comm. ACM 15 (1972); Jonsson and Kagstrom, ACM Trans. Math. Softw. 28
    (2002).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, B = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([[2.0]])
    >>> ldiv.solve_sylvester(A, B, np.array([[4.0], [4.0]]))
    array([[1.],
           [1.]])
    """
    one = require_square_array("a", a, b, q)
    two = require_square_array("b", b, one)
    right = require_partner("q", q, one, (one.shape[-1], two.shape[-1]), OF_Q, scalar=True)
    structure = kronecker_sum(dense(*one.shape[-2:]), dense(*two.shape[-2:]).T)
    return _solved(structure, one, two, right)


@public
def solve_continuous_lyapunov(a: ArrayT, q: AnyArray) -> ArrayT:
    """Solve the continuous Lyapunov equation, differentiably.

        A X + X A^H = Q

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    q : array (*batch, n, n)
        Q, Hermitian or not; batch axes broadcast.

    Returns
    -------
    X : array (*batch, n, n)
        The solution, Hermitian to the last bit where Q is.

    Raises
    ------
    SingularMatrixError
        Where the sum of an eigenvalue and the conjugate of another is zero, to rounding.
    ValueError, TypeError
        As in `solve_sylvester`.

    See Also
    --------
    solve_discrete_lyapunov, solve_sylvester

    Notes
    -----
    Differentiable as `solve_sylvester` is.
    Cost: one Schur form, 25 n^3 operations, for the solution and its gradient, and one more for all
    other derivatives; 6 n^3 for each of these.

    References
    ----------
    Bartels and Stewart, Comm. ACM 15 (1972).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve_continuous_lyapunov(np.array([[-1.0, 0.0], [0.0, -2.0]]), -4 * np.eye(2))
    array([[2., 0.],
           [0., 1.]])
    """
    matrix, right = _of_one(a, q)
    part = dense(*matrix.shape[-2:])
    return _solved(kronecker_sum(part, part.C), matrix, matrix, right)


solve_lyapunov = solve_continuous_lyapunov


@public
def solve_discrete_lyapunov(a: ArrayT, q: AnyArray, method: Method | None = None) -> ArrayT:
    """Solve the discrete Lyapunov equation (Stein's), differentiably.

        A X A^H - X + Q = 0

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    q : array (*batch, n, n)
        Q, Hermitian or not; batch axes broadcast.
    method : {"direct", "bilinear"}, optional
        Accepted, as SciPy has it: one way, by the Schur form of A, serves all sizes.

    Returns
    -------
    X : array (*batch, n, n)
        The solution, Hermitian to the last bit where Q is.

    Raises
    ------
    SingularMatrixError
        Where the product of an eigenvalue and the conjugate of another is one, to rounding.
    ValueError, TypeError
        As in `solve_sylvester`.

    See Also
    --------
    solve_continuous_lyapunov

    Notes
    -----
    Differentiable in every argument, in every mode and order: with L = A^H L A + X_bar the
    cotangents are Q_bar = L, A_bar = L A X^H + L^H A X.
    Cost: one complex Schur form for the solution and all its derivatives; 6 n^3 complex operations
    for each of these.

    References
    ----------
    Barraud, IEEE Trans. Autom. Control 22 (1977).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve_discrete_lyapunov(np.array([[0.5, 0.0], [0.0, 0.0]]), 3 * np.eye(2))
    array([[4., 0.],
           [0., 3.]])
    """
    if method is not None:
        require_option("method", method, get_args(Method))
    matrix, right = _of_one(a, q)
    part = dense(*matrix.shape[-2:])
    return _solved(stein(part, part.C), matrix, matrix, right)


def _of_one(a: Any, q: Any) -> tuple[Array, Array]:
    matrix = require_square_array("a", a, q, scalar=True)
    n = matrix.shape[-1]
    return matrix, require_partner("q", q, matrix, (n, n), OF_Q, scalar=True)


def _solved(structure: Structure, a: Array, b: Array, q: Array) -> Any:
    """X of S(a, b) vec X = vec Q."""
    require_batches("b", batch_of(a, 2), batch_of(b, 2))
    for name, x in (("a", a), ("b", b), ("q", q)):
        require_known_finite(name, x)
    a, b, q = common_precision(a, b, q)
    xp, shape = namespace(q), q.shape[-2:]
    x = solve(structure, (a, b), xp.reshape(q, (*q.shape[:-2], structure.shape[0], 1)))
    return xp.reshape(x, (*x.shape[:-2], *shape))
