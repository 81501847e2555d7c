"""Y = lam, the solution of S^H lam = c, and an error unless <c, v> = <lam, S v> for a random v.

A product with S^H that a user has written, or an assumption about a matrix without entries, may be
wrong where the solution is right: only a derivative would be wrong.
tangent      dY = dlam
cotangent    lam_bar = Y_bar
cost         one product, two inner products and a copy
reference    Claerbout, Earth Soundings Analysis (1992), section 5.1: the dot-product test
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, common_batch, conj, numpy_dtype, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Tree
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.structure import Structure, matmul
from ldiv.core.rules.unchanged import Unchanged
from ldiv.engines.iterative.options import Options
from ldiv.errors import value_error

SAFETY = 10  # times what the residuals of the two systems explain
ROUNDING = 64  # units in the last place: no residual is smaller


@dataclass(frozen=True)
class VerifyAdjoint(Unchanged):
    """Arguments lam (*batch, n, k), c (*batch, n, k), v (n, 1), S v (*batch, n, 1).

    The system was solved as the options say.
    """

    options: Options

    traits = Traits(may_overflow=True, is_condition=True)
    core = (2, 2, 2, 2)

    def kernel(self, *args: Tree) -> Arrays:
        lam, c, v, product = args
        xp = namespace(lam)

        def size(x: Array) -> Array:
            return xp.linalg.vector_norm(x, axis=-2)

        # |<c, v> - <lam, S v>|, by columns
        off = abs(xp.sum(conj(c) * v, axis=-2) - xp.sum(conj(lam) * product, axis=-2))
        eps = float(np.finfo(numpy_dtype(off)).eps)
        rtol, whole = self.options.tolerance(numpy_dtype(off)), size(c) * size(v)
        rounding = ROUNDING * eps * (whole + size(lam) * size(product))
        # the residual of lam, at most rtol |c| + atol, times |v|; and rounding of both products
        allowed = SAFETY * (rtol * whole + self.options.atol * size(v) + rounding)
        wrong = off > allowed  # not where a solution is NaN, as errstate may let it be
        relative = xp.where(wrong, off, 0 * off) / xp.where(wrong, whole, 0 * whole + 1)
        check_or_raise(~xp.any(wrong), _disagree, xp.sum(relative))
        return (spread(lam, common_batch(self.core, args)) + 0,)


def verified(structure: Structure, p: Tree, options: Options | None, lam: Array, c: Array) -> Array:
    """lam, or an error unless it solves S^H lam = c."""
    # one v serves all columns of all members; it is fixed, so that errors can be repeated
    drawn = np.random.default_rng(0).standard_normal((structure.shape[1], 1))
    v = namespace(c).asarray(drawn, **alike(c))
    return bind(VerifyAdjoint(options or Options()), lam, c, v, matmul(structure, p, v))[0]


def _disagree(off: Any) -> ValueError:
    return value_error(
        "rmatvec or assume_a",
        "the conjugate transpose of matvec, <A^H u, v> = <u, A v>",
        f"products that differ by {float(off):.1e}",
        "Correct rmatvec, or leave it out, and promise no symmetry that matvec does not have.",
    )
