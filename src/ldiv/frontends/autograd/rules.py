"""A rule is one operation of autograd, `_applied`, whose results are one value, `Outputs`: so a pullback
sees all cotangents at once, and None stands for zero. autograd's cotangents are the conjugates of
ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import autograd.numpy as anp
from autograd.extend import (
    Box,
    VSpace,
    defjvp,
    defjvp_argnums,
    defvjp,
    defvjp_argnums,
    primitive,
    vspace,
)
from autograd.tracer import getval, isbox

from ldiv.core.arrays.shapes import conform, conj
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.owners.holder import Holder, Owner, holding, owner
from ldiv.core.rules.finite import derivative
from ldiv.core.rules.rule import Rule
from ldiv.frontends import numpy as plain
from ldiv.frontends.autograd.values import constant, plainly


class Outputs(tuple[Any, ...]):
    """The outputs of a rule, or their tangents or cotangents, where None is zero."""


class OutputsBox(Box):
    __slots__ = ()


class OutputsSpace(VSpace):
    def __init__(self, value: Outputs) -> None:
        self.count = len(value)

    def zeros(self) -> Outputs:
        return Outputs([None] * self.count)

    def _add(self, x: Outputs, y: Outputs) -> Outputs:
        pairs = zip(x, y, strict=True)
        return Outputs([b if a is None else a if b is None else a + b for a, b in pairs])

    _mut_add = _add


OutputsBox.register(Outputs)
OutputsSpace.register(Outputs)


@primitive
def _gathered(*parts: Any) -> Outputs:
    return Outputs(parts)


@primitive
def _part(outputs: Outputs, i: int) -> Any:
    return outputs[i]


@primitive
def _placed(x: Any, i: int, count: int) -> Outputs:
    return Outputs([x if j == i else None for j in range(count)])


def _part_or_zeros(outputs: Any, i: int, like: Any) -> Any:
    return vspace(like).zeros() if getval(outputs)[i] is None else _part(outputs, i)


def _gathered_vjp(argnums: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Any:
    return lambda g: tuple(_part_or_zeros(g, i, args[i]) for i in argnums)


def _gathered_jvp(argnums: Sequence[int], gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:
    tangents = dict(zip(argnums, gs, strict=True))
    return _gathered(*(tangents.get(i) for i in range(len(args))))


defvjp_argnums(_gathered, _gathered_vjp)
defjvp_argnums(_gathered, _gathered_jvp)
defvjp(_part, lambda ans, xs, i: lambda g: _placed(g, i, len(getval(xs))), argnums=(0,))
defjvp(_part, lambda g, ans, xs, i: _part_or_zeros(g, i, ans), argnums=(0,))
defvjp(_placed, lambda ans, x, i, count: lambda g: _part_or_zeros(g, i, x), argnums=(0,))
defjvp(_placed, lambda g, ans, x, i, count: _placed(g, i, count), argnums=(0,))


@primitive
def _applied(rule: Rule, keeper: Owner, *flat: Any) -> Outputs:
    with holding(keeper):
        return Outputs(plain.bind(rule, list(map(plainly, flat))))


def bind(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    keeper, rule = owner() or Holder(), rule.rescaled_for(flat)
    outputs = _applied(rule, keeper, *flat)
    given = getval(outputs)
    smooth = rule.traits.differentiable or (True,) * len(given)
    return tuple(
        _part(outputs, i) if isbox(outputs) and smooth[i] else constant(y)
        for i, y in enumerate(given)
    )


def _beside(arrays: Sequence[Any]) -> list[Any]:
    """Arrays of one front end: of this one if any of them is recorded, else of NumPy's."""
    if any(map(isbox, arrays)):
        return [x if x is None or isbox(x) else constant(x) for x in arrays]
    return [x if x is None else plainly(x) for x in arrays]


def _parts(outputs: Any) -> list[Any]:
    return [None if y is None else _part(outputs, i) for i, y in enumerate(getval(outputs))]


def _cotangents(argnums: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Any:
    rule, keeper, *flat = args

    def pull(g: Any) -> tuple[Any, ...]:
        given, out = _parts(g), _parts(ans)
        together = _beside([*flat, *out, *given])
        xs, rest = together[: len(flat)], together[len(flat) :]
        ys, bars = rest[: len(out)], [c if c is None else conj(c) for c in rest[len(out) :]]
        need = rebuild(rule.core, [i + 2 in argnums for i in range(len(flat))])
        with holding(keeper):
            found = leaves(
                derivative(rule, rule.vjp, need, tuple(bars), tuple(ys), *rebuild(rule.core, xs))
            )
        return tuple(
            vspace(flat[i - 2]).zeros()
            if (x_bar := found[i - 2]) is None
            else plainly(conj(conform(x_bar, xs[i - 2])))
            for i in argnums
        )

    return pull


def _tangents(argnums: Sequence[int], gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:
    rule, keeper, *flat = args
    given = dict(zip(argnums, gs, strict=True))
    out = _parts(ans)
    together = _beside([*flat, *out, *(given.get(i + 2) for i in range(len(flat)))])
    xs, rest = together[: len(flat)], together[len(flat) :]
    ys, moved = rest[: len(out)], rest[len(out) :]
    with holding(keeper):
        found = derivative(
            rule, rule.jvp, rebuild(rule.core, moved), tuple(ys), *rebuild(rule.core, xs)
        )
    smooth = rule.traits.differentiable or (True,) * len(out)
    return _gathered(
        *(
            plainly(anp.broadcast_to(t, y.shape)) if s and t is not None else None
            for t, y, s in zip(found, ys, smooth, strict=True)
        )
    )


defvjp_argnums(_applied, _cotangents)
defjvp_argnums(_applied, _tangents)
