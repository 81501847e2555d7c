"""Functions of the entries that keep 0: f(A)[i, j] = f(A[i, j]) on the pattern of A.

Entries at one position are added up first, since f(a + b) is not f(a) + f(b).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self, TypeVar

from ldiv.core.arrays.shapes import is_complex, real
from ldiv.core.arrays.validate import require_number
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.matrices.sparse_storage import own_dtype
from ldiv.matrices.sparse_values import SparseValues

ElementwiseT = TypeVar("ElementwiseT", bound="Elementwise")


def _each(function: str, words: str, name: str = "") -> Callable[[ElementwiseT], ElementwiseT]:
    """The method of this name, by default that of the function, which maps every entry."""

    def method(self: ElementwiseT) -> ElementwiseT:
        return self._mapped(lambda xp, x: getattr(xp, function)(x))

    method.__name__, method.__doc__ = name or function, words
    method.__qualname__ = f"Elementwise.{method.__name__}"
    return method


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

    def deg2rad(self) -> Self:
        """Every entry, an angle in degrees, in radians."""
        return self._with(self.data * (math.pi / 180))

    def rad2deg(self) -> Self:
        """Every entry, an angle in radians, in degrees."""
        return self._with(self.data * (180 / math.pi))

    # -- functions of the array API, some under another name ---------------------------------------

    sqrt = _each("sqrt", "The square root of every entry.")
    sign = _each("sign", "The sign of every entry.")
    expm1 = _each("expm1", "exp(a) - 1 of every entry a.")
    log1p = _each("log1p", "log(1 + a) of every entry a.")
    sin = _each("sin", "The sine of every entry.")
    tan = _each("tan", "The tangent of every entry.")
    arcsin = _each("asin", "The inverse sine of every entry.", "arcsin")
    arctan = _each("atan", "The inverse tangent of every entry.", "arctan")
    sinh = _each("sinh", "The hyperbolic sine of every entry.")
    tanh = _each("tanh", "The hyperbolic tangent of every entry.")
    arcsinh = _each("asinh", "The inverse hyperbolic sine of every entry.", "arcsinh")
    arctanh = _each("atanh", "The inverse hyperbolic tangent of every entry.", "arctanh")
    floor = _each(
        "floor", "The largest integer that is not above, for every entry; its derivative is zero."
    )
    ceil = _each(
        "ceil", "The smallest integer that is not below, for every entry; its derivative is zero."
    )
    trunc = _each("trunc", "Every entry without its fraction; its derivative is zero.")
    rint = _each("round", "The nearest integer to every entry; its derivative is zero.", "rint")
