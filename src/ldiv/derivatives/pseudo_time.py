"""Pseudo-transient continuation: V dx/dt = -f(x) is followed to rest by implicit steps that grow.

    (V / dt + J) dx = -f(x),    dt = dt_0 |f(x0)| / |f(x)|

V is diagonal: a dt_0 for each unknown. Reference: Kelley and Keyes, SIAM J. Numer. Anal. 35 (1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.derivatives.bounds import host_vector
from ldiv.derivatives.damped_steps import Curvature
from ldiv.errors import shown, value_error


@dataclass(frozen=True)
class PseudoTime:
    """dt_0 as the bytes of n numbers, or None: |x0| / |f(x0)|, and 1 / |f(x0)| where x0 = 0."""

    dt0: bytes | None
    matrix: Curvature

    def shifted(self, J: Array, part: Array, x0: Array, size: Array) -> Array:
        """The values of J + part V / dt_0, for |f(x0)| = size."""
        xp = namespace(x0)
        if self.dt0 is None:
            far = xp.linalg.vector_norm(x0)
            rate = size / xp.where(far > 0, far, 1 + far) + 0 * x0
        else:
            rate = 1 / xp.asarray(np.frombuffer(self.dt0).copy(), **alike(x0))
        return self.matrix.shifted(J, part * rate)


def require_dt0(dt0: Any, n: int) -> bytes | None:
    """The numbers of dt0, which must be positive."""
    if dt0 is None:
        return None
    expected = f"a positive number, or an array ({n},) of them"
    found = np.broadcast_to(host_vector("dt0", dt0, n, expected), (n,))
    if not (np.isfinite(found) & (found > 0)).all():
        raise value_error("dt0", expected, shown(dt0), "The first step of pseudo-time.")
    return found.astype(float).tobytes()
