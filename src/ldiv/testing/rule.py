"""Laws of a rule on arguments x, with tangents t and cotangents y_bar.

gradcheck finds nothing: jvp(t) = d kernel(x)[t];      <y_bar, jvp(t)> = <vjp(y_bar), t>;      what is not needed is None, None is zero;
a leading axis on an argument is a batch: kernel(stack(x)) = stack(kernel(x))
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from ldiv.checker.findings import Report
from ldiv.checker.gradcheck import gradcheck
from ldiv.checker.inner import inner
from ldiv.core.arrays.shapes import broadcast
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.trees import Arrays, Trees, leaves, rebuild
from ldiv.core.rules.rule import Rule, bind
from ldiv.matrices.matrix import Matrix
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, difference


def rule_laws(rule: Rule, args: Trees) -> None:
    """Check every law on one rule and its arguments, NumPy arrays."""
    draw = Draw(leaves(args)[0].dtype.name, 3)
    out = bind(rule, *args)
    tangents = draw.like(args)
    moved = rule.jvp(tangents, out, *args)
    report = _checked(rule, args)
    assert not report.failures, str(report)
    # a promise of symmetry, inside an argument, lets it move no further than rounding
    if report.noisy:
        for i, dy in enumerate(moved):
            assert_close(
                "jvp is the derivative of the kernel",
                dy,
                difference(partial(lambda i, x: bind(rule, *x)[i], i), args, tangents),
                1e-8,
            )
    bars = tuple(draw(*y.shape) if y.dtype.kind == "c" else draw(*y.shape).real for y in out)
    _adjoint(rule, args, out, tangents, moved, bars)
    _none(rule, args, out, bars)
    _batch(rule, args, out, tangents)
    twin = replace(cast(Any, rule))
    assert (hash(twin), twin) == (hash(rule), rule), "a rule is hashed and compared by its content"


def _checked(rule: Rule, args: Any) -> Report:
    """Check that the promises of a structure are kept, if the first argument of a rule has one."""
    structure = getattr(rule, "structure", None)
    whole = args if structure is None else (Matrix(structure, args[0]), *args[1:])

    def apply(*given: Any) -> Arrays:
        params = given if structure is None else (given[0].params, *given[1:])
        return bind(rule, *rebuild(args, leaves(params)))

    flat = [x for a in whole for x in (leaves(a) if isinstance(a, tuple) else [a])]
    return gradcheck(apply, *flat, modes=("vjp", "jvp"), raise_exception=False)


def _adjoint(rule: Rule, args: Any, out: Any, tangents: Any, moved: Any, bars: Any) -> None:
    every = rebuild(args, [True for _ in leaves(args)])
    cotangents = rule.vjp(every, bars, out, *args)
    total = sum(
        inner(_summed(g, x), t)
        for g, x, t in zip(leaves(cotangents), leaves(args), leaves(tangents), strict=True)
    )
    assert_close("<y_bar, jvp(t)> = <vjp(y_bar), t>", total, inner(bars, moved), 1e-11)


def _summed(g: Array, x: Array) -> Array:
    """Sum over the axes that were broadcast, as a front end does."""
    return namespace(g).sum(g, axis=tuple(range(g.ndim - x.ndim)))


def _none(rule: Rule, args: Any, out: Any, bars: Any) -> None:
    flat = leaves(args)
    for i in range(len(flat)):
        need = rebuild(args, [i == j for j in range(len(flat))])
        expected_got = leaves(rule.vjp(need, bars, out, *args))
        assert [g is not None for g in expected_got] == [i == j for j in range(len(flat))], (
            "only what is needed is computed"
        )
        one = rebuild(args, [np.ones_like(x) if i == j else None for j, x in enumerate(flat)])
        zeros = rebuild(
            args, [np.ones_like(x) if i == j else np.zeros_like(x) for j, x in enumerate(flat)]
        )
        for a, b in zip(rule.jvp(one, out, *args), rule.jvp(zeros, out, *args), strict=True):
            assert_close("the tangent None is zero", a, b)


def _batch(rule: Rule, args: Any, out: Any, tangents: Any) -> None:
    cores, flat, moving = leaves(rule.core), leaves(args), leaves(tangents)
    depth = max(x.ndim - c for x, c in zip(flat, cores, strict=True))

    def stack(x: Array, second: Array, core: int) -> Array:
        return np.stack([x, second]).reshape(2, *(1,) * (depth - x.ndim + core), *x.shape)

    for some in (
        [True] * len(flat),
        [True] + [False] * (len(flat) - 1),
        [False] * (len(flat) - 1) + [True],
    ):
        given = list(zip(some, flat, moving, cores, strict=True))
        stacked = rebuild(args, [stack(x, x * 1.5, c) if s else x for s, x, _, c in given])
        scaled = rebuild(args, [x * 1.5 if s else x for s, x, _, _ in given])
        along = rebuild(args, [stack(t, t * 0.5, c) if s else t for s, _, t, c in given])
        slower = rebuild(args, [t * 0.5 if s else t for s, _, t, _ in given])
        together, other = bind(rule, *stacked), bind(rule, *scaled)
        for y, one, two in zip(together, out, other, strict=True):
            assert_close("a leading axis is a batch", y, np.stack([one, two]), 1e-11)
        moved = rule.jvp(along, together, *stacked)
        alone = (rule.jvp(tangents, out, *args), rule.jvp(slower, other, *scaled))
        for dy, one, two in zip(moved, *alone, strict=True):
            if dy is not None and one is not None and two is not None:
                expected = np.stack([one, two])
                found = np.broadcast_to(dy, broadcast(dy.shape, expected.shape))
                assert_close("its tangents are those of each", found, expected, 1e-10)
