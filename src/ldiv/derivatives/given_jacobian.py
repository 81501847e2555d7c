"""J = dr/dx by a function of the user's, compared with a reverse product of r at the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldiv.core.arrays.shapes import alike, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.derivatives.jacobian_values import cotangents
from ldiv.derivatives.normal_equations import Equations
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.linear_operator import WithParams


@dataclass(frozen=True)
class GivenJacobian:
    """The values of J(p, x), by the user's function."""

    f: WithParams
    equations: Equations

    def __call__(self, p: Tree, x: Array) -> Array:
        J = self.equations.values(self.f(p, x))
        if numpy_dtype(J).kind != "f":
            advice = "Convert it to the dtype of x0; for complex residuals take real and imaginary parts together."
            raise type_error("jac", "real floating values", shown(J), advice)
        return J

    def check(self, residual: Callable[[Array], Array], J: Array, x: Array) -> None:
        """Raise unless J^T w is the reverse product of the residual at x, for one random w."""
        equations, xp = self.equations, namespace(x)
        if 0 in (equations.m, x.shape[0]):
            return
        w = xp.asarray(np.random.default_rng(0).standard_normal(equations.m), **alike(x))
        expected, found = cotangents(residual, x, w[None])[0], equations.product(J, w)
        sizes = (equations.lengths(J) + xp.abs(expected)) * xp.linalg.vector_norm(w)
        off = xp.abs(found - expected)
        # as far as to half of the digits, and by rounding of larger columns
        allowed = eps(x) ** 0.5 * sizes + eps(x) * xp.max(sizes)
        check_or_raise(xp.all(off <= allowed), _wrong_jacobian)


def _wrong_jacobian() -> ValueError:
    return value_error(
        "jac",
        "the derivative of the residual in x",
        "a matrix whose products differ from those of the residual at x0",
        "Compare it with ldiv.jacobian, or leave jac out.",
    )
