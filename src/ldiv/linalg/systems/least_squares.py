"""Rectangular systems: the public function, which validates and calls the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ldiv.core.arrays import adjoint, alike, batch_of, real
from ldiv.core.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array
from ldiv.core.typing import AnyArray, ArrayT
from ldiv.core.validate import as_block, require_batches, require_number, require_option
from ldiv.errors import OF_DEPENDENT_COLUMNS, SingularMatrixError
from ldiv.linalg.arguments.dense_arguments import LEAST_SQUARES, require_matrix_array
from ldiv.linalg.arguments.eigen_problem import only_one
from ldiv.matrices.matrix import common_dtype
from ldiv.rules.assertion import checked
from ldiv.rules.least_squares import LeastSquares

Driver: TypeAlias = Literal["gelsd", "gelsy", "gelss"]


class LstsqResult(NamedTuple):
    """SciPy's four results."""

    x: Any
    residues: Any
    rank: Any
    s: Any


@public
def lstsq(
    a: AnyArray,
    b: ArrayT,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Driver | None = None,
    *,
    rcond: float | None = None,
) -> LstsqResult:
    """Solve a rectangular linear system in the sense of least squares, differentiably.

        x = argmin |A x - b|                        for m >= n
        x = the shortest of all x with A x = b      for m < n

    Parameters
    ----------
    a : array (*batch, m, n)
        The matrix, of full rank.
    b : array (m,) or (*batch, m, k)
        A one-dimensional b is a vector, anything else a block of columns.
    cond : float, optional
        Refuse a matrix with a singular value of at most cond times the largest.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, as SciPy has them: nothing is ever overwritten, and numbers are always looked at.
    lapack_driver : {"gelsd", "gelsy", "gelss"}, optional
        Which of SciPy's results are wanted: all, or with "gelsy" and where it is absent no singular
        values, as these cost more than the solution. The rank is full, and x always the same.
    rcond : float, optional
        The name of NumPy, PyTorch and JAX for cond.

    Returns
    -------
    x : array (n,) or (*batch, n, k)
        The solution.
    residues : array (*batch, k)
        |b - A x|^2 of each column; of shape (0,) where m <= n, and with "gelsy".
    rank : int, or array of these (*batch,)
        min(m, n).
    s : array (*batch, min(m, n)) or None
        The singular values, descending; with "gelsd" and "gelss" only.

    Raises
    ------
    SingularMatrixError
        For a matrix that is not of full rank, its columns scaled to 1 (of a wide matrix the rows).
    ValueError
        For shapes that do not fit, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128, and for mixed frameworks.

    Notes
    -----
    Of two dtypes the wider is used.
    Differentiable in A and b in every mode and order, by the augmented system
    [[I, A], [A^H, 0]], which is its own adjoint.
    Cost: 1 QR factorization, which the derivative reuses; each direction of a derivative
    2 triangular solves and 4 products.

    References
    ----------
    Bjorck, Numerical Methods for Least Squares Problems (1996); Golub and Pereyra (1973).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> a, b = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 3.0, 5.0])
    >>> x, residues, rank, s = ldiv.lstsq(a, b)
    >>> x.round(12)
    array([1., 2.])
    """
    name, cond = "cond" if rcond is None else "rcond", only_one("cond", cond, "rcond", rcond)
    a = require_matrix_array("a", a, b, instead=LEAST_SQUARES)
    m, n = a.shape[-2:]
    block, vector = as_block("b", b, m, a)
    require_batches("b", batch_of(a, 2), batch_of(block, 2))
    a, block = common_dtype(a, block)
    if cond is not None and min(m, n):
        a = checked(_Above(require_number(name, cond, 0)), a)
    zero = namespace(block).zeros((n, block.shape[-1]), **alike(block))
    x = (
        bind(LeastSquares(auxiliary=(True, False)), a, block, zero)[1]
        if m >= n
        else bind(LeastSquares(auxiliary=(False, True)), adjoint(a), zero, block)[0]
    )
    residues, rank, s = _quality(a, block, x, lapack_driver)
    if not vector:
        return LstsqResult(x, residues, rank, s)
    own = residues[..., 0] if residues.shape != (0,) else residues
    return LstsqResult(x[..., 0], own, rank, s)


def _quality(a: Array, b: Array, x: Array, driver: str | None) -> tuple[Array, Any, Array | None]:
    """SciPy's residues, rank and singular values."""
    if driver is not None:
        require_option("lapack_driver", driver, get_args(Driver))
    (m, n), xp = a.shape[-2:], namespace(a)
    s = frontend_of(a).svdvals(a) if driver in ("gelsd", "gelss") else None
    rank = np.full(a.shape[:-2], min(m, n)) if a.ndim > 2 else min(m, n)
    residues = xp.zeros((0,), **alike(real(a)))
    if m > n and driver != "gelsy":
        residues = xp.sum(xp.abs(b - a @ x) ** 2, axis=-2)
    return residues, rank, s


@dataclass(frozen=True)
class _Above:
    """Raises unless the least singular value is larger than this many times the largest."""

    cond: float

    def __call__(self, a: Array) -> None:
        s = frontend_of(a).svdvals(a)
        check_or_raise((s[..., -1] > self.cond * s[..., 0]).all(), self._deficient)

    def _deficient(self) -> SingularMatrixError:
        return SingularMatrixError(
            "lstsq",
            f"a singular value of at most cond={self.cond:.1e} times the largest",
            causes=OF_DEPENDENT_COLUMNS,
            verdict="has not full rank",
        )
