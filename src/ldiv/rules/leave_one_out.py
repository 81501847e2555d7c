"""Q, S, D of k vectors y_i = F w_i: the range without one of them, for all of them.

    Y = Q R,   P_i = Q (I - s_i s_i^H) Q^H projects onto the range of the others,
    s_i = R^-H e_i / |R^-H e_i|,   (I - P_i) w_i = w_i - Q d_i,   d_i = (I - s_i s_i^H) Q^H w_i

By a singular value decomposition of R, whose small singular values count as zero: columns of Q are
zero there, and where one is, no vector brings a direction of its own: s_i = 0.
Constants: no derivative.
cost         4 n k^2
reference    Epperly, Tropp, Webber, XTrace: making the most of every sample in stochastic trace
             estimation, SIAM J. Matrix Anal. Appl. 45 (2024), section 3
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.arrays.shapes import adjoint, astype, conj, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Passing


@dataclass(frozen=True)
class LeaveOneOut(Passing):
    """Arguments Y and W (*batch, n, k); outputs Q (*batch, n, k), S and D (*batch, k, k)."""

    traits = Traits(name="trace_solve", differentiable=(False, False, False), on_host=True)
    core = (2, 2)
    passed = (None, None, None)

    def kernel(self, y: Array, w: Array) -> Arrays:
        xp = namespace(y)
        size = xp.max(xp.abs(y), axis=(-2, -1), keepdims=True)
        y = y / xp.where(size == 0, xp.ones_like(size), size)
        q, r = frontend_of(y).dense.qr(y)
        u, sigma, vh = frontend_of(y).dense.svd(r)
        least = y.shape[-2] * eps(y) * sigma[..., :1]
        kept = sigma > least  # (*batch, k)
        # Y = (Q U) diag(sigma) V^H, the columns of vanishing sigma set to 0
        q = xp.matmul(q, u) * kept[..., None, :]
        # R^-H e_i = U diag(1 / sigma) V^H e_i, in the basis Q U
        s = vh / xp.where(kept, sigma, xp.ones_like(sigma))[..., :, None]
        s = s / xp.linalg.vector_norm(s, axis=-2, keepdims=True)
        # random vectors with a range of less than k dimensions: none has a direction of its own
        s = s * xp.all(kept, axis=-1)[..., None, None]
        # d_i = (I - s_i s_i^H) Q^H w_i
        c = xp.matmul(adjoint(q), astype(w, numpy_dtype(q)))
        return q, s, c - s * xp.sum(conj(s) * c, axis=-2, keepdims=True)


def leave_one_out(y: Array, w: Array) -> tuple[Array, Array, Array]:
    """Q, S, D."""
    q, s, d = bind(LeaveOneOut(), y, w)
    return q, s, d
