"""exp(t A) B without exp(t A), under SciPy's name."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of
from ldiv.core.arrays.typing import ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_block,
    require_batches,
    require_flag,
    require_int,
    require_number,
    require_square,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.matrices.matrix import MatrixLike, as_matrix
from ldiv.rules.exponential_action import ExponentialAction


@public
def expm_multiply(
    A: MatrixLike,
    B: ArrayT,
    start: float | None = None,
    stop: float | None = None,
    num: int | None = None,
    endpoint: bool | None = None,
    traceA: complex | None = None,
) -> ArrayT:
    """Multiply by the exponential of a matrix, by products with the matrix alone.

        Y = exp(A) B;    with times Y[i] = exp(t_i A) B, t_i between start and stop

    Parameters
    ----------
    A : SparseArray, array (*batch, n, n), LinearOperator, or any other Matrix
        The matrix.
    B : array (n,) or (*batch, n, k)
        What the exponential is applied to.
    start, stop : float, optional
        The first and the last time, both or none; they may be negative.
    num : int, default 50
        The number of times.
    endpoint : bool, default True
        Is `stop` one of the times?
    traceA : number, optional
        Accepted, as SciPy has it: the trace is read from the entries, where there are any.

    Returns
    -------
    Y : array
        Like B; with times (num, n) or (num, *batch, n, k).

    Raises
    ------
    ValueError
        For a matrix that is not square, for NaN, infinity and overflow, for times that are
        incomplete, and if t |A|_1 is so large that more than a million steps would be needed.
    ConvergenceError
        If the series does not end, as products that do not repeat have it.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    spectral_function : exp and other functions of a Hermitian matrix, from a few eigenpairs.

    Notes
    -----
    Differentiable in the matrix and in B by PyTorch and JAX in every mode and order, by NumPy to
    first order without times; not in the times. Nothing of the size of exp(A) is formed, unless
    n <= 256 and that costs less than the steps.

    Cost: about 10 products with A for each unit of |t| |A - mu I|_1, mu = tr A / n. A tangent takes
    twice as many. A cotangent takes four times as many, and keeps one block for each step. Matrices
    with entries are multiplied on the host. In a JAX trace a LinearOperator has no memory for the
    steps: its cotangent repeats them, at a cost that grows with the square of their number.
    Of a matrix without entries |A|_1 is estimated: with NumPy it needs `rmatvec` or a promise of
    symmetry.

    References
    ----------
    Al-Mohy and Higham, SIAM J. Sci. Comput. 33 (2011).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([-2 * np.ones(3), np.ones(2), np.ones(2)], offsets=[0, 1, -1])
    >>> ldiv.expm_multiply(A, np.array([0.0, 1.0, 0.0])).round(6)
    array([0.185179, 0.294785, 0.185179])
    >>> ldiv.expm_multiply(A, np.array([0.0, 1.0, 0.0]), start=0, stop=2, num=3)[:, 1].round(6)
    array([1.      , 0.294785, 0.155481])
    """
    matrix = as_matrix("A", A, B)
    require_square("A", matrix.structure.shape)
    structure, p = matrix.structure, matrix.params
    block, vector = as_block("B", B, structure.shape[1], leaves(p)[0] if leaves(p) else B)
    require_batches("B", matrix.batch, batch_of(block, 2))
    times = _times(start, stop, num, endpoint)
    if times is None:
        (y,) = bind(ExponentialAction(structure), p, block)
        return y[..., 0] if vector else y
    found: dict[int, ArrayT] = {}
    for side in (times >= 0, times < 0):
        y, last = block, 0.0
        # away from 0: what has decayed at a time cannot grow back to its digits
        for i in sorted(np.flatnonzero(side).tolist(), key=lambda i: abs(times[i])):
            if times[i] != last or not found:
                (y,) = bind(ExponentialAction(structure, float(times[i] - last)), p, y)
                last = times[i]
            found[i] = y[..., 0] if vector else y
    return to_caller(namespace(block).stack([found[i] for i in range(len(times))]))


def _times(start: Any, stop: Any, num: Any, endpoint: Any) -> Any:
    """The times, None for the time 1 alone."""
    if start is None and stop is None:
        if num is not None or endpoint is not None:
            advice = "Say both ends, or leave num and endpoint out."
            raise value_error("expm_multiply", "start and stop", "none", advice)
        return None
    if start is None or stop is None:
        came = "start alone" if stop is None else "stop alone"
        raise value_error("expm_multiply", "start and stop", came, "Say both.")
    ends = require_number("start", start), require_number("stop", stop)
    if not abs(float(ends[1]) - float(ends[0])) < inf:
        came = f"{ends[0]} and {ends[1]}"
        raise value_error("start and stop", "a finite difference", came, "Take shorter times.")
    count = 50 if num is None else require_int("num", num, 1)
    last = True if endpoint is None else require_flag("endpoint", endpoint)
    return np.linspace(*ends, count, endpoint=last)
