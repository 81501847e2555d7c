"""The pattern of a Jacobian: index sets are propagated through the program of its tangent map.

The tangent map dx -> J dx is linear, whatever f is, so few primitives meet a tangent, and rules of
users (custom_jvp), stop_gradient and rounding act as their derivatives. A value that depends on x but
not on dx is taken to be nonzero: the sets are right at every x. `rules` maps sets through primitives;
primitives that run programs are here:

    control flow       called programs; loops until their sets are stable; all branches
    ours               rules and their tangent maps

A primitive that is in neither table raises Untraceable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.extend.core import Literal

from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.pushforward import OnlyReverse
from ldiv.frontends.index_sets import Sets, Untraceable, each, of_rule, summed, united
from ldiv.frontends.jax.graph import tangent_primitive
from ldiv.frontends.jax.patterns.rules import ACROSS_DEVICES, RULES, Cell, all_of_all, shapes_of
from ldiv.frontends.jax.patterns.windows import WINDOWS
from ldiv.frontends.jax.private import scan_counts
from ldiv.frontends.jax.user.transforms import jvp, vjp
from ldiv.frontends.jax.values import traced

UNROLLED = 2000  # operations of a loop whose steps are followed one by one
STEPS = 100  # of any other loop, until its sets are stable


def dependence(f: Callable[[jax.Array], jax.Array], x: Any) -> Sets | None:
    """A superset of the pattern of the Jacobian of f, for all x; None where it cannot be found."""
    x = jax.ShapeDtypeStruct(x.shape, x.dtype)
    try:
        return _followed(lambda x, dx: jvp(f, (x,), (dx,))[1], x, x)
    except OnlyReverse:
        sets = _followed(lambda x, u: vjp(f, (x,))[1](u)[0], x, jax.eval_shape(f, x))
        return None if sets is None else sp.csr_array(sets.T)


def _followed(
    linear: Callable[[jax.Array, jax.Array], jax.Array], x: Any, along: Any
) -> Sets | None:
    """The sets of a function of x that is linear in its second argument."""
    program = jax.make_jaxpr(linear)(x, along)
    start = [*map(_known, program.consts), Cell(), Cell(each(along.shape[0]))]
    try:
        with jax.ensure_compile_time_eval():  # numbers, also where f is part of what is traced
            (y,) = _run(program.jaxpr, start)
    except Untraceable:
        return None
    return _empty(program.out_avals[0].shape, along.shape[0]) if y.sets is None else y.sets


def _known(x: Any) -> Cell:
    """A constant, unless f closes over what is traced."""
    return Cell() if traced(x) else Cell(None, lambda: x)


def _empty(shape: tuple[int, ...], n: int) -> Sets:
    return sp.csr_array((math.prod(shape), n), dtype=bool)


def _run(jaxpr: Any, cells: Sequence[Cell]) -> list[Cell]:
    """The cells of the results, of those of the constants and arguments."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], cells, strict=True))

    def read(atom: Any) -> Cell:
        return _known(atom.val) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        env.update(zip(eqn.outvars, _results(eqn, ins), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _results(eqn: Any, ins: list[Cell]) -> list[Cell]:
    if all(c.sets is None for c in ins):
        return (
            _known_results(eqn, ins) if all(c.value for c in ins) else [Cell() for _ in eqn.outvars]
        )
    if (rule := _TABLE.get(eqn.primitive.name)) is None:
        raise Untraceable(eqn.primitive.name)
    found = rule(eqn, ins)
    return [c if c.sets is None or c.sets.nnz else Cell() for c in found]


def _known_results(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """Numbers that do not depend on x are computed once somebody asks for them."""
    if eqn.primitive.name in _CALLED:
        return _called(eqn, ins)
    if eqn.primitive.name in ACROSS_DEVICES:  # a copy; the sum is known inside of shard_map alone
        return ins if eqn.primitive.name == "pvary" else [Cell() for _ in ins]

    @cache
    def values() -> Any:
        y = eqn.primitive.bind(*(c.value() for c in ins if c.value), **eqn.params)
        return y if eqn.primitive.multiple_results else [y]

    return [Cell(None, partial(_one_of, values, i)) for i, _ in enumerate(eqn.outvars)]


def _one_of(values: Callable[[], Any], i: int) -> Any:
    return values()[i]


# -- control flow -------------------------------------------------------------


def _called(eqn: Any, ins: list[Cell]) -> list[Cell]:
    return _of_closed(_inner(eqn), ins)


def _inner(eqn: Any) -> Any:
    return eqn.params["call_jaxpr" if "call_jaxpr" in eqn.params else "jaxpr"]


def _opened(program: Any) -> tuple[Any, Sequence[Any]]:
    """A program and its constants; an open one has none."""
    return getattr(program, "jaxpr", program), getattr(program, "consts", [])


def _of_closed(program: Any, ins: Sequence[Cell]) -> list[Cell]:
    jaxpr, consts = _opened(program)
    return _run(jaxpr, [*map(_known, consts), *ins])


def _branched(eqn: Any, ins: list[Cell]) -> list[Cell]:
    which, *args = ins
    branches = eqn.params["branches"]
    if which.value:
        index = int(np.clip(which.value(), 0, len(branches) - 1))
        return _of_closed(branches[index], args)
    every = [_of_closed(branch, args) for branch in branches]
    return [_either(cells) for cells in zip(*every, strict=True)]


def _either(cells: Sequence[Cell]) -> Cell:
    some = [c.sets for c in cells if c.sets is not None]
    return Cell(united(some)) if some else Cell()


def _until_stable(step: Callable[[list[Cell]], list[Cell]], carry: list[Cell]) -> list[Cell]:
    """Grow the sets of the carries of a loop until one more step adds nothing."""
    carry = [Cell(c.sets) for c in carry]
    for _ in range(STEPS):
        new = [_either(pair) for pair in zip(carry, step(carry), strict=True)]
        if all(_count(a) == _count(b) for a, b in zip(carry, new, strict=True)):
            return carry
        carry = new
    raise Untraceable("a loop whose sets grow for long")


def _count(c: Cell) -> int:
    return 0 if c.sets is None else int(c.sets.nnz)


def _while(eqn: Any, ins: list[Cell]) -> list[Cell]:
    params = eqn.params
    start, end = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    consts, carry = ins[start:end], ins[end:]
    body = params["body_jaxpr"]
    return _until_stable(lambda carry: _of_closed(body, [*consts, *carry]), carry)


def _scanned(eqn: Any, ins: list[Cell]) -> list[Cell]:
    params, body = eqn.params, eqn.params["jaxpr"]
    length, (constant, carried) = params["length"], scan_counts(params)
    consts = ins[:constant]
    carry = ins[constant : constant + carried]
    xs = ins[constant + carried :]
    shapes = shapes_of(eqn.invars)[constant + carried :]
    if length * len(body.jaxpr.eqns) > UNROLLED:
        xs = [
            Cell(None if c.sets is None else summed(c.sets, s, (0,)))
            for c, s in zip(xs, shapes, strict=True)
        ]
        carry = _until_stable(lambda c: _of_closed(body, [*consts, *c, *xs])[:carried], carry)
        ys = _of_closed(body, [*consts, *carry, *xs])[carried:]
        return [*carry, *(_stacked([y] * length, v) for y, v in zip(ys, _outs(eqn), strict=True))]
    found: list[list[Cell]] = [[]] * length
    for t in range(length)[:: -1 if params["reverse"] else 1]:
        now = [_at(c, t, math.prod(s[1:])) for c, s in zip(xs, shapes, strict=True)]
        out = _of_closed(body, [*consts, *carry, *now])
        carry, found[t] = out[:carried], out[carried:]
    ys = [_stacked([y[i] for y in found], v) for i, v in enumerate(_outs(eqn))]
    return [*(Cell(c.sets) for c in carry), *ys]


def _outs(eqn: Any) -> list[Any]:
    return list(eqn.outvars[scan_counts(eqn.params)[1] :])


def _at(c: Cell, t: int, size: int) -> Cell:
    """Step t of what a loop goes through."""
    if c.value:
        return Cell(None, partial(lambda c: c.value()[t], c))
    return c if c.sets is None else Cell(c.sets[t * size : (t + 1) * size])


def _stacked(steps: Sequence[Cell], var: Any) -> Cell:
    if all(c.sets is None for c in steps):
        return Cell()
    shape = var.aval.shape
    n = next(c.sets.shape[1] for c in steps if c.sets is not None)
    rows = [_empty(shape[1:], n) if c.sets is None else c.sets for c in steps]
    return Cell(sp.vstack(rows, format="csr"))


# -- ours ---------------------------------------------------------------------


def _ours(eqn: Any, ins: list[Cell]) -> list[Cell]:
    rule, with_factors = eqn.params["rule"], eqn.params["with_factors"]
    count = len(leaves(rule.core))  # behind the arguments of the rule come factors
    if any(c.sets is not None for c in ins[count:]):
        return all_of_all(eqn, ins)
    if with_factors:
        raise Untraceable("a rule that hands on its factors")
    parts, shapes = [c.sets for c in ins[:count]], shapes_of(eqn.invars)[:count]
    return [Cell(sets) for sets in of_rule(rule, shapes, parts, shapes_of(eqn.outvars))]


def _our_tangent(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """The rules that the tangent map is made of."""
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    program = jax.make_jaxpr(partial(tangent_primitive.tangent, **eqn.params))(*specs)
    return _of_closed(program, ins)


def _only_reverse(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """The tangent map of a custom_vjp, which has none."""
    raise OnlyReverse


_CALLED = [
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "checkpoint",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
]
_TABLE: dict[str, Callable[[Any, list[Cell]], list[Cell]]] = {
    **RULES,
    **WINDOWS,
    # control flow
    **dict.fromkeys(_CALLED, _called),
    "cond": _branched,
    "while": _while,
    "scan": _scanned,
    "custom_lin": _only_reverse,
    # ours
    "ldiv": _ours,
    "ldiv_tangent": _our_tangent,
}
