"""A factor in single precision, solutions in double: half the memory, and half the bandwidth.

    M = R A C in double,  F a factor of M rounded to single,
    y <- y + F^-1 (b - M y)   until the backward error of y is that of double, and once more

Each step shrinks the error by about eps_32 cond(M). The engine's own probe, with the eps of single
precision, refuses an M for which that is not small; so does a residual that steps do not reduce. The
factor in double precision follows then, as after any engine's suspicion: nothing that single
precision finds is certain, neither a singular matrix nor one that is not positive definite. A
solution is as good as any in double precision, a determinant would not be, and there is none.
Reference: Langou et al., SC'06; Carson, Higham, SIAM J. Sci. Comput. 40 (2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree
from ldiv.engines.accuracy.limits import SINGLE_STEPS
from ldiv.engines.accuracy.sparse_matrix import Arrangement, SparseMatrix
from ldiv.engines.accuracy.verifiable import largest
from ldiv.engines.accuracy.verified import Verified
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed
from ldiv.engines.registry import Engine, name_of
from ldiv.errors import EngineError, NotPositiveDefiniteError, SingularMatrixError

SINGLE = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}


class LowPrecision(Factor):
    """An engine's factor of M rounded to single precision, for solves in double."""

    def __init__(
        self, name: str, engine: Engine, symbolic: Any, values: Any, assume_a: str
    ) -> None:
        self._name = name
        single = values.astype(SINGLE[values.dtype.kind])
        try:
            self._low: Factor = engine.factor(symbolic, Slots(), single, assume_a)
            self._low.check_nonsingular()
        except (SingularMatrixError, NotPositiveDefiniteError) as error:
            seen = getattr(error, "evidence", "a matrix that is not positive definite")
            raise SingularMatrixError(name, f"after rounding, {seen}") from None
        self.nbytes = self._low.nbytes

    def solve(self, b: Any, op: str) -> Any:
        """Columns are scaled, so that none of a residual under- or overflows."""
        _, exponent = np.frexp(largest(b))
        # 1 / t of a subnormal residual would overflow
        t = np.exp2(-np.minimum(np.maximum(exponent, -1000.0), 1000.0))
        single = (b * t).astype(SINGLE[b.dtype.kind])
        try:
            x: Any = self._low.solve_unrefined(single, op)
            return x.astype(b.dtype) / t
        except SingularMatrixError as error:
            raise SingularMatrixError(self._name, error.evidence) from None

    def logabsdet(self) -> Any:
        raise EngineError("a factor in float32 has no determinant in double precision.")


class Slots:
    """A stand-in for a structure whose parameters are the values in the slots of its pattern."""

    def slot_values(self, p: Any) -> Any:
        return p


def factor(engine: Engine, symbolic: Any, structure: Any, p: Tree, assume_a: str) -> Factor:
    """S(p) by the engine in single precision; `symbolic` is the engine's work on the structure."""

    def natural() -> Arrangement:
        return symbolic if symbolic.is_natural else Arrangement(structure.pattern)

    name = name_of(engine, in_single=True)
    arrangement = analysed(__name__ + engine.__name__, structure, natural)
    m = SparseMatrix(name, arrangement, structure.slot_values(p))
    low = LowPrecision(name, engine, symbolic, m.values, assume_a)
    # the engine has probed the rounded M, with the larger eps of single precision
    return Verified(name, m, low, m.scales, in_single=True, steps=SINGLE_STEPS, proven=True)
