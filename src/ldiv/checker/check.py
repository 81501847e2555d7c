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

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ldiv.checker.directions import Direction, blockwise, coincide, entrywise, full
from ldiv.checker.findings import NEAR, NOISY, ROUNDING, SMALL, Finding, Report, found
from ldiv.checker.gauges import GAUGES, other_gauge
from ldiv.checker.inner import Inner, Pair, quiet
from ldiv.checker.loss import Loss, Vector
from ldiv.checker.modes import BATCHED, FORWARD, SECOND_ORDER
from ldiv.checker.outputs import largest
from ldiv.checker.references import derivative
from ldiv.checker.second_order import cotangent, number
from ldiv.checker.tangents import FIRST, drawn
from ldiv.checker.together import together
from ldiv.core.arrays.processes import RankError
from ldiv.core.frameworks.trees import HostArray
from ldiv.errors import NotDifferentiableError, value_error

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


class Check:
    """All modes of one loss."""

    def __init__(
        self, loss: Loss, modes: tuple[str, ...], asked: bool, exhaustive: bool, rtol: float
    ) -> None:
        self.loss, self.modes, self.rtol, self.report = loss, modes, rtol, Report()
        against = {"vjp", "jvp"} if "vjp against jvp" in modes else set()
        twice = {"vjp"} if set(modes) & set(SECOND_ORDER) else set()
        self.needed = {*modes, *against, *twice} if asked else set()
        self.e = [d for a in loss.args for d in a.random(loss.rng_of(a))]
        self.near = loss.near(self.e)
        simple = entrywise(loss) if exhaustive else full(loss)
        blocks = blockwise(loss)
        self.directions = simple if exhaustive else [*simple, *blocks]
        # e of second order, each with its d: a block moves alone along both
        self.curves: list[tuple[Vector, list[Direction]]] = [
            (self.e, simple),
            *((e.d, [d]) for e, d in zip(blockwise(loss), blocks, strict=True)),
        ]

    def run(self) -> Report:
        loss = self.loss
        if "gauge" in self.modes:
            self.gauge()
        if set(self.modes) == {"gauge"}:
            return self.report
        # first elsewhere: what is kept by mistake is stale now
        v_near = self.attempt("vjp", lambda: loss.gradient(self.near))
        v = self.attempt("vjp", lambda: loss.gradient(loss.x))
        pushed = self.attempt("jvp", lambda: [loss.push(d.d) for d in self.directions])
        if v is None and pushed is None:
            raise value_error(
                "gradcheck",
                "a function with a derivative",
                str(self.report),
                "Nothing could be checked.",
            )
        expected, bar = self.slopes(loss.x, self.directions)
        unsure = bar.max(initial=0)
        noisy = unsure > NOISY * max(np.abs(expected).max(initial=0), SMALL * loss.size)
        self.first_order(v, pushed, expected, bar, noisy)
        if noisy:  # the rest would only be more so
            return self.report
        if "vjp" in self.modes and v_near is not None and coincide(loss):
            self.nearby(v_near)
        if v is not None and set(self.modes) & set(SECOND_ORDER):
            self.second_order(v)
        if "vmap" in self.modes:
            self.vmap(FIRST * unsure)
        if v is not None:
            self.batched(expected, bar)
        return self.report

    def first_order(
        self,
        v: Vector | None,
        pushed: list[Vector] | None,
        expected: HostArray,
        bar: HostArray,
        noisy: bool,
    ) -> None:
        loss = self.loss
        dual = (
            self.attempt("forward_ad", lambda: [loss.push_dual(d.d) for d in self.directions])
            if "forward_ad" in self.modes
            else None
        )
        pairs = {
            "forward_ad": None if dual is None else [(dy, loss.y_bar) for dy in dual],
            "vjp": None if v is None else self.along(v),
            "jvp": None if pushed is None else [(dy, loss.y_bar) for dy in pushed],
        }
        compare = partial(self.compare, self.directions, expected, bar, loss.size)
        for mode, those in pairs.items():
            if those is not None:
                compare(mode, those)
        if v is not None and pushed is not None:
            backward = self.products(v, self.directions)
            again = self.products(loss.gradient(loss.x), self.directions)
            with quiet():
                repeated = REPEATED * np.abs(again - backward)
            against = self.directions, backward, repeated, loss.size
            self.compare(*against, "vjp against jvp", pairs["jvp"] or [])
        if noisy and self.report.ok:  # no mode passes unjudged
            mode = "vjp" if v is not None else "jvp"
            compare(mode, pairs[mode] or [], always=True)

    def batched(self, expected: HostArray, bar: HostArray) -> None:
        """Compare one pullback of several cotangents at once."""
        for mode in (mode for mode in BATCHED if mode in self.modes):
            batch = self.attempt(mode, partial(self.loss.pulled, mode, SCALES))
            for scale, g in zip(SCALES, batch or (), strict=batch is not None):
                scaled = scale * expected, abs(scale) * bar
                self.compare(self.directions, *scaled, self.loss.size, mode, self.along(g))

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

    def slopes(self, x: Vector, directions: list[Direction]) -> tuple[HostArray, HostArray]:
        """<L'(x), d> by differences, and their error bars."""
        found = np.array([self.loss.slope(d.d, x) for d in directions]).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def along(self, v: Vector) -> list[Pair]:
        return [d.along(v) for d in self.directions]

    def products(self, v: Vector, directions: list[Direction]) -> HostArray:
        of_args = self.loss.of_args
        return self.loss.inputs.total([of_args[d.argument].local(*d.along(v)) for d in directions])

    def inner(self, mode: str, i: int) -> Inner:
        """The inner product of the pairs of a mode: numbers of the whole, outputs, or the argument i."""
        if mode == "forward over forward":
            return Inner(self.loss.processes, [False])
        return self.loss.outputs if mode in FORWARD else self.loss.of_args[i]

    def compare(
        self,
        directions: list[Direction],
        expected: HostArray,
        bar: HostArray,
        size: Any,
        mode: str,
        pairs: list[Pair],
        always: bool = False,
    ) -> None:
        """Add one finding for each argument."""
        if mode not in self.modes and not always:
            return
        for finding in self.findings(directions, expected, bar, size, mode, pairs):
            self.add(finding)

    def findings(
        self,
        directions: list[Direction],
        expected: HostArray,
        bar: HostArray,
        size: Any,
        mode: str,
        pairs: list[Pair],
    ) -> Iterator[Finding]:
        for i, a in enumerate(self.loss.args):
            mine = [k for k, d in enumerate(directions) if d.argument == i]
            if mine:
                yield found(
                    mode,
                    f"argument {i}",
                    [directions[k].where for k in mine],
                    [pairs[k] for k in mine],
                    expected[mine],
                    bar[mine],
                    np.broadcast_to(size, len(pairs))[mine],
                    self.rtol,
                    None if mode in FORWARD else [a.value] if len(a.flat) == 1 else a.flat,
                    self.inner(mode, i),
                )

    def add(self, finding: Finding) -> None:
        self.report.findings.append(finding)

    def nearby(self, v: Vector) -> None:
        """The gradient v at a point whose entries are apart: it may be right only where they are
        equal. What cannot be judged there is no fault of the point.
        """
        every = full(self.loss)
        expected, bar = self.slopes(self.near, every)
        pairs = [d.along(v) for d in every]
        for finding in self.findings(every, expected, bar, self.loss.size, "vjp", pairs):
            if not finding.noisy:
                self.add(replace(finding, subject=finding.subject + NEAR))

    def second_order(self, v: Vector) -> None:
        loss = self.loss
        directions = [d for _, those in self.curves for d in those]
        size = np.concatenate([loss.of_args[d.argument].absolute([d.along(v)]) for d in directions])
        # where the first derivative vanishes, the second one has its rounding errors all the same
        size = np.maximum(size, ROUNDING * size.max(initial=0))
        ends = np.cumsum([len(those) for _, those in self.curves])[:-1]
        references = [
            derivative(partial(self.slopes_of_gradient, e, those), part)
            for (e, those), part in zip(self.curves, np.split(size, ends), strict=True)
        ]
        expected, bar = map(np.concatenate, zip(*references, strict=True))
        for mode in SECOND_ORDER:
            curved = self.attempt(mode, partial(self.curved, mode)) if mode in self.modes else None
            if curved is not None:
                self.compare(directions, expected, bar, size, mode, curved)

    def slopes_of_gradient(self, e: Vector, directions: list[Direction], t: float) -> HostArray:
        """<L'(x + t e), d>."""
        return self.products(self.loss.gradient(self.loss.moved(e, t)), directions)

    def curved(self, mode: str) -> list[Pair]:
        """Return for each e and d a pair (a, b) with <a, b> = L''[e, d]."""
        loss, one = self.loss, np.ones(())
        if mode == "forward over forward":
            return [([number(loss, e, d.d)], [one]) for e, those in self.curves for d in those]
        found = [(cotangent(mode, loss, e), those) for e, those in self.curves]
        return [d.along(g) for g, those in found for d in those]

    def gauge(self) -> None:
        """The values must belong to the problem, not to the eigenvectors that were chosen."""
        loss = self.loss
        y, again = (loss.outputs([(loss.values(loss.x), loss.y_bar)])[0] for _ in range(2))
        bar = max(GAUGE * loss.size, REPEATED * abs(again - y))
        for what, draws in GAUGES.items():
            for draw in draws:
                with other_gauge(draw, loss.transforms) as used:
                    values = loss.values(loss.x)
                seen = loss.outputs.any(used)
                if not seen and "gauge" in self.needed:
                    raise value_error(
                        "gradcheck in the mode 'gauge'",
                        "a function with eigenvectors",
                        "none seen",
                        HIDDEN,
                    )
                if not seen:
                    return
                finding = found(
                    "gauge",
                    "the values",
                    [""],
                    [(values, loss.y_bar)],
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
            w = [drawn(rng, y) / largest(y) for rng, y in zip(rngs, single, strict=True)]
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
