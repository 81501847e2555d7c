"""Circulant matrices, x = F^-1 (F b / l), l = F c: by FFT, n log n operations for each solve.

The matrix is normal, so that its condition is that of its eigenvalues l, and the solution is as
accurate as that of any stable method.
"""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.shapes import conj, eps, is_complex, or_one
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Tree
from ldiv.core.policies.errstate import check_or_warn
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.limits import HOPELESS
from ldiv.engines.factor import Factor
from ldiv.errors import SingularMatrixError
from ldiv.structures.circulant import Circulant

RANK = 6
ON_HOST = False
REMEMBERED = False
NAME = "FFT"


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    return None if isinstance(structure, Circulant) else "solves with circulant matrices only"


def factor(symbolic: None, structure: Circulant, p: Tree, assume_a: str) -> Factor:
    return Eigenvalues(p)


class Eigenvalues(Factor):
    """l = F c."""

    def __init__(self, p: Array) -> None:
        xp = namespace(p)
        self._l, self._is_complex = p, is_complex(p)
        if 0 not in p.shape:
            # S = F^-1 diag(l) F is normal: its singular values are |l|
            self._l = xp.fft.fft(p, axis=-1)
            sizes = xp.abs(self._l)
            least, most = xp.min(sizes, axis=-1), xp.max(sizes, axis=-1)
            # regular where eps cond(S) < HOPELESS, with cond(S) = max |l| / min |l|
            certain = (least > eps(p) / HOPELESS * most).all()
            check_or_warn(certain, _singular, xp.min(least / or_one(most)))

    def solve(self, b: Array, op: str) -> Array:
        xp = namespace(b)
        if 0 in b.shape[-2:]:
            return b
        # S^T x = b is S^H conj(x) = conj(b)
        if op == "T":
            return conj(self.solve(conj(b), "H"))
        # S^H = F^-1 diag(conj(l)) F
        values = conj(self._l) if op == "H" else self._l
        x = xp.fft.ifft(xp.fft.fft(b, axis=-2) / values[..., None], axis=-2)
        return x if self._is_complex or is_complex(b) else xp.real(x)

    def logabsdet(self) -> Array:
        xp = namespace(self._l)
        return xp.sum(xp.log(xp.abs(self._l)), axis=-1)

    def slogdet(self) -> tuple[Array, Array]:
        xp = namespace(self._l)
        # complex l of a real S come in conjugate pairs: their product is real up to rounding
        sign = xp.prod(self._l / xp.abs(self._l), axis=-1)
        return sign if self._is_complex else xp.sign(xp.real(sign)), self.logabsdet()


def _singular(share: Any) -> SingularMatrixError:
    return SingularMatrixError(NAME, f"a reciprocal condition number near {float(share):.0e}")
