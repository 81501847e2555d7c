"""L must be a lower factor: neither a covariance, nor an upper factor, where its numbers are known."""

from __future__ import annotations

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host, numbers
from ldiv.errors import value_error


def require_lower(name: str, L: Array) -> None:
    """Raise for a symmetric matrix and for an upper triangle. Numbers above the diagonal of a lower
    factor, as SciPy's `cho_factor` leaves them, are not read.
    """
    values = numbers(L) if host(L) else None
    if values is None or 0 in values.shape:
        return
    # a look at the first row and the first superdiagonal: of a lower triangle both are 0
    if not (values[..., 0, 1:].any() or np.diagonal(values, 1, -2, -1).any()):
        return
    came = None
    if np.array_equal(values, values.conj().mT):
        came = "a symmetric matrix, as a covariance is"
    elif not np.tril(values, -1).any():
        came = "an upper triangle"
    if came is not None:
        advice = "Pass covariance=S, or the transpose of an upper factor."
        raise value_error(name, "a lower Cholesky factor", came, advice)
