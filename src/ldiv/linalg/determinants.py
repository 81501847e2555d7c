"""Determinants and their logarithms: log det A by Cholesky where A is positive definite, sign
and logarithm by LU elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array
from ldiv.core.validate import require_square
from ldiv.errors import expected_got
from ldiv.linalg.solve import require_method
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import as_matrix
from ldiv.rules.assertion import finite
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.slogdet import SLogDet
from ldiv.structures.dense import Dense


@public
def logdet(A: Any, *, assume_a: str = "gen", method: str = "auto") -> Array:
    """Take the logarithm of a positive determinant, differentiably.

        l = log det A

    A: an array, a SparseArray or any matrix that `solve` factors; (*batch,) is returned. Where A is
    positive definite by promise (assume_a="pos") or structure, by its Cholesky factor; else A must
    be dense, and have a positive determinant.
    Differentiable in A in every mode and order, A_bar = l_bar A^-H on the structure. Cost: 1
    factorization; the derivative n solves, a block at a time. Raises ValueError where the
    determinant is not positive (see `slogdet`); else as `solve`.

    >>> import ldiv, numpy as np
    >>> round(float(ldiv.logdet(np.diag([2.0, 3.0]))), 12)
    1.791759469228
    """
    require_method(method)
    matrix, structure, params, assumption = promised_square(A, assume_a)
    if assumption == "pos":
        return bind(LogAbsDet(structure, assumption, method), params)[0]
    if not isinstance(matrix.structure, Dense):
        raise ValueError(
            expected_got(
                "assume_a",
                "'pos' for a matrix that is not dense",
                repr(assume_a),
                "The sign of its determinant is not known.",
            )
        )
    return bind(SLogDet(structure.shape[0], positive=True), matrix.params)[1]


@public
def slogdet(A: Any) -> tuple[Array, Array]:
    """Take the sign and the logarithm of the absolute value of a determinant, differentiably.

        det A = s exp(l),    |s| = 1

    A: a dense array (*batch, n, n); returns s and l, (*batch,). A singular A has s = 0 and l =
    -inf, as in NumPy, and no derivative: it raises there. Differentiable in every mode and order:
    dl = Re tr(A^-1 dA), ds = i s Im tr(A^-1 dA), 0 for a real A.
    Cost: 1 factorization; the gradient is A^-H, which takes n solves.

    >>> import ldiv, numpy as np
    >>> s, l = ldiv.slogdet(np.array([[0.0, 2.0], [1.0, 0.0]]))
    >>> float(s), round(float(l), 6)
    (-1.0, 0.693147)
    """
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    if not isinstance(matrix.structure, Dense):
        advice = "Sparse engines tell |det A|: use ldiv.factorized(A).logabsdet(), or logdet(A, assume_a='pos')."
        raise TypeError(expected_got("A", "a dense array", type(A).__name__, advice))
    s, l = bind(SLogDet(matrix.structure.shape[0]), matrix.params)
    return s, l


@public
def det(A: Any) -> Array:
    """Take the determinant of a dense matrix, differentiably.

        d = det A

    A, errors and cost as in `slogdet`; returns (*batch,). Differentiable in every mode and order
    where A is regular.

    >>> import ldiv, numpy as np
    >>> round(float(ldiv.det(np.array([[0.0, 2.0], [1.0, 0.0]]))), 12)
    -2.0
    """
    s, l = slogdet(A)
    with np.errstate(all="ignore"):
        return finite("det", s * namespace(l).exp(l))
