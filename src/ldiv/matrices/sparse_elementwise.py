"""Functions of the entries that keep 0: f(A)[i, j] = f(A[i, j]) on the pattern of A.

Entries at one position are added up first, since f(a + b) is not f(a) + f(b).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

from ldiv.core.arrays.shapes import is_complex, real
from ldiv.core.arrays.validate import require_number
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.matrices.sparse_storage import own_dtype
from ldiv.matrices.sparse_values import SparseValues


class Elementwise(SparseValues):
    """Elementwise methods of scipy.sparse; differentiable where the function is.

    An explicit zero is an entry like others: the derivative of `sqrt` is infinite there.
    """

    @public
    def _mapped(self, f: Callable[[Any, Array], Array]) -> Self:
        once = self._unique()
        return once._like(f(namespace(once.data), once.values))

    def power(self, n: float, dtype: Any = None) -> Self:
        """The n-th power of every entry, n > 0, computed in `dtype`; differentiable."""
        exponent = require_number(
            "n", n, 0, above=True, advice="0 ** n is 0 for these alone: use A.toarray()."
        )
        whole = int(exponent) if exponent.is_integer() else exponent
        x = self.data
        if dtype is not None:
            x = namespace(x).astype(x, own_dtype(x, dtype))
        return self._with(x)._mapped(lambda xp, x: x**whole)

    def __pow__(self, n: float) -> Self:
        return self.power(n)

    def __abs__(self) -> Self:
        return self._mapped(lambda xp, x: xp.abs(x))

    def __neg__(self) -> Self:
        return self._with(-self.data)

    def __pos__(self) -> Self:
        return self

    @property
    def real(self) -> Self:
        """The real parts; differentiable."""
        return self._like(real(self.values))

    @property
    def imag(self) -> Self:
        """The imaginary parts; differentiable."""
        x, xp = self.values, namespace(self.data)
        return self._like(xp.imag(x) if is_complex(x) else xp.zeros_like(x))

    def sqrt(self) -> Self:
        """The square root of every entry."""
        return self._mapped(lambda xp, x: xp.sqrt(x))

    def sign(self) -> Self:
        """The sign of every entry."""
        return self._mapped(lambda xp, x: xp.sign(x))

    def expm1(self) -> Self:
        """exp(a) - 1 of every entry a."""
        return self._mapped(lambda xp, x: xp.expm1(x))

    def log1p(self) -> Self:
        """log(1 + a) of every entry a."""
        return self._mapped(lambda xp, x: xp.log1p(x))

    def sin(self) -> Self:
        """The sine of every entry."""
        return self._mapped(lambda xp, x: xp.sin(x))

    def tan(self) -> Self:
        """The tangent of every entry."""
        return self._mapped(lambda xp, x: xp.tan(x))

    def arcsin(self) -> Self:
        """The inverse sine of every entry."""
        return self._mapped(lambda xp, x: xp.asin(x))

    def arctan(self) -> Self:
        """The inverse tangent of every entry."""
        return self._mapped(lambda xp, x: xp.atan(x))

    def sinh(self) -> Self:
        """The hyperbolic sine of every entry."""
        return self._mapped(lambda xp, x: xp.sinh(x))

    def tanh(self) -> Self:
        """The hyperbolic tangent of every entry."""
        return self._mapped(lambda xp, x: xp.tanh(x))

    def arcsinh(self) -> Self:
        """The inverse hyperbolic sine of every entry."""
        return self._mapped(lambda xp, x: xp.asinh(x))

    def arctanh(self) -> Self:
        """The inverse hyperbolic tangent of every entry."""
        return self._mapped(lambda xp, x: xp.atanh(x))

    def deg2rad(self) -> Self:
        """Every entry, an angle in degrees, in radians."""
        return self._with(self.data * (math.pi / 180))

    def rad2deg(self) -> Self:
        """Every entry, an angle in radians, in degrees."""
        return self._with(self.data * (180 / math.pi))

    def floor(self) -> Self:
        """The largest integer that is not above, for every entry; its derivative is zero."""
        return self._mapped(lambda xp, x: xp.floor(x))

    def ceil(self) -> Self:
        """The smallest integer that is not below, for every entry; its derivative is zero."""
        return self._mapped(lambda xp, x: xp.ceil(x))

    def trunc(self) -> Self:
        """Every entry without its fraction; its derivative is zero."""
        return self._mapped(lambda xp, x: xp.trunc(x))

    def rint(self) -> Self:
        """The nearest integer to every entry; its derivative is zero."""
        return self._mapped(lambda xp, x: xp.round(x))
