"""A^p and its derivatives, p a real number.

    A^n by squaring, A^-n = (A^-1)^n;    A^(n + r) = A^n exp(r log A),    |r| <= 1/2

for hyperdual A. Values are NumPy's and SciPy's.
Reference: Higham, Functions of Matrices (2008), ch. 7; Higham and Lin (2011), the values.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.branch_cut import principal, require_off_the_cut
from ldiv.engines.functions.certain import doubt
from ldiv.engines.functions.checked_lu import checked_lu
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import hyperdual, identity, power, product, quotient
from ldiv.engines.functions.matrix_exponential import exponential
from ldiv.engines.functions.matrix_logarithm import logarithm
from ldiv.engines.functions.matrix_root import schur_form
from ldiv.errors import SingularMatrixError

MODERATE = 8.0  # a larger power of what is at an end of the range is beyond it


@dataclass(frozen=True)
class IntegerPower:
    """A^n."""

    n: int
    name: str = "matrix_power"
    units: ClassVar[Homogeneous | None] = None

    def value(self, a: HostArray) -> HostArray:
        # A^-n = (A^-1)^n
        base = a if self.n >= 0 else checked_lu(a, "A")(np.eye(len(a)))
        y: HostArray = np.linalg.matrix_power(base, abs(self.n))
        return y

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        return integer_power(hyperdual(a, es), self.n)[-1]


@dataclass(frozen=True)
class FractionalPower:
    """A^p for a p that is no integer."""

    p: float
    name: str = "fractional_matrix_power"

    @property
    def units(self) -> Homogeneous | None:
        return Homogeneous(self.p) if abs(self.p) <= MODERATE else None

    def value(self, a: HostArray) -> HostArray:
        # a singular A has no negative power
        if self.p < 0:
            checked_lu(a, "A")
        y = _principal_power(a, self.p)
        if not np.isfinite(y).all():
            raise self._none("SciPy", "NaN or infinity", "a singular matrix, or overflow.")
        why = doubt(a, y, partial(_principal_power, p=self.p))
        if why is not None:
            raise self._none(self.name, why, "a nearly singular matrix that is defective there.")
        return y

    def _none(self, engine: str, evidence: str, causes: str) -> SingularMatrixError:
        verdict = f"has no power {self.p:g}"
        return SingularMatrixError(engine, evidence, causes=causes, verdict=verdict)

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        t, q, fs = schur_form(a, es)
        require_off_the_cut(self.name, a, t)
        # A^p = A^n exp((p - n) log A), |p - n| <= 1/2
        x, n = hyperdual(t, fs), round(self.p)
        y = exponential((self.p - n) * logarithm(x), self.name)
        return q @ product(integer_power(x, n), y)[-1] @ q.conj().T


def _principal_power(a: HostArray, p: float) -> HostArray:
    """SciPy's value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the values tell
        return principal(partial(scipy.linalg.fractional_matrix_power, t=p), a)


def integer_power(x: HostArray, n: int) -> HostArray:
    """X^n of a hyperdual X."""
    if n < 0:
        x = quotient(checked_lu(x[0], "A"), x, identity(x))
    return power(x, abs(n))
