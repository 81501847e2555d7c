"""The inertia: the numbers of positive, negative and zero eigenvalues."""

from __future__ import annotations

from math import prod
from typing import Literal, TypeAlias, get_args

import array_api_compat
import numpy as np

from ldiv.core.arrays.shapes import common_batch, one_by_one
from ldiv.core.arrays.validate import require_option
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import asnumpy, constant, host, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import Structure
from ldiv.engines.eigen import inertia as counting
from ldiv.engines.eigen.inertia import Count, Inertia
from ldiv.errors import EngineError, NotPositiveDefiniteError, expected_got, value_error
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.linalg.arguments.eigen_problem import hermitian
from ldiv.matrices.matrix import MatrixLike

Promise: TypeAlias = Literal["her", "sym", "pos"]


@public
def inertia(A: MatrixLike, *, assume_a: Promise = "her") -> Inertia:
    """Count the positive, negative and zero eigenvalues of a Hermitian matrix.

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray or Matrix
        Hermitian. Both triangles are read, and must agree up to rounding.
    assume_a : {"her", "sym", "pos"}, default "her"
        "sym" says the same of a real matrix. With "pos" an eigenvalue that is not positive raises.

    Returns
    -------
    inertia : Inertia
        The named tuple (n_positive, n_negative, n_zero): integers, or NumPy arrays (*batch,).

    Raises
    ------
    SingularMatrixError
        Where rounding could change a sign, so that the counts would not be certain.
    NotSymmetricError, NotPositiveDefiniteError
        For an A that is not Hermitian, or not what "pos" says.
    EngineError
        For a matrix whose entries are not at hand, and for a sparse one where nothing is compiled.
    ValueError, TypeError
        For shapes, dtypes, NaN and infinity, and inside of a trace (jit, vmap).

    See Also
    --------
    eigsh : with `check=True` it counts, to be certain that no eigenvalue was skipped.

    Notes
    -----
    Only rows of zeros count as zero. Every other eigenvalue must be certain not to be zero. The
    factor L D L^T of a sparse matrix has the signs of A if |I - (L D L^T)^-1 A| < 1; this norm is
    estimated, and must be below 0.01. The eigenvalues of a dense matrix are computed. So a condition
    number, after scaling, of about 1e13 or more raises.
    The number of eigenvalues below s is that of negative ones of A - s I.
    Nothing to differentiate: integers.

    Cost: of a sparse matrix 1 factorization, 1 more where entries grow, and some 10 solves each; of a
    dense one 4/3 n^3 operations.

    References
    ----------
    Sylvester (1852); Parlett, The Symmetric Eigenvalue Problem, chapter 3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.inertia(np.diag([2.0, -1.0, 3.0]))
    Inertia(n_positive=2, n_negative=1, n_zero=0)
    """
    require_option("assume_a", assume_a, get_args(Promise))
    structure, params = hermitian("A", A)
    flat = leaves(params)
    if any(map(traced, flat)):
        raise not_in_a_trace("inertia")
    for x in flat:
        if not host(x):
            what, came = "an array on the cpu", f"one on {array_api_compat.device(x)}"
            raise EngineError(expected_got("inertia", what, came, "Move it there."))
    if assume_a == "sym" and any(asnumpy(constant(x)).dtype.kind == "c" for x in flat):
        what, advice = "'her' for a complex matrix", "A symmetric one has no real eigenvalues."
        raise value_error("assume_a", what, repr(assume_a), advice)
    values = rebuild(structure.core, [asnumpy(constant(x)) for x in flat])
    require_finite("A", *leaves(values))
    batch = common_batch(structure.core, values)
    found = [_counted(structure, p, assume_a == "pos") for p in one_by_one(structure.core, values)]
    if not batch:
        return Inertia(*found[0])
    counts = np.array(found, np.int64).reshape(prod(batch), 3)
    return Inertia(*(counts[:, i].reshape(batch) for i in range(3)))


def _counted(structure: Structure, p: Tree, positive: bool) -> Count:
    found = counting.inertia(structure, p)
    if positive and found[0] < structure.shape[0]:
        what = f"{found[1]} negative eigenvalues, and {found[2]} that are zero"
        raise NotPositiveDefiniteError("inertia", what)
    return found
