"""The derivatives of a loss L in all modes, each against a reference that knows how wrong it is.

With L = sum_k Re <c_k, z_k> + |z_k|^2 / 2, z_k = y_k / max |y_k| of all outputs y, c random, and
directions d and e in the tangent space of the arguments:

    jvp   <L_y, y'[d]>       vjp   <L', d>       vjp against jvp    the two of them
    second order   <L''[e], d>,  by the four compositions of forward and reverse, against differences of <L', d> along e
    vmap           the function and its gradient at two points
    batched        one pullback, <L', d>, of several cotangents at once
    gauge          the same values with other eigenvectors, where there are any
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from ldiv.checker.findings import NOISY, SMALL, Finding, Report, found
from ldiv.checker.gauges import GAUGES, other_gauge
from ldiv.checker.inner import Inner
from ldiv.checker.loss import Loss, largest
from ldiv.checker.references import derivative
from ldiv.checker.tangents import FIRST, Argument, normal
from ldiv.checker.together import together
from ldiv.core.dispatch import asnumpy
from ldiv.core.processes import RankError
from ldiv.core.trees import Array
from ldiv.errors import NotDifferentiableError, expected_got

FIRST_ORDER = ("vjp", "jvp", "vjp against jvp")
# they give numbers, the others cotangents
FORWARD = ("jvp", "forward_ad", "vjp against jvp", "forward over forward")
SECOND_ORDER = (
    "reverse over reverse",
    "forward over reverse",
    "reverse over forward",
    "forward over forward",
    "forward_ad over reverse",
)
BATCHED = ("vmap of vjp", "is_grads_batched")
Mode = Literal[
    "vjp",
    "jvp",
    "vjp against jvp",
    "forward_ad",
    "reverse over reverse",
    "forward over reverse",
    "reverse over forward",
    "forward over forward",
    "forward_ad over reverse",
    "vmap",
    "vmap of vjp",
    "is_grads_batched",
    "gauge",
]
MODES: tuple[str, ...] = get_args(Mode)
OF_TORCH = ("forward_ad", "forward_ad over reverse", "is_grads_batched")  # beside torch.func
SCALES = (1.0, -0.5)  # of the cotangents of a batch
GAUGE = 1e-8  # of the values: evaluated twice, they differ by rounding only
REFUSAL = re.compile(
    r"not (yet )?(been )?(implement|support)|(does not|doesn't|don't) (have|support)|must (implement|override)|can't apply forward|"
    r"does not work|once_differentiable|traced array"
)

REPEATED = 100  # times the difference of two evaluations: they may agree by luck
HIDDEN = (
    "Those of ldiv's functions are seen, and of eigh and svd of torch.linalg and jax.numpy.linalg."
)
Vector = list[Any]


class Check:
    """All modes of one loss."""

    def __init__(
        self, loss: Loss, modes: tuple[str, ...], asked: bool, exhaustive: bool, rtol: float
    ) -> None:
        self.loss, self.modes, self.rtol, self.report = loss, modes, rtol, Report()
        against = {"vjp", "jvp"} if "vjp against jvp" in modes else set()
        twice = {"vjp"} if set(modes) & set(SECOND_ORDER) else set()
        self.needed = {*modes, *against, *twice} if asked else set()
        ends = np.cumsum([0, *(len(a.flat) for a in loss.args)])
        self.own = [slice(start, end) for start, end in itertools.pairwise(ends)]
        self.e = [d for a in loss.args for d in a.random(loss.rng_of(a))]
        self.near = loss.near(self.e)
        self.directions: list[tuple[int, str, Vector]] = [
            (i, where, self._alone(i, d))
            for i, a in enumerate(loss.args)
            for where, d in (self._basis(a) if exhaustive else [("", a.random(loss.rng_of(a)))])
        ]

    def _basis(self, a: Argument) -> list[tuple[str, Vector]]:
        """One direction for each free entry; for those of other processes this one stays."""
        own, processes = list(a.basis()), self.loss.processes
        if processes is None or a.shared:
            return own
        here, rest = [np.zeros_like(asnumpy(x)) for x in a.flat], iter(own)
        return [
            (f"{where} of process {rank}", next(rest)[1] if rank == processes.rank else here)
            for rank, every in enumerate(processes.every([where for where, _ in own]))
            for where in every
        ]

    def _alone(self, i: int, d: Vector) -> Vector:
        """The direction in which argument i moves along d and the others stay."""
        return [
            v
            for j, a in enumerate(self.loss.args)
            for v in (d if j == i else [np.zeros_like(asnumpy(x)) for x in a.flat])
        ]

    def run(self) -> Report:
        loss = self.loss
        if "gauge" in self.modes:
            self.gauge()
        if set(self.modes) == {"gauge"}:
            return self.report
        # first elsewhere: what is kept by mistake is stale now
        self.attempt("vjp", lambda: loss.gradient(self.near))
        v = self.attempt("vjp", lambda: loss.gradient(loss.x))
        pushed = self.attempt("jvp", lambda: [loss.push(d) for _, _, d in self.directions])
        if v is None and pushed is None:
            raise ValueError(
                expected_got(
                    "gradcheck",
                    "a function with a derivative",
                    str(self.report),
                    "Nothing could be checked.",
                )
            )
        slopes = np.array([loss.slope(d) for _, _, d in self.directions]).reshape(-1, 2)
        expected, bar = slopes.T
        dual = (
            self.attempt("forward_ad", lambda: [loss.push_dual(d) for _, _, d in self.directions])
            if "forward_ad" in self.modes
            else None
        )
        if dual is not None:
            self.compare("forward_ad", [(dy, loss.c_bar) for dy in dual], expected, bar, loss.size)
        pairs = {
            "vjp": None if v is None else self.along(v),
            "jvp": None if pushed is None else [(dy, loss.c_bar) for dy in pushed],
        }
        for mode, those in pairs.items():
            if those is not None:
                self.compare(mode, those, expected, bar, loss.size)
        if v is not None and pushed is not None:
            backward, again = self.products(v), self.products(loss.gradient(loss.x))
            self.compare(
                "vjp against jvp",
                pairs["jvp"] or [],
                backward,
                REPEATED * np.abs(again - backward),
                loss.size,
            )
        unsure = bar.max(initial=0)
        # the rest would only be more noisy
        if unsure > NOISY * max(np.abs(expected).max(initial=0), SMALL * loss.size):
            if self.report.ok:  # no mode passes unjudged
                mode = "vjp" if v is not None else "jvp"
                self.compare(mode, pairs[mode] or [], expected, bar, loss.size, always=True)
            return self.report
        if v is not None and set(self.modes) & set(SECOND_ORDER):
            self.second_order(v)
        if "vmap" in self.modes:
            self.vmap(FIRST * unsure)
        for mode in BATCHED:
            batch = (
                self.attempt(mode, partial(loss.pulled, mode, SCALES))
                if mode in self.modes and v is not None
                else None
            )
            for scale, g in zip(SCALES, batch or (), strict=bool(batch)):
                self.compare(mode, self.along(g), scale * expected, abs(scale) * bar, loss.size)
        return self.report

    def attempt(self, mode: str, compute: Callable[[], Any]) -> Any:
        """The derivative, or None where the function says that it has none of this kind."""
        try:
            with together(self.loss.processes):
                return compute()
        except (NotDifferentiableError, RankError):
            raise
        except Exception as error:
            no_refusal = self.loss.inputs.any(REFUSAL.search(str(error)) is None)
            if mode in self.needed or (mode != "vmap" and no_refusal):
                error.add_note(f"gradcheck: in the mode {mode}")
                raise
            self.report.refused[mode] = str(error).partition("\n")[0][:120]
            return None

    def along(self, v: Vector) -> list[tuple[Vector, Vector]]:
        """For each direction d: the part of v that belongs to the moving argument, and d."""
        return [(v[self.own[i]], d[self.own[i]]) for i, _, d in self.directions]

    def products(self, v: Vector) -> Array:
        along = zip(self.directions, self.along(v), strict=True)
        of_args = self.loss.of_args
        return self.loss.inputs.total([of_args[i].local(*pair) for (i, _, _), pair in along])

    def inner(self, mode: str, i: int) -> Inner:
        """That of the pairs of a mode: numbers of the whole, outputs, or the argument i."""
        if mode == "forward over forward":
            return Inner(self.loss.processes, [False])
        return self.loss.outputs if mode in FORWARD else self.loss.of_args[i]

    def compare(
        self,
        mode: str,
        pairs: list[tuple[Vector, Vector]],
        expected: Array,
        bar: Array,
        size: Any,
        always: bool = False,
    ) -> None:
        """One finding for each argument."""
        if mode not in self.modes and not always:
            return
        for i in range(len(self.loss.args)):
            mine = [k for k, (j, _, _) in enumerate(self.directions) if j == i]
            if not mine:
                continue
            where = [self.directions[k][1] for k in mine]
            a = self.loss.args[i]
            of = None if mode in FORWARD else [a.value] if len(a.flat) == 1 else a.flat
            sizes, inner = np.broadcast_to(size, len(pairs))[mine], self.inner(mode, i)
            self.add(
                found(
                    mode,
                    f"argument {i}",
                    where,
                    [pairs[k] for k in mine],
                    expected[mine],
                    bar[mine],
                    sizes,
                    self.rtol,
                    of,
                    inner,
                )
            )

    def add(self, finding: Finding) -> None:
        self.report.findings.append(finding)

    def second_order(self, v: Vector) -> None:
        loss = self.loss
        along = zip(self.directions, self.along(v), strict=True)
        size = np.concatenate([loss.of_args[i].absolute([pair]) for (i, _, _), pair in along])

        def slopes(t: float) -> Array:
            return self.products(loss.gradient(loss.moved(self.e, t)))

        expected, bar = derivative(slopes, size)
        for mode, compute in loss.curvatures(self.e).items():
            if mode in self.modes and (product := self.attempt(mode, compute)) is not None:
                self.compare(mode, self.along(product), expected, bar, size)
        mode, one = "forward over forward", np.ones(())
        if mode in self.modes:
            twice = self.attempt(
                mode, lambda: [loss.forward_twice(self.e, d) for _, _, d in self.directions]
            )
            if twice is not None:
                self.compare(mode, [([value], [one]) for value in twice], expected, bar, size)

    def gauge(self) -> None:
        """The values must belong to the problem, not to the eigenvectors that were chosen."""
        loss = self.loss
        y, again = (loss.outputs([(loss.values(loss.x), loss.c_bar)])[0] for _ in range(2))
        bar = max(GAUGE * loss.size, REPEATED * abs(again - y))
        for what, draws in GAUGES.items():
            for draw in draws:
                with other_gauge(draw, loss.transforms) as used:
                    values = loss.values(loss.x)
                seen = loss.outputs.any(used)
                if not seen and "gauge" in self.needed:
                    raise ValueError(
                        expected_got(
                            "gradcheck in the mode 'gauge'",
                            "a function with eigenvectors",
                            "none seen",
                            HIDDEN,
                        )
                    )
                if not seen:
                    return
                finding = found(
                    "gauge",
                    "the values",
                    [""],
                    [(values, loss.c_bar)],
                    y,
                    bar,
                    loss.size,
                    self.rtol,
                    inner=loss.outputs,
                )
                if finding.failed:
                    break
            self.add(replace(finding, looks=f"they depend on {what}" if finding.failed else ""))

    def vmap(self, noise: float) -> None:
        loss = self.loss
        points = [loss.x, self.near]
        stacked = loss.arrays([np.stack(pair) for pair in zip(*points, strict=True)])
        parts = {
            "the values": (loss.apply, loss.values, loss.outputs),
            "the gradient": (
                lambda xs: loss.transforms.gradient(loss, xs),
                loss.gradient,
                loss.inputs,
            ),
        }
        for subject, (f, each, inner) in parts.items():
            if subject == "the gradient" and "vjp" in self.report.refused:
                continue
            batch = self.attempt(
                "vmap", partial(lambda f: loss.out(loss.transforms.vmap(f)(stacked)), f)
            )
            if batch is None:
                continue
            single = [np.stack(pair) for pair in zip(*map(each, points), strict=True)]
            rngs = loss.rngs(inner)
            w = [normal(rng, y) / largest(y) for rng, y in zip(rngs, single, strict=True)]
            self.add(
                found(
                    "vmap",
                    subject,
                    [""],
                    [(batch, w)],
                    inner([(single, w)])[0],
                    noise,
                    loss.size,
                    self.rtol,
                    inner=inner,
                )
            )
