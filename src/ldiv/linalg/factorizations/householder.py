"""Q of Householder reflections, under PyTorch's name."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import adjoint, batch_of, unit_columns
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import as_float, common_precision, require_batches, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_known_finite
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array
from ldiv.rules.triangular_quotients import left_solve
from ldiv.structures.triangular import triangular


@public
def householder_product(A: ArrayT, tau: AnyArray) -> ArrayT:
    """Compute the first columns of a product of Householder reflections, differentiably.

        Q = H_1 H_2 ... H_k [:, :n],    H_i = I - tau_i v_i v_i^H

    Parameters
    ----------
    A : array (*batch, m, n)
        v_i in column i, below its 1 on the diagonal; what stands above is not read. m >= n.
    tau : array (*batch, k)
        k <= n.

    Returns
    -------
    Q : array (*batch, m, n)

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For mixed frameworks, and dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    qr : the same Q, from the matrix that was factored.

    Notes
    -----
    H_1 ... H_k = I - V T V^H with T = (I + D U)^-1 D, D = diag(tau), U the part of V^H V above its
    diagonal.
    Differentiable in A and tau in every mode and order.
    Cost: 2 products, and a triangular solve of size k.

    References
    ----------
    Schreiber and Van Loan (1989); Joffrain and others, ACM Trans. Math. Softw. 32 (2006).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.householder_product(np.array([[9.0], [1.0]]), np.array([1.0]))
    array([[ 0.],
           [-1.]])
    """
    a: Any = require_matrix_array("A", A, tau)
    t: Any = as_float("tau", tau, a)
    together("tau", t, a)
    require_known_finite("A", a)
    require_known_finite("tau", t)
    m, n = a.shape[-2:]
    k = t.shape[-1] if t.ndim else n + 1
    if m < n or k > n:
        came, advice = f"{tuple(a.shape)} and {tuple(t.shape)}", "They come from a QR."
        raise value_error("A and tau", "m >= n >= k", came, advice)
    require_batches("tau", batch_of(a, 2), batch_of(t, 1))
    a, t = common_precision(a, t)
    xp: Any = namespace(a)
    one = unit_columns(a, m, range(n))
    v = xp.tril(a[..., :k], k=-1) + one[:, :k]
    d = t[..., :, None]
    unit = xp.triu(adjoint(v) @ v, k=1) * d  # its diagonal of ones is not read
    return one - v @ left_solve(triangular(k, False, "unit"), unit, d * adjoint(v[..., :n, :]))
