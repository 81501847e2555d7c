"""Laws of a front end: it computes what the rule computes on NumPy arrays, and all its modes agree.

values, jvp and vjp are the rule's own;      the second derivative d^2 f[d, e] of a loss is the same by forward over forward,
forward over reverse, reverse over forward and reverse over reverse, and equals a difference of
NumPy's first derivatives; vmap over a leading axis is the stack of the results
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.checker.inner import inner
from ldiv.checker.loss import transforms
from ldiv.core.arrays.shapes import conform, conj, real
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, namespace
from ldiv.core.frameworks.transforms import Transforms
from ldiv.core.frameworks.trees import Tree, Trees, leaves, rebuild
from ldiv.core.rules.rule import Rule, bind
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, difference

Vector = list[Any]


def frontend_laws(name: str, rule: Rule, args: Trees, compiled: bool = True) -> None:
    """Check every law of one front end on one rule; `compiled` or not says how JAX takes it,
    torch is eager.
    """
    fw, draw = transforms(name), Draw(leaves(args)[0].dtype.name, 5)
    x, d, e = (
        [fw.array(leaf) for leaf in leaves(tree)]
        for tree in (args, draw.like(args), draw.like(args))
    )
    twice = [fw.array(np.stack([leaf, 1.5 * leaf])) for leaf in leaves(args)]
    out = bind(rule, *args)
    weights = [draw(*y.shape) if y.dtype.kind == "c" else draw(*y.shape).real for y in out]

    def apply(x: Vector) -> tuple[Any, ...]:
        return bind(rule, *rebuild(args, x))

    def loss(x: Vector) -> Any:
        """Re <w, y> + |y|^2 / 2, whose gradient in y is w + y."""
        return sum(_dot([fw.array(w) + y / 2], [y]) for w, y in zip(weights, apply(x), strict=True))

    def every_mode(x: Vector, d: Vector, e: Vector, twice: Vector) -> tuple[Any, ...]:
        return (
            apply(x),
            fw.gradient(loss, x),
            fw.jvp(loss, (x,), (d,))[1],
            _second(fw, loss, x, d, e),
            fw.vmap(apply)(twice),
        )

    def reference(flat: Tree) -> Tree:
        """The gradient of the loss by NumPy and the rule's own vjp."""
        now = rebuild(args, list(flat))
        y = bind(rule, *now)
        bars = tuple(w + v for w, v in zip(weights, y, strict=True))
        expected_got = leaves(rule.vjp(rebuild(args, [True for _ in flat]), bars, y, *now))
        return tuple(conform(g, leaf) for g, leaf in zip(expected_got, flat, strict=True))

    values, gradient, tangent, second, vmapped = (
        # JAX compiles operation by operation what is not compiled as a whole: at five times the
        # cost, where nothing is run twice
        frontend_of(x[0]).user.compiled(every_mode, x, d, e, twice)
        if compiled
        else every_mode(x, d, e, twice)
    )
    flat = tuple(leaves(args))
    d_np, e_np = (tuple(asnumpy(leaf) for leaf in t) for t in (d, e))
    first = reference(flat)
    stretched = bind(rule, *rebuild(args, [1.5 * leaf for leaf in flat]))
    for ours, theirs in zip(values, out, strict=True):
        assert_close(f"{name}: values", asnumpy(ours), theirs)
    for ours, theirs in zip(gradient, first, strict=True):
        assert_close(f"{name}: gradient", asnumpy(ours), theirs, 1e-11)
    assert_close(f"{name}: tangent", asnumpy(tangent), inner(first, d_np), 1e-11)
    expected = difference(lambda z: np.array(inner(reference(z), d_np)), flat, e_np)
    for mode, value in second.items():
        assert_close(f"{name}: second derivative, {mode}", asnumpy(value), expected, 1e-8)
    for y, one, two in zip(vmapped, out, stretched, strict=True):
        assert_close(f"{name}: vmap", asnumpy(y), np.stack([one, two]), 1e-11)


def _dot(a: Vector, b: Vector) -> Any:
    return sum(namespace(v).sum(real(conj(u) * v)) for u, v in zip(a, b, strict=True))


def _second(
    fw: Transforms, loss: Callable[[Vector], Any], x: Vector, d: Vector, e: Vector
) -> dict[str, Any]:
    def tangent(x: Vector) -> Any:
        return fw.jvp(loss, (x,), (d,))[1]

    def slope(x: Vector) -> Any:
        return _dot(fw.gradient(loss, x), d)

    return {
        "forward over forward": fw.jvp(tangent, (x,), (e,))[1],
        "forward over reverse": fw.jvp(slope, (x,), (e,))[1],
        "reverse over forward": _dot(fw.gradient(tangent, x), e),
        "reverse over reverse": _dot(fw.gradient(slope, x), e),
    }
