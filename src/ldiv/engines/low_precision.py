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

from types import ModuleType
from typing import Any

import numpy as np

from ldiv.core.trees import Tree
from ldiv.engines.analyses import analysed
from ldiv.engines.factor import Factor
from ldiv.engines.refinement import Arrangement, Refined
from ldiv.errors import EngineError, NotPositiveDefiniteError, SingularMatrixError

SINGLE = {"f": np.dtype(np.float32), "c": np.dtype(np.complex64)}
STEPS = 12  # of refinement; each must at least halve the error


class LowPrecision(Refined):
    """The matrix in double precision, and an engine's factor of its rounding to single."""

    def __init__(
        self, engine: ModuleType, symbolic: Any, arrangement: Arrangement, slots: Any, assume_a: str
    ) -> None:
        self._engine = engine.__name__.rpartition(".")[2]
        super().__init__(arrangement, slots)
        self._max_steps = STEPS
        single = self._values.astype(SINGLE[self._values.dtype.kind])
        try:
            self._low: Factor = engine.factor(symbolic, Slots(), single, assume_a)
            self._low.check_nonsingular()
        except (SingularMatrixError, NotPositiveDefiniteError) as error:
            seen = getattr(error, "evidence", "a matrix that is not positive definite")
            raise SingularMatrixError(self._name, f"after rounding, {seen}") from None
        self.nbytes = self._low.nbytes + self._values.nbytes

    @property
    def _name(self) -> str:
        return f"{self._engine} in float32"

    def _solved(self, b: Any, op: str) -> Any:
        """Columns are scaled, so that none of a residual under- or overflows."""
        size = np.abs(b).max(axis=0, initial=0)
        # 1 / t of a subnormal residual would overflow
        t = np.exp2(np.clip(-np.round(np.log2(np.where(size > 0, size, 1))), -1000, 1000))
        single = (b * t).astype(SINGLE[b.dtype.kind])
        try:
            return self._low.solve_unrefined(single, op).astype(b.dtype) / t
        except SingularMatrixError as error:
            raise SingularMatrixError(self._name, error.evidence) from None

    def _refined(self, b: Any, op: str) -> Any:
        """With one step more: a small residual hides what small entries lack (Skeel)."""
        y = super()._refined(b, op)
        return y + self._solved(b - self._product(y, op), op)

    def _log_pivots(self) -> Any:
        raise EngineError("a factor in float32 has no determinant in double precision.")


class Slots:
    """Stands for a structure whose parameters are the values in the slots of its pattern."""

    def slot_values(self, p: Any) -> Any:
        return p


def factor(engine: ModuleType, symbolic: Any, structure: Any, p: Tree, assume_a: str) -> Factor:
    """S(p) by the engine in single precision; `symbolic` is the engine's work on the structure."""

    def natural() -> Arrangement:
        return symbolic if symbolic.is_natural else Arrangement(structure.pattern)

    arrangement = analysed(__name__ + engine.__name__, structure, natural)
    return LowPrecision(engine, symbolic, arrangement, structure.slot_values(p), assume_a)
