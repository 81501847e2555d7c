"""The loss L of a function f, its derivatives by every transform of the framework, and differences.

    L = sum_k Re <c_k, z_k> + |z_k|^2 / 2,  z_k = y_k / r_k,  r_k = max |y_k|

over all outputs y = f(x), each at its own scale; c is random. Because of the square the second
derivatives of L depend on the first ones of f, and the cotangent y_bar_k = (c_k + z_k) / r_k
varies with x. Over several processes an output is a number of the whole, if it is equal everywhere
at two points, and counts once; otherwise each process has a part, and parts add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.checker.inner import Inner
from ldiv.checker.references import FAILURES, LEVELS, derivative
from ldiv.checker.tangents import FIRST, Argument, normal
from ldiv.checker.together import only, require_same, together, watched
from ldiv.checker.transforms import transforms
from ldiv.core.arrays import alike, conj, numpy_dtype, real
from ldiv.core.dispatch import asnumpy, frontend_of, is_array, namespace
from ldiv.core.processes import RankError
from ldiv.core.trees import Array, leaves
from ldiv.core.validate import require_numbers
from ldiv.derivatives.vjp_jvp import jvp, vjp
from ldiv.errors import expected_got
from ldiv.matrices.matrix import Matrix

Vector = list[Any]
SAME = 1e-9  # of their size: numbers of the whole are equal everywhere, but for rounding


class Loss:
    """f and L as functions of the list of all arrays of the arguments; the point is x."""

    def __init__(self, f: Callable[..., Any], args: list[Argument], seed: int) -> None:
        if not args:
            raise ValueError(
                expected_got(
                    "gradcheck",
                    "at least one argument to differentiate in",
                    "none",
                    "What it closes over is a constant: pass the rest as arguments.",
                )
            )
        self.f, self.args, self.rng = f, args, np.random.default_rng(seed)
        flat = [x for a in args for x in a.flat]
        self.x = [np.array(asnumpy(x)) for x in flat]
        self.name = frontend_of(*flat).__name__.rpartition(".")[2]
        self.xp, self.where = (
            namespace(flat[0]),
            {k: v for k, v in alike(flat[0]).items() if k != "dtype"},
        )
        self.transforms: Any = None if self.name == "numpy" else transforms(self.name)
        self.processes = only([g for a in args if (g := a.processes) is not None])
        with watched() as groups:
            y = self.values(self.x)
        self.processes = only(groups)
        self.own_rng = self.rng
        self._require_same(seed, len(y))
        if not y:
            raise TypeError(
                expected_got(
                    "gradcheck",
                    "a function with real or complex values",
                    "none",
                    "Integers have no derivatives.",
                )
            )
        if self.processes is not None:
            self.own_rng = np.random.default_rng([seed, 1 + self.processes.rank])
        self.of_args = [Inner(self.processes, [not a.shared] * len(a.flat)) for a in args]
        self.inputs = Inner(self.processes, [not a.shared for a in args for _ in a.flat])
        self.outputs = Inner(self.processes, self._are_parts(y))
        self.c = [normal(rng, v) for rng, v in zip(self.rngs(self.outputs), y, strict=True)]
        self.r = [size or 1.0 for size in self.outputs.largest([_largest(v) for v in y])]
        self.c_bar = self.cotangents(y)
        self.size = float(self.outputs.absolute([(self.c_bar, y)])[0])

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
        """Which outputs differ between the processes, at x or at a random point near by."""
        if self.processes is None:
            return [True for _ in y]
        seed = int(self.rng.integers(2**32))
        e = [
            d
            for a in self.args
            for d in a.random(np.random.default_rng([seed, 0 if a.shared else self.processes.rank]))
        ]
        views = [_fingerprint(v) for v in (*y, *self.values(self.near(e)))]
        every = self.processes.every(views)
        differ = [
            any(not _alike(other[k], every[0][k]) for other in every) for k in range(len(views))
        ]
        return [
            here or there for here, there in zip(differ[: len(y)], differ[len(y) :], strict=True)
        ]

    def rngs(self, inner: Inner) -> list[np.random.Generator]:
        """Those of parts are of this process alone."""
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
        return [
            v for v in every_leaf(self.f(*self.whole(xs))) if numpy_dtype(_array(v)).kind in "fc"
        ]

    def __call__(self, xs: Vector) -> Any:
        pairs = zip(
            self.arrays(self.c),
            (y / r for y, r in zip(self.apply(xs), self.r, strict=True)),
            strict=True,
        )
        terms = [self.xp.sum(real(conj(c) * z + conj(z) * z / 2)) for c, z in pairs]
        return self.summed(terms, self.outputs)

    def cotangents(self, y: Vector) -> Vector:
        """y_bar of all outputs, with dL = <y_bar, dy>."""
        return [(c + v / r) / r for c, v, r in zip(self.c, y, self.r, strict=True)]

    def values(self, xs: Vector) -> Vector:
        """All outputs that have derivatives, as NumPy arrays."""
        with together(self.processes):
            return [
                np.asarray(asnumpy(v) if self.name != "numpy" else v)
                for v in self.apply(self.arrays(xs))
            ]

    def moved(self, d: Vector, t: complex) -> Vector:
        """x + t d."""
        return [x + t * v for x, v in zip(self.x, d, strict=True)]

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
        smooth = [np.asarray(v).dtype.kind in "fc" for v in every_leaf(y)]
        rest = iter(self.cotangents(self.values(xs)))
        bars = tuple(next(rest) if s else None for s in smooth)
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
        return [
            t
            for v, t in zip(every_leaf(y), every_leaf(dy), strict=True)
            if np.asarray(v).dtype.kind in "fc"
        ]

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
        bars = self.arrays([np.stack([scale * c for scale in scales]) for c in self.c_bar])
        batches = self.out(pull(self.apply, self.arrays(self.x), bars))
        return [[g[i] for g in batches] for i in range(len(scales))]

    def out(self, xs: Any) -> Vector:
        return [asnumpy(x) for x in xs]

    def slope(self, d: Vector) -> tuple[float, float]:
        """<L', d> by differences of the outputs, and its error bar."""

        def g(t: complex) -> Array:
            pairs = zip(self.c_bar, self.values(self.moved(d, t)), strict=True)
            terms = ((np.conj(c) * y).sum() for c, y in self.outputs.counted(pairs))
            return self.outputs.total([sum(terms)])

        analytic = all(v.dtype.kind == "f" for v in [*self.x, *self.c])
        value, bar = derivative(
            lambda t: g(t).real, np.array([self.size]), (lambda h: g(1j * h)) if analytic else None
        )
        return float(value[0]), float(bar[0])

    def curvatures(self, e: Vector) -> dict[str, Callable[[], Vector]]:
        """L''[e], a cotangent, by each composition of transforms."""
        fw, x, along = self.transforms, self.arrays(self.x), self.arrays(e)

        def gradient(xs: Vector) -> Vector:
            return list(fw.gradient(self, xs))

        def slope(xs: Vector) -> Any:
            pairs = zip(gradient(xs), along, strict=True)
            return self.summed([self.xp.sum(real(conj(g) * d)) for g, d in pairs], self.inputs)

        def tangent(xs: Vector) -> Any:
            return fw.jvp(self, (xs,), (along,))[1]

        def on_the_tape(xs: Vector) -> Vector:
            tape: Vector = fw.on_the_tape(self, xs)
            return tape

        return {
            "forward_ad over reverse": lambda: self.out(fw.by_dual_numbers(on_the_tape, x, along)),
            "reverse over reverse": lambda: self.out(fw.gradient(slope, x)),
            "forward over reverse": lambda: self.out(fw.jvp(gradient, (x,), (along,))[1]),
            "reverse over forward": lambda: self.out(fw.gradient(tangent, x)),
        }

    def forward_twice(self, e: Vector, d: Vector) -> Array:
        """L''[e, d], a number, by forward over forward."""
        fw = self.transforms
        return np.asarray(
            asnumpy(
                fw.jvp(
                    lambda x: fw.jvp(self, (x,), (self.arrays(e),))[1],
                    (self.arrays(self.x),),
                    (self.arrays(d),),
                )[1]
            )
        )


def largest(y: Array) -> float:
    """max |y|, or 1 where that is zero."""
    return _largest(y) or 1.0


def _largest(y: Array) -> float:
    return float(np.abs(y).max(initial=0))


def _fingerprint(y: Array) -> tuple[Any, ...]:
    """The shape of an array, and two numbers that others hardly have."""
    weights = np.random.default_rng(0).standard_normal(y.shape)
    return y.shape, complex((weights * y).sum()), float(np.linalg.norm(y))


def _alike(one: tuple[Any, ...], two: tuple[Any, ...]) -> bool:
    same = np.isclose(one[1:], two[1:], SAME, SAME * abs(two[2]), equal_nan=True)
    return one[0] == two[0] and bool(np.all(same))


def _array(y: Any) -> Array:
    if not is_array(y) and not isinstance(y, np.generic):
        advice = "Return arrays, matrices, or tuples of them; not dicts, not Python numbers."
        raise TypeError(
            expected_got("f", "a function whose values are arrays", type(y).__name__, advice)
        )
    return require_numbers("f", y)


def every_leaf(y: Any) -> list[Any]:
    """The arrays of an output: of tuples, lists and matrices."""
    if isinstance(y, Matrix):
        return leaves(y.params)
    return [v for part in y for v in every_leaf(part)] if isinstance(y, tuple | list) else [y]
