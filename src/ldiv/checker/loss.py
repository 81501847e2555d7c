"""The loss L of a function f, its derivatives by every transform of the framework, and differences.

    L = sum_k Re <w_k, z_k> + |z_k|^2 / 2,  z_k = y_k / s_k,  s_k = max |y_k|

over all outputs y = f(x) with random weights w, and scales s at which each output counts alike: a
small one beside a large one would not be seen. Then

    dL = sum_k <y_bar_k, dy_k>,  y_bar_k = (w_k + z_k) / s_k,

and the square is there for the second derivatives. With the square, y_bar varies with x, so the
second derivatives of L depend on the first ones of f also where f is linear. They depend, too, on
how the derivative of f treats a cotangent that is differentiated itself.

Over several processes an output is a number of the whole, if it is equal everywhere at two points,
and counts once; otherwise each process has a part, and parts add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.checker.inner import Inner
from ldiv.checker.outputs import alike, every_leaf, fingerprint, maximum, smooth
from ldiv.checker.references import FAILURES, LEVELS, derivative
from ldiv.checker.tangents import FIRST, Argument, drawn
from ldiv.checker.together import only, require_same, together, watched
from ldiv.core.arrays.processes import RankError
from ldiv.core.arrays.shapes import alike as created_alike
from ldiv.core.arrays.shapes import conj, real
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, load_frontends, namespace
from ldiv.core.frameworks.transforms import Transforms
from ldiv.core.frameworks.trees import HostArray
from ldiv.derivatives.vjp_jvp import jvp, vjp
from ldiv.errors import type_error, value_error

Vector = list[Any]


class Loss:
    """f and L as functions of the list of all arrays of the arguments; the point is x."""

    def __init__(self, f: Callable[..., Any], args: list[Argument], seed: int) -> None:
        if not args:
            raise value_error(
                "gradcheck",
                "at least one argument to differentiate in",
                "none",
                "What it closes over is a constant: pass the rest as arguments.",
            )
        self.f, self.args, self.rng = f, args, np.random.default_rng(seed)
        flat = [x for a in args for x in a.flat]
        self.x = [np.array(asnumpy(x)) for x in flat]
        self.name = frontend_of(*flat).__name__.rpartition(".")[2]
        self.xp = namespace(flat[0])
        self.where = {k: v for k, v in created_alike(flat[0]).items() if k != "dtype"}
        self.transforms: Any = None if self.name == "numpy" else transforms(self.name)
        # the processes of the arguments run f; processes that take a step in f join the group
        self.processes = only([g for a in args if (g := a.processes) is not None])
        with watched() as groups:
            y = self.values(self.x)
        self.processes = only(groups)
        self._require_same(seed, len(y))
        if not y:
            raise type_error(
                "gradcheck",
                "a function with real or complex values",
                "none",
                "Integers have no derivatives.",
            )
        # numbers of the whole are drawn alike on all processes, parts on each for itself
        self.own_rng = self.rng
        if self.processes is not None:
            self.own_rng = np.random.default_rng([seed, 1 + self.processes.rank])
        self.of_args = [Inner(self.processes, [not a.shared] * len(a.flat)) for a in args]
        self.inputs = Inner(self.processes, [not a.shared for a in args for _ in a.flat])
        self.outputs = Inner(self.processes, self._are_parts(y))
        # from 2 to 4, as |z| <= 1: w + z is nowhere small, and hides no output
        rngs = self.rngs(self.outputs)
        self.weights = [2 * drawn(rng, v) for rng, v in zip(rngs, y, strict=True)]
        self.scales = [size or 1.0 for size in self.outputs.largest([maximum(v) for v in y])]
        self.y_bar = self.cotangents(y)
        self.size = float(self.outputs.absolute([(self.y_bar, y)])[0])

    # -- over several processes ---------------------------------------------------

    def _require_same(self, seed: int, outputs: int) -> None:
        counts = (len(self.args), outputs)
        require_same(
            self.processes, seed=seed, **{"the numbers of arguments, and of outputs": counts}
        )
        shared = [a.flat for a in self.args if a.shared]
        values = [asnumpy(x).tolist() for flat in shared for x in flat]
        require_same(self.processes, **{"a shared argument": values})

    def _are_parts(self, y: Vector) -> list[bool]:
        """Mark the outputs that differ between processes, at x or at a random point near by."""
        if self.processes is None:
            return [True for _ in y]
        seed = int(self.rng.integers(2**32))
        e = [
            d
            for a in self.args
            for d in a.random(np.random.default_rng([seed, 0 if a.shared else self.processes.rank]))
        ]
        views = [fingerprint(v) for v in (*y, *self.values(self.near(e)))]
        every = self.processes.every(views)
        differ = [
            any(not alike(other[k], every[0][k]) for other in every) for k in range(len(views))
        ]
        return [
            here or there for here, there in zip(differ[: len(y)], differ[len(y) :], strict=True)
        ]

    def rngs(self, inner: Inner) -> list[np.random.Generator]:
        """Random generators; those of parts are of this process alone."""
        return [self.own_rng if is_part else self.rng for is_part in inner.are_parts or ()]

    def rng_of(self, a: Argument) -> np.random.Generator:
        return self.rng if a.shared else self.own_rng

    def summed(self, terms: list[Any], inner: Inner) -> Any:
        """A number of the whole, as an array of the framework."""
        if self.processes is None:
            return sum(terms)
        pairs = list(zip(terms, inner.are_parts or (), strict=True))
        whole = sum(term for term, is_part in pairs if not is_part)
        parts = [term for term, is_part in pairs if is_part]
        return whole + self.processes.sum(sum(parts)) if parts else whole

    # -- values and derivatives ---------------------------------------------------

    def arrays(self, xs: Vector) -> Vector:
        """NumPy arrays as arrays of the framework."""
        return [self.xp.asarray(np.array(x), **self.where) for x in xs]

    def whole(self, xs: Vector) -> list[Any]:
        """The arguments of f that hold these arrays."""
        rest = iter(xs)
        return [a.rebuilt([next(rest) for _ in a.flat]) for a in self.args]

    def apply(self, xs: Vector) -> Vector:
        """All outputs that have derivatives, for arrays of the framework."""
        return [v for v in every_leaf(self.f(*self.whole(xs))) if smooth(v)]

    def __call__(self, xs: Vector) -> Any:
        triples = zip(self.arrays(self.weights), self.apply(xs), self.scales, strict=True)
        z = [(w, y / s) for w, y, s in triples]
        terms = [self.xp.sum(real(conj(w) * z + conj(z) * z / 2)) for w, z in z]
        return self.summed(terms, self.outputs)

    def cotangents(self, y: Vector) -> Vector:
        """y_bar of all outputs, with dL = <y_bar, dy>."""
        return [(w + v / s) / s for w, v, s in zip(self.weights, y, self.scales, strict=True)]

    def values(self, xs: Vector) -> Vector:
        """All outputs that have derivatives, as NumPy arrays."""
        with together(self.processes):
            return [
                np.asarray(asnumpy(v) if self.name != "numpy" else v)
                for v in self.apply(self.arrays(xs))
            ]

    def moved(self, d: Vector, t: complex, x: Vector | None = None) -> Vector:
        """x + t d."""
        return [u + t * v for u, v in zip(self.x if x is None else x, d, strict=True)]

    def near(self, d: Vector) -> Vector:
        """A point along d, as far from x as f is defined."""
        for k in range(1, LEVELS, 3):
            try:
                xs = self.moved(d, FIRST / 2**k)
                if not self.inputs.any(not all(np.isfinite(y).all() for y in self.values(xs))):
                    return xs
            except RankError:
                raise
            except FAILURES:
                continue
        return self.x

    def gradient(self, xs: Vector) -> Vector:
        """The cotangents of xs, L'(xs)."""
        with together(self.processes):
            return self._gradient(xs)

    def _gradient(self, xs: Vector) -> Vector:
        if self.name != "numpy":
            return self.out(self.transforms.gradient(self, self.arrays(xs)))
        y, pullback = vjp(self.f, *self.whole(self.arrays(xs)))
        rest = iter(self.cotangents(self.values(xs)))
        bars = tuple(next(rest) if smooth(v) else None for v in every_leaf(y))
        return [
            x for g in pullback(bars if isinstance(y, tuple) else bars[0]) for x in every_leaf(g)
        ]

    def push(self, d: Vector) -> Vector:
        """The tangents of the outputs along d."""
        if self.name != "numpy":
            return self.out(
                self.transforms.jvp(self.apply, (self.arrays(self.x),), (self.arrays(d),))[1]
            )
        y, dy = jvp(self.f, *(tuple(self.whole(self.arrays(v))) for v in (self.x, d)))
        return [t for v, t in zip(every_leaf(y), every_leaf(dy), strict=True) if smooth(v)]

    def push_dual(self, d: Vector) -> Vector:
        """The tangents of the outputs along d, by dual numbers of PyTorch."""
        return self.out(
            self.transforms.by_dual_numbers(self.apply, self.arrays(self.x), self.arrays(d))
        )

    def pulled(self, mode: str, scales: tuple[float, ...]) -> list[Vector]:
        """The gradient for each of a batch of scaled cotangents."""
        pull: Callable[..., Vector] = (
            self.transforms.pulled_at_once if mode == "is_grads_batched" else self.transforms.pulled
        )
        bars = self.arrays([np.stack([scale * c for scale in scales]) for c in self.y_bar])
        batches = self.out(pull(self.apply, self.arrays(self.x), bars))
        return [[g[i] for g in batches] for i in range(len(scales))]

    def out(self, xs: Any) -> Vector:
        return [asnumpy(x) for x in xs]

    def slope(self, d: Vector, x: Vector) -> tuple[float, float]:
        """<L'(x), d> by differences of the outputs, and its error bar.

        With y_bar as it is at x: y -> <y_bar, y> is linear, so that the rounding errors of |z|^2
        are left out, and analytic where f is.
        """
        y_bar = self.y_bar if x is self.x else self.cotangents(self.values(x))

        def g(t: complex) -> HostArray:
            pairs = zip(y_bar, self.values(self.moved(d, t, x)), strict=True)
            terms = ((np.conj(c) * y).sum() for c, y in self.outputs.counted(pairs))
            return self.outputs.total([sum(terms)])

        analytic = all(v.dtype.kind == "f" for v in [*self.x, *y_bar])
        value, bar = derivative(
            lambda t: g(t).real, np.array([self.size]), (lambda h: g(1j * h)) if analytic else None
        )
        return float(value[0]), float(bar[0])


def transforms(name: str) -> Transforms:
    """The transforms of a front end's framework, as its users call them."""
    found = [f.user.OwnTransforms for f in load_frontends() if f.__name__.endswith(f".{name}")]
    if not found or found[0] is None:
        raise ValueError(
            f"no transforms are known for {name!r}: its front end defines no OwnTransforms"
        )
    return found[0]()
