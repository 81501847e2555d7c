"""Laws of units: f(t^of x) = t^gives f(x), with derivatives, wherever numbers are normal.

dy of t^of dx is t^gives dy;      x_bar of t^-gives y_bar is t^-of x_bar;
the second derivatives, tangents of both, scale alike.
All these laws hold to the last bit where t is a power of two (but for terms of a sum that are too
small to be normal), or not at all. Then an error says that a result, or what it is made of, is out
of range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ldiv.checker.loss import transforms
from ldiv.core.arrays.shapes import conform
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of
from ldiv.core.frameworks.trees import Tree, Trees, leaves, rebuild
from ldiv.core.rules.rule import Rule, Unit, bind
from ldiv.errors import LinAlgOverflowError
from ldiv.testing.cases import Draw

Flat = list[Any]
Powers = list[float]
BELOW_NORMAL = 4  # roundings of terms that are too small for all their digits


def scale_laws(
    rule: Rule, args: Trees, unit: Unit, power: int, name: str = "numpy", rtol: float = 0
) -> str:
    """Check the law of one unit of a rule for t^2 = 2^power, with one front end: "right", or
    "refused" where numbers do not fit.

    `rtol`: how far two results may be apart, relative to the largest; 0 for the same bits. Results
    are apart where an engine rounds differently in other units, or where the power is odd, so that
    roots of two round.
    """
    draw = Draw(leaves(args)[0].dtype.name, 11)
    d, e = draw.like(args), draw.like(args)
    flat, d, e = leaves(args), leaves(d), leaves(e)
    bars = [draw.like(y) for y in bind(rule, *args)]
    of = [power / 2 * p for p in unit.of]
    gives = [power / 2 * p for p in unit.gives]
    # arrays, as their multiples will be: a number of NumPy's is multiplied otherwise
    flat, d, e, bars = given = tuple([np.asarray(x) for x in xs] for xs in (flat, d, e, bars))
    scaled = tuple(map(_scaled, given, (of, of, of, [-p for p in gives])))
    normal = [all(map(_is_normal, *pair)) for pair in zip(given, scaled, strict=True)]
    if not normal[0]:
        return "out of range"
    here = _results(name, rule, args, *given)
    there = _results(name, rule, args, *scaled)
    adds = unit.adds or (0,) * len(gives)
    logs = [power / 2 * p * np.log(2) for p in adds]
    outcome, fits = "right", True
    for (law, ys), (_, found) in zip(here, there, strict=False):
        pulled, twice = law.startswith("cotangents"), "tangents of" in law or "their" in law
        if not normal[3 if pulled else 1] or (twice and not normal[2]):
            continue
        powers = [-p for p in of] if pulled else gives
        if isinstance(ys, Exception):
            raise AssertionError(f"{law}: {ys}")
        expected = _scaled(ys, powers)
        if law == "values":
            expected = [y + log for y, log in zip(expected, logs, strict=True)]
        fits = all(map(_is_normal, ys, expected)) and (law == "values" or fits)
        if isinstance(found, LinAlgOverflowError):
            assert not fits, f"{law}: an overflow, of what fits: {found}"
            outcome = "refused"
            break
        if isinstance(found, Exception):
            raise AssertionError(f"{law}: {type(found).__name__}: {found}")
        if not fits:
            outcome = "out of range"
            continue
        for y, z, log in zip(
            found, expected, logs if law == "values" else [0] * len(ys), strict=True
        ):
            rounded = 4096 * float(np.finfo(np.asarray(y).dtype).eps) if log else 0.0
            _assert_same(law, y, z, max(rtol, rounded))
    return outcome


def _results(
    name: str, rule: Rule, args: Tree, flat: Flat, d: Flat, e: Flat, bars: Flat
) -> Iterator[tuple[str, Any]]:
    """Values, tangents and cotangents, and the tangents of these, each when it is asked for."""
    find = _by_rule if name == "numpy" else _by_frontend
    yield from find(name, rule, args, flat, d, e, bars)


def _by_rule(
    name: str, rule: Rule, args: Tree, flat: Flat, d: Flat, e: Flat, bars: Flat
) -> Iterator[tuple[str, Any]]:
    def values() -> Any:
        return bind(rule, *rebuild(args, flat))

    yield "values", _tried(values)
    applied = rule.rescaled_for(flat)
    out = frontend_of(*flat).bind(applied, flat)
    count = len(bars)

    def tangents() -> Any:
        moved = applied.jvp(rebuild(args, d), out, *rebuild(args, flat))[:count]
        return [np.zeros_like(y) if dy is None else dy for y, dy in zip(out, moved, strict=False)]

    def cotangents() -> Any:
        need = rebuild(args, [True for _ in flat])
        given = (*bars, *(None for _ in out[count:]))
        found = leaves(applied.vjp(need, given, out, *rebuild(args, flat)))
        return [conform(g, x) for g, x in zip(found, flat, strict=True)]

    yield "tangents", _tried(tangents)
    yield "cotangents", _tried(cotangents)


def _by_frontend(
    name: str, rule: Rule, args: Tree, flat: Flat, d: Flat, e: Flat, bars: Flat
) -> Iterator[tuple[str, Any]]:
    fw = transforms(name)
    x, d, e, w = ([fw.array(v) for v in vs] for vs in (flat, d, e, bars))

    def apply(x: Flat) -> Any:
        return list(bind(rule, *rebuild(args, x)))

    def loss(x: Flat) -> Any:
        return sum((u.conj() * y).real.sum() for u, y in zip(w, apply(x), strict=True))

    def along(x: Flat) -> Any:
        return fw.jvp(apply, (x,), (d,))[1]

    def gradient(x: Flat) -> Any:
        return fw.gradient(loss, x)

    found: dict[str, Callable[[], Any]] = {
        "values": lambda: apply(x),
        "tangents": lambda: along(x),
        "cotangents": lambda: gradient(x),
        "tangents of tangents": lambda: fw.jvp(along, (x,), (e,))[1],
        "cotangents, their tangents": lambda: fw.jvp(gradient, (x,), (e,))[1],
    }
    for law, f in found.items():
        yield law, _tried(partial(_numbers, f))


def _numbers(f: Callable[[], Any]) -> Flat:
    found = [asnumpy(y) for y in f()]
    # JAX's tangents of integers have a dtype of their own, without values
    return [np.zeros(y.shape) if y.dtype.kind == "V" else y for y in found]


def _tried(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as error:
        return error


def _scaled(ys: Any, powers: Powers) -> Flat:
    """2^power y, in two steps, of which none overflows if the result does not."""
    with np.errstate(over="ignore", under="ignore"):
        return [_times(np.asarray(y), p) for y, p in zip(ys, powers, strict=True)]


def _times(y: Any, power: float) -> Any:
    y = y.astype(float) if y.dtype.kind in "iu" else y  # whole numbers, which have no units
    whole = int(power // 1)
    first, second = whole // 2, whole - whole // 2
    one = y.real.dtype.type(1)
    y = y * np.ldexp(one, first) * np.ldexp(one, second)
    return np.asarray(y if power == whole else y * np.sqrt(2 * one))


def _is_normal(x: Any, y: Any) -> bool:
    """Whether all nonzero numbers of y, which is x in other units, are normal."""
    parts = [(x.real, y.real), (x.imag, y.imag)] if np.iscomplexobj(y) else [(x, y)]
    return all(
        bool((np.isfinite(b) & ((np.abs(b) >= np.finfo(b.dtype).tiny) | (a == 0))).all())
        for a, b in parts
    )


def _assert_same(law: str, found: Any, expected: Any, rtol: float) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if not rtol and np.array_equal(found, expected):
        return
    numbers = np.finfo(np.result_type(found, np.float32))  # `expected` may be wider
    size = np.abs(expected).max(initial=numbers.tiny)
    off = np.abs(found / size - expected / size).max(initial=0.0)
    # a sum may be normal of which a term is not, and each of those is rounded; what counts in the last
    # digits of the sum may turn their rounding
    allowed = rtol + BELOW_NORMAL * float(numbers.smallest_subnormal / size)
    if size < numbers.tiny / numbers.eps:
        allowed += BELOW_NORMAL * float(numbers.eps)
    assert off <= allowed, f"{law}: off by {off:.1e} of the largest, allowed {allowed:.1e}"
