"""y = t^-b f(t^a x): a rule in the middle of the range of its dtype, whatever the units of x.

Derivatives square the divisors of a rule, and a square leaves the range of the dtype long before the
number does. So a rule declares the units of its results, and the arguments that choose them. It is
computed in units that bring those arguments near 1, and so are its derivatives, in every mode and
order, from results in these units. A power of two rounds nothing: the results are equal, to the last
bit, to those in other units.
If the numbers are known, and in the middle already, the rule is applied as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, common_batch
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace, numbers, traced
from ldiv.core.frameworks.looks import stays_on_device
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves, rebuild
from ldiv.core.owners.holder import record_alias
from ldiv.core.rules.compiled import CompiledCall, computed
from ldiv.core.rules.finite import all_finite, not_finite, total
from ldiv.core.rules.rule import Rule, Traits, Unit, Wrapper, around, bind, name_of
from ldiv.core.rules.structure import plus
from ldiv.core.rules.units import chosen, in_units, magnitude, middle
from ldiv.errors import overflowed

Powers = list[tuple[Array, int]]
Change = Callable[[Array, int, Powers], Array]


class Rescaled(Rule):
    """A rule that is computed in other units if its arguments are near an end of the range of their
    dtype.

    At least one of its `units` is chosen by some of its arguments.
    """

    # for each output: is it used by derivatives alone, so that its units do not matter?
    auxiliary: tuple[bool, ...] | None = None

    def measured(self, unit: Unit, flat: Sequence[Array]) -> list[tuple[Array, int]]:
        """Return the arguments whose sizes choose a unit, each with the number of its own axes."""
        return [(flat[i], self.cores[i]) for i in unit.by]

    def rescaled_for(self, flat: Sequence[Array]) -> Rule:
        for unit in self.units:
            for x, core in self.measured(unit, flat) if unit.by else ():
                if not _is_in_middle(x, core):
                    return InUnits(self, policy=self.policy)
        return self


def _spread(t: Array, batch: tuple[int, ...]) -> Array:
    """t for every member of a batch."""
    return t if t.shape == batch else t + namespace(t).zeros(batch, **alike(t))


def _is_in_middle(x: Array, core: int) -> bool:
    """True if the largest numbers of all members are known, and in the middle of the range."""
    if (values := x if type(x) is np.ndarray else numbers(x)) is None:
        return False
    low, high = middle(values.dtype)
    if values.ndim == core and low * low < total(values) < high * high:
        return True
    size = magnitude(values, tuple(range(-core, 0)))
    # the kernel refuses numbers that are not finite
    return bool(((size == 0) | ((size >= low) & (size <= high)) | ~np.isfinite(size)).all())


@dataclass(frozen=True)
class InUnits(Wrapper):
    """Outputs: those of `rule`; then, as its kernel found them, those of them that have a unit;
    then the units t (*batch,).
    """

    rule: Rescaled

    @cached_property
    def traits(self) -> Traits:
        smooth = self.rule.traits.differentiable or (True,) * len(self._gives)
        kept = [smooth[j] for j in self._kept]
        return replace(
            around(self.rule), differentiable=(*smooth, *kept, *(False for _ in self._units))
        )

    def program(self, *flat: Any) -> CompiledCall | None:
        found = vars(type(self.rule)).get("program_in_units")
        return found and found(self.rule, *flat)

    def pullback(self, *of: Any) -> CompiledCall | None:
        found = vars(type(self.rule)).get("pullback_in_units")
        return found and found(self.rule, *of)

    def kernel(self, *args: Tree) -> Arrays:
        flat, ts = leaves(args), []
        for unit in self._units:
            xs, cores = zip(*self.rule.measured(unit, flat), strict=True)
            t, size = chosen(xs, cores)
            ts.append(t)
            # LAPACK prints messages about NaN, and errors are raised after the computation: members that
            # are not finite become zeros here
            if traced(size) or stays_on_device(size):
                flat = _finite_or_zero(unit, self.cores, flat, size)
        given = self._inside(flat, ts, in_units)
        for x, other in zip(given, leaves(args), strict=True):
            record_alias(x, other)
            if x is not other:  # the kernel would call it NaN or infinity of the user's
                fits = all_finite(x) | (all_finite(other) ^ True)
                check_or_raise(fits, partial(overflowed, name_of(self)))
        found = self._inner(given)
        out: list[Any] = self._outside(found, found, ts, args, in_units)
        for y in out:
            check_or_raise(all_finite(y), partial(overflowed, name_of(self)))
        batch = common_batch(self.core, args)  # all outputs have the batch axes of all arguments
        return (*out, *(found[j] for j in self._kept), *(_spread(t, batch) for t in ts))

    def _inner(self, given: list[Any]) -> tuple[Any, ...]:
        """Return the outputs in these units, by the compiled operation if it accepts them."""
        if {*map(type, given)} == {np.ndarray} and (made := computed(self.rule.compiled, given)):
            return made[0]
        return self.rule.kernel(*rebuild(self.core, given))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        found, ts = self._found(out)
        x, dx = (self._inside(leaves(tree), ts, self._checked) for tree in (args, tangents))
        for here, other in zip(x, leaves(args), strict=True):
            record_alias(here, other)
        moved = self.rule.jvp(rebuild(self.core, dx), found, *rebuild(self.core, x))
        dy = self._outside(moved, found, ts, args, self._checked)
        return (*dy, *(moved[j] for j in self._kept), *(None for _ in ts))

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        first: Any = out[0]
        if (
            first is None
        ):  # the rule is transposed: the vjp needs no outputs, and finds its own units
            count = len(self._gives)
            return self.rule.vjp(need, cotangents[:count], out[:count], *args)
        found, ts = self._found(out)
        count = len(found)
        bars = self._outside(cotangents[:count], found, ts, args, self._checked)
        for j, bar in zip(self._kept, cotangents[count:], strict=False):
            bars[j] = plus(bars[j], bar)
        x = self._inside(leaves(args), ts, self._checked)
        for here, other in zip(x, leaves(args), strict=True):
            record_alias(here, other)
        x_bar = self.rule.vjp(need, tuple(bars), found, *rebuild(self.core, x))
        return rebuild(self.core, self._inside(leaves(x_bar), ts, self._checked))

    # -- which numbers have which units -------------------------------------------

    @cached_property
    def _units(self) -> list[Unit]:
        return [unit for unit in self.rule.units if unit.by]

    @cached_property
    def _gives(self) -> list[list[int]]:
        """Return the powers of all units t for each output; zeros for outputs that are used by
        derivatives alone.
        """
        serving = self.rule.auxiliary or (False,) * len(self._units[0].gives)
        every = zip(*(unit.gives for unit in self._units), strict=True)
        return [
            [0 if serves else power for power in powers]
            for powers, serves in zip(every, serving, strict=True)
        ]

    @cached_property
    def _kept(self) -> list[int]:
        """Return the positions of the outputs that are needed in both units."""
        return [j for j, powers in enumerate(self._gives) if any(powers)]

    def _found(self, out: Sequence[Array]) -> tuple[Arrays, Sequence[Array]]:
        """The outputs as the kernel found them, and the units."""
        count, kept = len(self._gives), len(self._kept)
        found = list(out[:count])
        for j, y in zip(self._kept, out[count:], strict=False):
            found[j] = y
        return tuple(found), out[count + kept :]

    def _inside(
        self, flat: Sequence[Array | None], ts: Sequence[Array], change: Change
    ) -> list[Array | None]:
        """Convert arguments, their tangents or their cotangents from one unit to the other."""
        every = zip(*(unit.of for unit in self._units), strict=True)
        return [
            x if x is None or not any(powers) else change(x, own, _nonzero(ts, powers))
            for x, own, powers in zip(flat, self.cores, every, strict=True)
        ]

    def _outside(
        self,
        ys: Sequence[Array | None],
        like: Sequence[Array],
        ts: Sequence[Array],
        args: Tree,
        change: Change,
    ) -> list[Array | None]:
        """Convert outputs, their tangents or their cotangents from one unit to the other."""
        batch = len(common_batch(self.core, args))
        return [
            y
            if y is None or not any(powers)
            else change(y, whole.ndim - batch, _nonzero(ts, [-power for power in powers]))
            for y, whole, powers in zip(ys, like, self._gives, strict=True)
        ]

    def _checked(self, x: Array, own: int, powers: Powers) -> Array:
        """`in_units`, for a derivative, which raises if it overflows; not in a trace."""
        return changed(f"the derivative of {name_of(self)}", x, own, powers)


def changed(name: str, x: Array, own: int, powers: Powers) -> Array:
    """`in_units`, for results, which raises if they overflow; not in a trace."""
    if type(x) is np.ndarray or traced(x):
        return in_units(x, own, powers)
    rule = ChangeOfUnits(name, own, tuple(power for _, power in powers))
    return bind(rule, x, *(t for t, _ in powers))[0]


@dataclass(frozen=True)
class ChangeOfUnits(Rule):
    """Arguments x (*batch, ...), and units t (*batch,); output x times the product of t^power."""

    name: str
    own: int  # axes of x
    powers: tuple[int, ...]

    @property
    def core(self) -> Trees:
        return (self.own, *(0 for _ in self.powers))

    @cached_property
    def traits(self) -> Traits:
        return Traits(name=self.name, on_host=True, only_refuses=True)

    def kernel(self, x: Array, *ts: Array) -> Arrays:
        return (in_units(x, self.own, list(zip(ts, self.powers, strict=True))),)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        return (None if tangents[0] is None else bind(self, tangents[0], *args[1:])[0],)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        if not need[0]:
            return (None,) * len(args)
        return bind(self, cotangents[0], *args[1:])[0], *(None for _ in self.powers)


def _nonzero(ts: Sequence[Array], powers: Sequence[int]) -> Powers:
    return [(t, power) for t, power in zip(ts, powers, strict=True) if power]


def _finite_or_zero(
    unit: Unit, cores: Sequence[int], flat: Sequence[Array], size: Array
) -> list[Array]:
    """The arguments in a trace, with zeros for members that are not finite, and an error for these."""
    finite = namespace(size).isfinite(size)
    check_or_raise(finite.all(), partial(not_finite, unit.name))
    return [
        namespace(x).where(finite[(..., *(None,) * own)], x, namespace(x).zeros_like(x))
        if i in unit.by
        else x
        for i, (x, own) in enumerate(zip(flat, cores, strict=True))
    ]
