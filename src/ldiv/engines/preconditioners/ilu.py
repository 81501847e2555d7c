"""M = C (L U)^-1 R, where L U is near R S C: an incomplete LU factorization by SuperLU.

R and C scale rows and columns to 1, so that entries are dropped by their own measure. With partial
pivoting; so M is not symmetric, even where S is. The four views share one factorization, which is
made once for each set of values, and lives as long as its owner. Runs on the host.
Reference: Li and Shao, ACM Trans. Math. Softw. 37 (2011), threshold-based ILU with a bound on fill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import spilu

from ldiv.core.arrays.validate import require_number, require_option
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure, compose
from ldiv.engines.accuracy.equilibration import Scales, equilibrated
from ldiv.engines.accuracy.sparse_matrix import Arrangement
from ldiv.engines.preconditioners.approximate_inverse import ApproximateInverse, require_sparse
from ldiv.errors import EngineError, type_error

OPTIONS = ("diag_pivot_thresh", "drop_rule", "drop_tol", "fill_factor", "permc_spec")
ORDERINGS = ("COLAMD", "MMD_AT_PLUS_A", "MMD_ATA", "NATURAL")
RULES = ("basic", "prows", "column", "area", "secondary", "dynamic", "interp")


def build(structure: Structure, p: Tree, **options: Any) -> tuple[Structure, Tree]:
    """The incomplete factorization of S(p), with these options of `scipy.sparse.linalg.spilu`.

    An entry is dropped where it is smaller than `drop_tol` (1e-4) times its column; L and U have at
    most `fill_factor` (10) times as many entries as S.
    """
    require_sparse("ilu", structure)
    if unknown := set(options) - set(OPTIONS):
        raise type_error(
            "options",
            " or ".join(OPTIONS),
            ", ".join(sorted(unknown)),
            "They are those of scipy.sparse.linalg.spilu.",
        )
    for name, least in (("drop_tol", 0), ("fill_factor", 1), ("diag_pivot_thresh", 0)):
        if name in options:
            options[name] = float(require_number(name, options[name], least))
    if "permc_spec" in options:
        require_option("permc_spec", options["permc_spec"], ORDERINGS)
    for rule in str(options.get("drop_rule", RULES[0])).split(","):
        require_option("drop_rule", rule, RULES)
    base, op = structure.unview()
    return ILU(base, op, tuple(sorted(options.items()))), p


@dataclass(frozen=True)
class ILU(ApproximateInverse):
    """op(M), for the incomplete factorization M of the base."""

    op: str = "N"
    options: tuple[tuple[str, Any], ...] = ()

    hermitian: ClassVar[bool] = False

    def view(self, op: str) -> Structure:
        return ILU(self.base, compose(self.op, op), self.options)

    @property
    def made_for(self) -> tuple[Any, ...]:
        return self.base, self.options

    def make(self, p: Tree) -> Incomplete:
        base = self.base
        assert base.pattern is not None
        pattern = base.pattern
        arrangement = base.cached("ilu", lambda: Arrangement(pattern))
        values, _, scales = arrangement.scaled("ilu", base.slot_values(p), equilibrated)
        return Incomplete(pattern.csc(values), scales, dict(self.options))

    def applied(self, made: Incomplete) -> Callable[[Any], Any]:
        return lambda x: made(x, self.op)


class Incomplete:
    """x = op(M) b for the factors of one matrix."""

    def __init__(self, matrix: Any, scales: Scales, options: dict[str, Any]) -> None:
        try:
            self._factors = spilu(matrix, **options)
        except RuntimeError as error:  # of SuperLU, told apart by its text
            if "singular" not in str(error):
                raise
            raise EngineError(
                "M='ilu': the incomplete factorization met a pivot that is exactly zero. "
                "Give M=ldiv.preconditioner(A, 'ilu', drop_tol=1e-6), or less, or take another M; "
                "or A itself is singular."
            ) from None
        self._scales, self._dtype = scales, matrix.dtype
        # each entry has its value and a 32-bit index
        self.nbytes = self._factors.nnz * (self._dtype.itemsize + 4)

    def __call__(self, b: Any, op: str) -> Any:
        if b.dtype.kind == "c" and self._dtype.kind != "c":
            # both parts in one solve of a real factor
            k = b.shape[1]
            x = self(np.concatenate([b.real, b.imag], axis=1), op)
            return x[:, :k] + 1j * x[:, k:]
        b = b.astype(self._dtype, copy=False)
        # conj(M) b = conj(M conj(b))
        return self._solved(b.conj(), "N").conj() if op == "C" else self._solved(b, op)

    def _solved(self, b: Any, op: str) -> Any:
        """(R^-1 L U C^-1)^-1 b, or its transpose, in which R and C change places."""
        if self._scales is None:
            return self._factors.solve(b, op)
        # M^T = R (L U)^-T C
        r, c = self._scales[::-1] if VIEWS[op][0] else self._scales
        return c[:, None] * self._factors.solve(r[:, None] * b, op)
