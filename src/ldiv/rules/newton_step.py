"""x = S(p)^-1 b, in a step of Newton's method: what is singular is the derivative of a function of the
user's, and the error says so, in eager calls and in compiled programs.

tangent      that of `solve`
cotangent    that of `solve`
cost         that of `solve`
reference    `solve`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.frameworks.trees import Arrays, Tree, leaves
from ldiv.core.rules.compiled import CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases
from ldiv.errors import (
    OF_INDEFINITE_HESSIANS,
    OF_NO_MODE,
    OF_SINGULAR_JACOBIANS,
    NotPositiveDefiniteError,
    SingularMatrixError,
)
from ldiv.rules.solve import Solve

Refusal = SingularMatrixError | NotPositiveDefiniteError
# by an attribute of programs: the name of S(p), and why it may be singular
OF = {
    "jacobian": ("the Jacobian of f", OF_SINGULAR_JACOBIANS),
    "hessian": (
        "the Hessian of least_squares, where its gradient vanishes,",
        OF_INDEFINITE_HESSIANS,
    ),
    "curvature": ("the Hessian of f, where its gradient vanishes,", OF_NO_MODE),
}


@dataclass(frozen=True)
class NewtonStep(Solve):
    """`Solve` with error texts for Newton's method."""

    of: str = "jacobian"

    operation = Solve.operation  # it declines, and never raises

    def program(self, *flat: Any) -> CompiledCall | None:
        call = super().program(*flat)
        return call and call._replace(record=(*call.record, ("of", self.of)))

    def kernel(self, *args: Tree) -> Arrays:
        matrix, *_ = OF[self.of][0].split(",")
        require_finite(matrix, *leaves(self.structure.read(args[0])))
        try:
            return super().kernel(*args)
        except (SingularMatrixError, NotPositiveDefiniteError) as error:
            raise in_words(error, self.of) from error


def in_words(error: Refusal, of: str) -> Refusal:
    """The same error, in words for what the matrix is."""
    what, causes = OF[of]
    if isinstance(error, SingularMatrixError):
        return SingularMatrixError(error.engine, error.evidence, what=what, causes=causes)
    # a Jacobian was promised by the user: the words of `solve` say what to promise instead
    causes = "" if of == "jacobian" else causes
    return NotPositiveDefiniteError(error.engine, error.evidence, what, causes)


def cases(structures: Any, draw: Any) -> Cases:
    structure, p = next((s, p) for s, p in structures if s.may_be_regular)
    yield NewtonStep(structure), (p, draw(structure.shape[0], 2))
