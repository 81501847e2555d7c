"""Condition numbers of dense matrices, under the name of NumPy and PyTorch."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, Literal

from ldiv.core.arrays.shapes import unit_columns
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_square
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.linalg.spectra.dense_svd import svdvals
from ldiv.linalg.spectra.norms import matrix_norm
from ldiv.rules.solve import solve
from ldiv.structures.dense import dense


@public
def cond(x: ArrayT, p: float | Literal["fro", "nuc"] | None = None) -> ArrayT:
    """Compute the condition number of a matrix, differentiably.

        s_max / s_min,    or |A|_p |A^-1|_p

    Parameters
    ----------
    x : array (*batch, m, n)
        The matrix; square where p is neither None, 2 nor -2.
    p : {None, 2, -2, 1, -1, inf, -inf, "fro", "nuc"}
        Which norm; None is 2. -2 is the inverse of the number of 2.

    Returns
    -------
    c : array (*batch,)
        The condition numbers; for 2, infinity of a matrix whose smallest singular value is 0.

    Raises
    ------
    SingularMatrixError
        For a singular matrix, in the norms that need its inverse.
    NotDifferentiableError
        In the derivative, as for `svdvals`.
    ValueError, TypeError
        As in `norm`.

    See Also
    --------
    onenormest : for sparse matrices: |A|_1, and of `factorized(A).inverse`.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order.
    Cost: the singular values, or 1 inverse.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> float(ldiv.cond(np.diag([8.0, 2.0]))), float(ldiv.cond(np.diag([8.0, 2.0]), 1))
    (4.0, 4.0)
    """
    advice = "Of a sparse one: ldiv.onenormest, of it and of factorized(A).inverse."
    a: Any = require_matrix_array("x", x, instead=advice)
    if 0 in a.shape[-2:]:
        came = str(tuple(a.shape))
        raise value_error("x", "matrices with entries", came, "Others have no norm.")
    require_known_finite("x", a)
    if p is None or (isinstance(p, int | float) and p in (2, -2)):
        s: Any = svdvals(a)
        above, below = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        xp: Any = namespace(s)
        found: Any = xp.where(below == 0, xp.inf, above / xp.where(below == 0, 1, below))
        return found
    if not (
        p in ("fro", "nuc")
        if isinstance(p, str)
        else isinstance(p, int | float) and not isinstance(p, bool) and p in (1, -1, inf, -inf)
    ):
        what = "None, 2, -2, 1, -1, inf, -inf, 'fro' or 'nuc'"
        raise value_error("p", what, shown(p), "See NumPy's cond.")
    require_square("x", tuple(a.shape[-2:]))
    return as_one_node(partial(_of_norms, p), a)


def _of_norms(p: Any, a: Array) -> Array:
    """|A| |A^-1|."""
    n = a.shape[-1]
    inverse = solve(dense(n, n), a, unit_columns(a, n, range(n)))
    found: Array = matrix_norm(a, p) * matrix_norm(inverse, p)
    return found
