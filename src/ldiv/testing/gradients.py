"""gradcheck: every derivative of a function, in every mode, against differences that know how wrong they are.

With cotangents c fixed at random, L = Re <c, y> + |y|^2 / 2s, directions d and e in the tangent space of the arguments:

    jvp   <L_y, y'[d]>       vjp   <L', d>       vjp against jvp    the two of them
    second order   <L''[e], d>,  by the four compositions of forward and reverse, against differences of <L', d> along e
    vmap           the function and its gradient at two points
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.arrays import alike, conj, numpy_dtype, real
from ldiv.errors import NotDifferentiableError, got
from ldiv.matrix import Matrix
from ldiv.recorded import jvp as numpy_jvp
from ldiv.recorded import vjp as numpy_vjp
from ldiv.rule import Array, asnumpy, frontend_of, leaves, namespace
from ldiv.testing.diagnosis import NOISY, SMALL, Finding, Report, found
from ldiv.testing.distance import inner
from ldiv.testing.frontend import Transforms
from ldiv.testing.references import FAILURES, LEVELS, derivative
from ldiv.testing.tangents import FIRST, Argument
from ldiv.validate import require_option

FIRST_ORDER = ("vjp", "jvp", "vjp against jvp")
SECOND_ORDER = ("reverse over reverse", "forward over reverse", "reverse over forward", "forward over forward")
MODES = (*FIRST_ORDER, *SECOND_ORDER, "vmap")
RTOL = 1e-7
REFUSAL = re.compile(
    r"not (yet )?(been )?(implement|support)|(does not|doesn't|don't) (have|support)|must (implement|override)|can't apply forward|"
    r"once_differentiable|traced array"
)
Vector = list[Any]


def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    modes: tuple[str, ...] | list[str] | None = None,
    exhaustive: bool = False,
    seed: int = 0,
    rtol: float | None = None,
    raise_exception: bool = True,
) -> Report:
    """Check all derivatives of a function of PyTorch, JAX or NumPy arrays.

    f: returns an array or a tuple of arrays, real or complex; integers are ignored. NumPy functions apply one rule, as in `ldiv.vjp`.
    args: float64 or complex128: arrays, SparseArrays and other matrices (their numbers move, their pattern stays), and matrices marked
    `symmetric`, `hermitian`, `positive_definite` or `triangular`, which stay so; f is given the plain matrix.
    modes: of "vjp", "jvp", "vjp against jvp", "reverse over reverse", "forward over reverse", "reverse over forward", "forward over
    forward", "vmap"; all by default (NumPy: the first three). One that f refuses is an error only if it was asked for.
    exhaustive: entry by entry, else along one random direction for each argument. rtol: allowed beside the error bar, 1e-7.
    Returns a Report, or raises WrongDerivativeError, TooNoisyError (both AssertionErrors) unless raise_exception is False.
    Cost: 10 to 30 evaluations of f, and of its gradient, whatever the sizes; exhaustive: for each entry.

    >>> import ldiv, torch
    >>> from ldiv.testing.gradients import gradcheck
    >>> from ldiv.testing.tangents import symmetric
    >>> gradcheck(torch.linalg.eigvalsh, symmetric(torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64))).ok
    True
    """
    case = Case(f, [a if isinstance(a, Argument) else Argument(a) for a in args], seed)
    every = FIRST_ORDER if case.name == "numpy" else MODES
    for mode in modes or ():
        require_option("modes", mode, every)
    report = Check(case, tuple(modes or every), modes is not None, exhaustive, RTOL if rtol is None else rtol).run()
    if raise_exception:
        report.insist()
    return report


class Case:
    """f as a function of the list of all numbers of its arguments, and its loss."""

    def __init__(self, f: Callable[..., Any], args: list[Argument], seed: int) -> None:
        if not args:
            raise ValueError(got("gradcheck", "at least one argument to differentiate in", "none", "Close over the constants only."))
        self.f, self.args, self.rng = f, args, np.random.default_rng(seed)
        flat = [x for a in args for x in a.flat]
        self.x = [np.array(asnumpy(x)) for x in flat]
        self.name = frontend_of(*flat).__name__.rpartition(".")[2]
        self.xp, self.where = namespace(flat[0]), {k: v for k, v in alike(flat[0]).items() if k != "dtype"}
        if self.name != "numpy":
            self.transforms = Transforms(self.name)
            if self.name == "torch":
                self.transforms.grad = torch_gradient
        y = self.values(self.x)
        if not y:
            raise TypeError(got("gradcheck", "a function with real or complex values", "none", "Integers have no derivatives."))
        self.c = [self.normal(v) for v in y]
        self.s = max(float(np.abs(v).max(initial=0)) for v in y) or 1.0
        self.c_bar = [c + v / self.s for c, v in zip(self.c, y, strict=True)]
        self.size = sum(float(np.abs(c * v).sum()) for c, v in zip(self.c_bar, y, strict=True))

    def normal(self, like: Array) -> Array:
        draw = self.rng.standard_normal(like.shape)
        return draw + 1j * self.rng.standard_normal(like.shape) if like.dtype.kind == "c" else draw

    def arrays(self, xs: Vector) -> Vector:
        return [self.xp.asarray(np.array(x), **self.where) for x in xs]

    def whole(self, xs: Vector) -> list[Any]:
        rest = iter(xs)
        return [a.rebuilt([next(rest) for _ in a.flat]) for a in self.args]

    def apply(self, xs: Vector) -> Vector:
        """All outputs that have derivatives, of arrays of the framework."""
        return [v for v in every_leaf(self.f(*self.whole(xs))) if numpy_dtype(v).kind in "fc"]

    def loss(self, xs: Vector) -> Any:
        pairs = zip(self.arrays(self.c), self.apply(xs), strict=True)
        return sum(self.xp.sum(real(conj(c) * y + conj(y) * y / (2 * self.s))) for c, y in pairs)

    def values(self, xs: Vector) -> Vector:
        return [np.asarray(asnumpy(v) if self.name != "numpy" else v) for v in self.apply(self.arrays(xs))]

    def moved(self, d: Vector, t: complex) -> Vector:
        return [x + t * v for x, v in zip(self.x, d, strict=True)]

    def near(self, d: Vector) -> Vector:
        """A point along d, as far as f can go."""
        for k in range(1, LEVELS, 3):
            try:
                xs = self.moved(d, FIRST / 2**k)
                if all(np.isfinite(y).all() for y in self.values(xs)):
                    return xs
            except FAILURES:
                continue
        return self.x

    def gradient(self, xs: Vector) -> Vector:
        if self.name != "numpy":
            return self.out(self.transforms.gradient(self.loss, self.arrays(xs)))
        y, pullback = numpy_vjp(self.f, *self.whole(xs))
        smooth = [np.asarray(v).dtype.kind in "fc" for v in every_leaf(y)]
        rest = iter([c + v / self.s for c, v in zip(self.c, self.values(xs), strict=True)])
        bars = tuple(next(rest) if s else None for s in smooth)
        return [x for g in pullback(bars if isinstance(y, tuple) else bars[0]) for x in every_leaf(g)]

    def push(self, d: Vector) -> Vector:
        """The tangents of the outputs."""
        if self.name != "numpy":
            return self.out(self.transforms.jvp(self.apply, (self.arrays(self.x),), (self.arrays(d),))[1])
        y, dy = numpy_jvp(self.f, tuple(self.whole(self.x)), tuple(self.whole(d)))
        return [t for v, t in zip(every_leaf(y), every_leaf(dy), strict=True) if np.asarray(v).dtype.kind in "fc"]

    def out(self, xs: Any) -> Vector:
        return [asnumpy(x) for x in xs]

    def slope(self, d: Vector) -> tuple[float, float]:
        """<L', d> by differences of the outputs, and its bar."""

        def g(t: complex) -> Array:
            return np.array([sum((np.conj(c) * y).sum() for c, y in zip(self.c_bar, self.values(self.moved(d, t)), strict=True))])

        analytic = all(v.dtype.kind == "f" for v in [*self.x, *self.c])
        value, bar = derivative(lambda t: g(t).real, np.array([self.size]), (lambda h: g(1j * h)) if analytic else None)
        return float(value[0]), float(bar[0])

    def curvatures(self, e: Vector) -> dict[str, Callable[[], Vector]]:
        """L''[e], a cotangent, by three of the compositions."""
        fw, x, along = self.transforms, self.arrays(self.x), self.arrays(e)

        def gradient(xs: Vector) -> Vector:
            return fw.gradient(self.loss, xs)

        def slope(xs: Vector) -> Any:
            return sum(self.xp.sum(real(conj(g) * d)) for g, d in zip(gradient(xs), along, strict=True))

        def tangent(xs: Vector) -> Any:
            return fw.jvp(self.loss, (xs,), (along,))[1]

        return {
            "reverse over reverse": lambda: self.out(fw.gradient(slope, x)),
            "forward over reverse": lambda: self.out(fw.jvp(gradient, (x,), (along,))[1]),
            "reverse over forward": lambda: self.out(fw.gradient(tangent, x)),
        }

    def forward_twice(self, e: Vector, d: Vector) -> Array:
        fw = self.transforms
        return np.asarray(asnumpy(fw.jvp(lambda x: fw.jvp(self.loss, (x,), (self.arrays(e),))[1], (self.arrays(self.x),), (self.arrays(d),))[1]))


class Check:
    """All modes of one case."""

    def __init__(self, case: Case, modes: tuple[str, ...], asked: bool, exhaustive: bool, rtol: float) -> None:
        self.case, self.modes, self.rtol, self.report = case, modes, rtol, Report()
        against = {"vjp", "jvp"} if "vjp against jvp" in modes else set()
        twice = {"vjp"} if set(modes) & set(SECOND_ORDER) else set()
        self.needed = {*modes, *against, *twice} if asked else set()
        self.of = [a.value if len(a.flat) == 1 else x for a in case.args for x in a.flat]
        self.e = [d for a in case.args for d in a.random(case.rng)]
        self.near = case.near(self.e)
        self.directions: list[tuple[int, str, Vector]] = [
            (i, where, self._alone(i, d))
            for i, a in enumerate(case.args)
            for where, d in (list(a.basis()) if exhaustive else [("", a.random(case.rng))])
        ]

    def _alone(self, i: int, d: Vector) -> Vector:
        """Argument i moves, the others do not."""
        return [v for j, a in enumerate(self.case.args) for v in (d if j == i else [np.zeros_like(asnumpy(x)) for x in a.flat])]

    def run(self) -> Report:
        case = self.case
        self.attempt("vjp", lambda: case.gradient(self.near))  # first elsewhere: what is kept by mistake is stale now
        v = self.attempt("vjp", lambda: case.gradient(case.x))
        pushed = self.attempt("jvp", lambda: [case.push(d) for _, _, d in self.directions])
        if v is None and pushed is None:
            raise ValueError(got("gradcheck", "a function with a derivative", str(self.report), "Nothing could be checked."))
        slopes = np.array([case.slope(d) for _, _, d in self.directions]).reshape(-1, 2)
        expected, bar = slopes.T
        if v is not None:
            self.compare("vjp", self.along(v), expected, bar, case.size)
        if pushed is not None:
            self.compare("jvp", [(dy, case.c_bar) for dy in pushed], expected, bar, case.size, of=None)
        if v is not None and pushed is not None:
            backward = np.array([inner(tuple(v), tuple(d)) for _, _, d in self.directions])
            self.compare("vjp against jvp", [(dy, case.c_bar) for dy in pushed], backward, bar, case.size, of=None)
        unsure = bar.max(initial=0)
        if unsure > NOISY * max(np.abs(expected).max(initial=0), SMALL * case.size):
            return self.report  # the rest would only be more noisy
        if v is not None and set(self.modes) & set(SECOND_ORDER):
            self.second_order(v)
        if "vmap" in self.modes:
            self.vmap(FIRST * unsure)
        return self.report

    def attempt(self, mode: str, compute: Callable[[], Any]) -> Any:
        """The derivative, or None where the function says that it has none of this kind."""
        try:
            return compute()
        except NotDifferentiableError:
            raise
        except Exception as error:
            if REFUSAL.search(str(error)) is None or mode in self.needed:
                error.add_note(f"gradcheck: in the mode {mode}")
                raise
            self.report.refused[mode] = str(error).partition("\n")[0][:120]
            return None

    def along(self, v: Vector) -> list[tuple[Vector, Vector]]:
        return [(v, d) for _, _, d in self.directions]

    def compare(self, mode: str, pairs: list[tuple[Vector, Vector]], expected: Array, bar: Array, size: Any, of: Any = ()) -> None:
        """One finding for each argument."""
        if mode not in self.modes:
            return
        for i in range(len(self.case.args)):
            mine = [k for k, (j, _, _) in enumerate(self.directions) if j == i]
            if not mine:
                continue
            where = [self.directions[k][1] for k in mine]
            sizes = np.broadcast_to(size, len(pairs))[mine]
            of_pairs = self.of if of == () else None
            self.add(found(mode, f"argument {i}", where, [pairs[k] for k in mine], expected[mine], bar[mine], sizes, self.rtol, of_pairs))

    def add(self, finding: Finding) -> None:
        self.report.findings.append(finding)

    def second_order(self, v: Vector) -> None:
        case = self.case
        size = np.array([sum(float(np.abs(g * t).sum()) for g, t in zip(v, d, strict=True)) for _, _, d in self.directions])

        def slopes(t: float) -> Array:
            g = tuple(case.gradient(case.moved(self.e, t)))
            return np.array([inner(g, tuple(d)) for _, _, d in self.directions])

        expected, bar = derivative(slopes, size)
        for mode, compute in case.curvatures(self.e).items():
            if mode in self.modes and (product := self.attempt(mode, compute)) is not None:
                self.compare(mode, self.along(product), expected, bar, size)
        mode, one = "forward over forward", np.ones(())
        if mode in self.modes:
            twice = self.attempt(mode, lambda: [case.forward_twice(self.e, d) for _, _, d in self.directions])
            if twice is not None:
                self.compare(mode, [([value], [one]) for value in twice], expected, bar, size, of=None)

    def vmap(self, noise: float) -> None:
        case = self.case
        points = [case.x, self.near]
        stacked = case.arrays([np.stack(pair) for pair in zip(*points, strict=True)])
        parts = {"the values": (case.apply, case.values), "the gradient": (lambda xs: case.transforms.gradient(case.loss, xs), case.gradient)}
        for subject, (f, each) in parts.items():
            if subject == "the gradient" and "vjp" in self.report.refused:
                continue
            batch = self.attempt("vmap", lambda f=f: case.out(case.transforms.vmap(f)(stacked)))  # type: ignore[misc]
            if batch is None:
                continue
            single = [np.stack(pair) for pair in zip(*map(each, points), strict=True)]
            w = [case.normal(y) for y in single]
            self.add(found("vmap", subject, [""], [(batch, w)], inner(tuple(single), tuple(w)), noise, case.size, self.rtol))


def every_leaf(y: Any) -> list[Any]:
    """The arrays of an output: of tuples, lists and matrices."""
    if isinstance(y, Matrix):
        return leaves(y.params)
    return [v for part in y for v in every_leaf(part)] if isinstance(y, tuple | list) else [y]


def torch_gradient(f: Callable[[Vector], Any]) -> Callable[[Vector], Any]:
    """torch.func.grad, and for functions of the old kind, which it refuses, the tape."""
    torch = importlib.import_module("torch")

    def gradient(xs: Vector) -> Any:
        try:
            return torch.func.grad(f)(xs)
        except RuntimeError as error:
            if "setup_context" not in str(error):
                raise
        xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
        return torch.autograd.grad(f(xs), xs, create_graph=True, materialize_grads=True)

    return gradient
