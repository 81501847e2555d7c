"""y = |x|, a norm of vectors or of matrices, as one operation on an array as it is.

tangent      dy = Re <G, dx>
cotangent    x_bar = y_bar G, with a subgradient G of the norm, for u = x / |x|:
             powers             u (|x| / y)^(p-1), 0 where x is 0
             largest, smallest  u times the mean over the entries or lines where it is attained
             singular values    the cotangent of theirs
cost         a pass over the numbers; for singular values 1 decomposition
reference    Golub and Van Loan, sections 2.2 and 2.3

Powers are this rule in every framework, the other norms a composition where a framework
differentiates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from ldiv.core.arrays.shapes import beside, conj, or_one, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.units import unit_along
from ldiv.engines.accuracy.scaling import norm as root_of_squares
from ldiv.engines.accuracy.scaling import root_of_powers
from ldiv.rules.svd import SVD


@dataclass(frozen=True)
class Norm(Rule):
    """Argument x with `ndim` axes; output: the norm of order `ord` along `axes`, from the end.

    One axis: of vectors, any number. Two: of matrices, "fro", "nuc", 1, -1, 2, -2, inf, -inf.
    """

    ord: Any
    axes: tuple[int, ...]
    ndim: int

    @property
    def core(self) -> Trees:
        return (self.ndim,)

    traits = Traits(name="norm", on_host=True)

    @property
    def _spectral(self) -> bool:
        return len(self.axes) == 2 and self.ord in ("nuc", 2, -2)

    @property
    def units(self) -> tuple[Unit, ...]:
        return (Unit((2,), (0 if self.ord == 0 else 2,)),)

    @property
    def _of_sums(self) -> bool:
        """Whether the norm is the largest or smallest of sums of absolute values."""
        return self.ord in (inf, -inf) or (len(self.axes) == 2 and self.ord in (1, -1))

    def kernel(self, *args: Tree) -> Arrays:
        return (namespace(args[0]).asarray(self._value(args[0])),)  # of NumPy it is a number

    def _value(self, x: Array) -> Array:
        xp, p = namespace(x), self.ord
        if 0 in x.shape:
            return xp.sum(xp.abs(x), axis=self.axes)
        if p == "fro" or (p == 2 and len(self.axes) == 1):
            return root_of_squares(x, self.axes)
        if self._of_sums:
            largest_or_smallest = xp.max if p > 0 else xp.min
            return largest_or_smallest(self._sums(x), axis=self.axes)
        if p == 0:
            return xp.sum(xp.astype(x != 0, xp.abs(x).dtype), axis=self.axes)
        if not self._spectral:
            return root_of_powers(x, p, self.axes)
        t = unit_along(x, self.axes)
        s = frontend_of(x).dense.svd(self._last(x * t * t))[1]
        y = xp.sum(s, axis=-1) if p == "nuc" else s[..., 0 if p > 0 else -1]
        t = xp.squeeze(t, axis=self.axes)
        return y / t / t

    def _sums(self, x: Array) -> Array:
        """The absolute sums of columns or rows of a matrix, all axes kept; of a vector |x_i|."""
        xp = namespace(x)
        if len(self.axes) == 1:
            return xp.abs(x)
        down, across = self.axes
        return xp.sum(xp.abs(x), axis=across if abs(self.ord) == inf else down, keepdims=True)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        product = real(conj(self._subgradient(args[0], out[0])) * tangents[0])
        return (namespace(product).sum(product, axis=self.axes),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        return (self._wide(cotangents[0]) * self._subgradient(args[0], out[0]),)

    def _subgradient(self, x: Array, y: Array) -> Array:
        """The subgradient at x, free of units: computed and differentiated for x scaled near 1."""
        xp, p = namespace(x), self.ord
        if 0 in x.shape or p == 0:
            return 0 * x
        one = unit_along(x, ())
        # u = x / |x|, and 0 where x is 0
        u = (x * one * one) / or_one(xp.abs(x * one * one))
        if self._of_sums:
            # one subgradient of many: the mean over all entries or lines that attain the extreme
            attained = xp.astype(self._sums(x) == self._wide(y), y.dtype)
            return u * (attained / xp.sum(attained, axis=self.axes, keepdims=True))
        t = unit_along(x, self.axes)
        gone = xp.any((x != 0) & (x * t * t == 0), axis=self.axes, keepdims=True)
        t = xp.where(gone, xp.ones_like(t), t)
        x, y = x * t * t, self._wide(y) * t * t
        if self._spectral:
            return self._of_singular_values(x)
        # u |x| / y = x / y for "fro", u (|x| / y)^(p-1) for the powers
        if p == "fro":
            slope = xp.abs(x) / or_one(y)
        else:  # the roots have a ratio also where the numbers have none in the range
            root = xp.sqrt(or_one(xp.abs(x))) / xp.sqrt(or_one(y))
            slope = xp.where(y == 0, xp.ones_like(root), root) ** (2 * p - 2)
        return u * xp.where(y == 0, 0 * slope, slope)

    def _of_singular_values(self, x: Array) -> Array:
        out = bind(SVD(), self._last(x))
        s = out[1]
        xp, k = namespace(s), s.shape[-1]
        # s_bar: e_1 for the largest, e_k for the smallest, ones for "nuc"
        chosen = xp.arange(k, **beside(s)) == (0 if self.ord == 2 else k - 1)
        s_bar = 0 * s + 1 if self.ord == "nuc" else xp.astype(chosen, s.dtype) + 0 * s
        (g,) = SVD().vjp((True,), (None, s_bar, None, None, None), out, self._last(x))
        return namespace(g).permute_dims(g, self._order(x.ndim, back=True))

    # -- axes -------------------------------------------------------------------------------------

    def _order(self, ndim: int, back: bool = False) -> tuple[int, ...]:
        """The axes of the norm last; or where they were."""
        own = [ndim + a for a in self.axes]
        order = [i for i in range(ndim) if i not in own] + own
        return tuple(order.index(i) for i in range(ndim)) if back else tuple(order)

    def _last(self, x: Array) -> Array:
        return namespace(x).permute_dims(x, self._order(x.ndim))

    def _wide(self, y: Array) -> Array:
        """y with axes of size 1 for those of the norm."""
        ndim, sizes = y.ndim + len(self.axes), iter(y.shape)
        shape = tuple(1 if i - ndim in self.axes else next(sizes) for i in range(ndim))
        return namespace(y).reshape(y, shape)


def cases(structures: Any, draw: Any) -> Cases:
    yield Norm("fro", (-2, -1), 3), (draw(2, 3, 4),)
    yield Norm(3.0, (-2,), 2), (draw(3, 2),)
    yield Norm(1.0, (-2, -1), 2), (draw(3, 4),)
    yield Norm(-inf, (-1,), 2), (draw(2, 3),)
    yield Norm("nuc", (-1, -2), 2), (draw(3, 2),)
    yield Norm(2.0, (-2, -1), 3), (draw(2, 3, 3),)
