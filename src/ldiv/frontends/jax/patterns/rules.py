"""Maps of index sets for the primitives of JAX: the entries of x that results depend on.

    elementwise        sums, products with a number, selections: the union of the operands
    moves              the primitive itself, applied to the numbers of the elements
    sums, mixtures     over axes; along axes
    products           dot_general and convolutions: a known operand's zeros are seen
    scatters           the transposed primitive, applied to the numbers of the elements

A rule takes an equation of a jaxpr and the cells of its operands to the cells of its results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.lax import GatherScatterMode

from ldiv.core.frameworks.pattern import Index
from ldiv.frontends.index_sets import (
    Operand,
    Sets,
    Untraceable,
    chosen,
    dense,
    elementwise,
    mixed,
    multiplied,
    numbers,
    of_matrix,
    of_product,
    selected,
    summed,
    through,
    united,
)

EXACT = 1 << 24  # integers below it are floats in every precision


class Cell(NamedTuple):
    """An array of the program: its sets, None for none, and its value, None if it depends on x."""

    sets: Sets | None = None
    value: Callable[[], Any] | None = None


def shapes_of(atoms: Sequence[Any]) -> list[tuple[int, ...]]:
    return [tuple(v.aval.shape) for v in atoms]


def _shape_of_result(eqn: Any) -> tuple[int, ...]:
    return tuple(eqn.outvars[0].aval.shape)


# -- elementwise --------------------------------------------------------------


def _operands(eqn: Any, ins: list[Cell]) -> list[Operand]:
    return [
        Operand(shape, c.sets, None if c.value is None else partial(_nonzero, c.value))
        for c, shape in zip(ins, shapes_of(eqn.invars), strict=True)
    ]


def _nonzero(value: Callable[[], Any]) -> Index:
    return np.asarray(value()) != 0


def _elementwise(eqn: Any, ins: list[Cell]) -> list[Cell]:
    return [Cell(elementwise(_operands(eqn, ins), _shape_of_result(eqn)))]


def _each_alone(eqn: Any, ins: list[Cell]) -> list[Cell]:
    return [Cell(c.sets) for c in ins]


def _multiplied(eqn: Any, ins: list[Cell]) -> list[Cell]:
    return [Cell(multiplied(_operands(eqn, ins), _shape_of_result(eqn)))]


def _chosen(eqn: Any, ins: list[Cell]) -> list[Cell]:
    which, cases = ins[0], _operands(eqn, ins)[1:]
    choice = None if which.value is None else np.asarray(which.value()).astype(int)
    return [Cell(chosen(choice, cases, _shape_of_result(eqn)))]


# -- moves --------------------------------------------------------------------


def _moved(move: Callable[..., Any], count: int | None = None) -> Callable[..., list[Cell]]:
    """A rule that applies the move to numbers of elements, -1 for operands without sets.

    The first `count` operands move; the others are known indices.
    """

    def rule(eqn: Any, ins: list[Cell]) -> list[Cell]:
        own = ins if count is None else ins[:count]
        where = [c.value for c in ins[len(own) :]]
        ids, parts, at = [], [], 0
        for c, shape in zip(own, shapes_of(eqn.invars), strict=False):
            ids.append(np.full(shape, -1) if c.sets is None else at + numbers(shape))
            if c.sets is not None:
                parts.append(c.sets)
                at += c.sets.shape[0]
        if not all(where):
            return [Cell(dense(parts, math.prod(s))) for s in shapes_of(eqn.outvars)]
        stacked = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
        moved = move(eqn, ids, [w() for w in where if w])
        return [Cell(selected(stacked, y)) for y in moved]

    return rule


def _by_itself(eqn: Any, ids: list[Any], where: list[Any]) -> list[Any]:
    """Apply the primitive to numbers of elements; 0 is none, and also the fill value."""
    numbered = [jnp.asarray(i + 1, np.int32) for i in ids]
    y = eqn.primitive.bind(*numbered, *where, **eqn.params)
    return [np.maximum(np.asarray(y), 0).astype(np.intp) - 1]


def _by_numpy(move: Callable[..., Any]) -> Callable[..., list[Cell]]:
    """The quick ones, of one operand."""
    return _moved(lambda eqn, ids, where: [move(ids[0], eqn, eqn.params)])


def _broadcast(i: Any, eqn: Any, params: Any) -> Any:
    shape = _shape_of_result(eqn)
    ones = [1] * len(shape)
    for axis, d in zip(params["broadcast_dimensions"], i.shape, strict=True):
        ones[axis] = d
    return np.broadcast_to(i.reshape(ones), shape)


def _reshaped(i: Any, eqn: Any, params: Any) -> Any:
    order = params.get("dimensions") if eqn.primitive.name == "reshape" else None
    return (i if order is None else i.transpose(order)).reshape(_shape_of_result(eqn))


def _sliced(i: Any, eqn: Any, params: Any) -> Any:
    steps = params["strides"] or (1,) * i.ndim
    limits = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return i[tuple(slice(*limit) for limit in limits)]


def _padded(eqn: Any, ids: list[Any], where: list[Any]) -> list[Any]:
    i, filling = ids
    onto = np.full(_shape_of_result(eqn), filling)
    padding = eqn.params["padding_config"]
    to = [low + (gap + 1) * np.arange(d) for d, (low, _, gap) in zip(i.shape, padding, strict=True)]
    inside = [(0 <= t) & (t < d) for t, d in zip(to, onto.shape, strict=True)]  # others are cut off
    onto[np.ix_(*(t[k] for t, k in zip(to, inside, strict=True)))] = i[np.ix_(*inside)]
    return [onto]


def _split(eqn: Any, ids: list[Any], where: list[Any]) -> list[Any]:
    return np.split(ids[0], np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


# -- over axes, along axes ----------------------------------------------------


def _summed(eqn: Any, ins: list[Cell]) -> list[Cell]:
    return [Cell(summed(ins[0].sets, shapes_of(eqn.invars)[0], eqn.params["axes"]))]


def _mixed(axes: Callable[[Any, int], Sequence[int]]) -> Callable[..., list[Cell]]:
    """The last operand along some of its axes; all of them where another has sets, too."""

    def rule(eqn: Any, ins: list[Cell]) -> list[Cell]:
        if any(c.sets is not None for c in ins[:-1]):
            return all_of_all(eqn, ins)
        shape = shapes_of(eqn.invars)[-1]
        along = axes(eqn.params, len(shape))
        return [Cell(mixed(ins[-1].sets, shape, along, _shape_of_result(eqn)))]

    return rule


def all_of_all(eqn: Any, ins: list[Cell]) -> list[Cell]:
    parts = [c.sets for c in ins if c.sets is not None]
    return [Cell(dense(parts, math.prod(s))) for s in shapes_of(eqn.outvars)]


# -- products -----------------------------------------------------------------


def _dot(eqn: Any, ins: list[Cell]) -> list[Cell]:
    (contract, batch), shapes = eqn.params["dimension_numbers"], shapes_of(eqn.invars)
    if not any(batch) and (found := _by_known(ins, shapes, contract)) is not None:
        return [Cell(found)]
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    names: list[list[str]] = [[""] * len(s) for s in shapes]
    out = ""
    for pairs, shared in ((batch, True), (contract, False)):
        for i, j in zip(*pairs, strict=True):
            names[0][i] = names[1][j] = name = next(letters)
            out += name * shared
    for own in names:
        for i, name in enumerate(own):
            if not name:
                own[i] = next(letters)
                out += own[i]
    return [Cell(of_product([c.sets for c in ins], shapes, ["".join(n) for n in names], out))]


def _by_known(ins: list[Cell], shapes: Any, contract: Any) -> Sets | None:
    """C X or X C with a known C that has zeros, as a matrix; None where there is none."""
    left = ins[0].value is not None
    constant, moving = (0, 1) if left else (1, 0)
    if (value := ins[constant].value) is None or ins[moving].sets is None:
        return None
    c = np.asarray(value()) != 0
    if c.all():
        return None
    inner = math.prod(shapes[constant][i] for i in contract[constant])
    c = np.moveaxis(c, contract[constant], range(c.ndim - len(contract[constant]), c.ndim))
    ids = np.moveaxis(numbers(shapes[moving]), contract[moving], range(len(contract[moving])))
    x = selected(ins[moving].sets, ids)
    columns = x.shape[0] // max(inner, 1)
    y = of_matrix(x, c.reshape(-1, inner), columns)
    return y if left else selected(y, numbers((y.shape[0] // max(columns, 1), columns)).T)


def _in_floats(shape: tuple[int, ...]) -> Any:
    """The numbers of the elements, from 1, for primitives of floats alone."""
    if math.prod(shape) >= EXACT:
        raise Untraceable("more elements than float32 can count")
    return jnp.asarray(numbers(shape) + 1, float)


# -- scatters -----------------------------------------------------------------


def _scattered(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """Each update goes where the transposed scatter-add takes its cotangent from."""
    operand, where, updates = ins
    onto, shape = _shape_of_result(eqn), shapes_of(eqn.invars)[2]
    if where.value is None:
        return all_of_all(eqn, ins)
    to = _destinations(eqn, where.value(), eqn.params["mode"])
    dropping = _destinations(eqn, where.value(), GatherScatterMode.FILL_OR_DROP)
    promised = eqn.params["mode"] == GatherScatterMode.PROMISE_IN_BOUNDS
    if promised and (to != dropping).any():
        raise Untraceable("an index out of bounds, of which nothing is said")
    found = []
    if operand.sets is not None:
        kept = numbers(onto).ravel()
        if eqn.primitive.name == "scatter":  # what is written over is gone
            kept[to[to >= 0]] = -1
        found.append(selected(operand.sets, kept))
    if updates.sets is not None:
        inside = to >= 0
        found.append(through(updates.sets, to[inside], numbers(shape)[inside], math.prod(onto)))
    return [Cell(united(found))]


def _scaled(eqn: Any, ins: list[Cell]) -> list[Cell]:
    """x.at[i].mul(c) where c does not move: each element by itself."""
    return [ins[0]] if all(c.sets is None for c in ins[1:]) else all_of_all(eqn, ins)


def _destinations(eqn: Any, indices: Any, mode: Any) -> Index:
    """The element of the result to which each update goes, -1 for none."""

    def add(u: Any) -> Any:
        where = eqn.params["dimension_numbers"]
        return jax.lax.scatter_add(jnp.zeros(_shape_of_result(eqn)), indices, u, where, mode=mode)

    pull = jax.linear_transpose(add, jax.ShapeDtypeStruct(eqn.invars[2].aval.shape, float))
    (to,) = pull(_in_floats(_shape_of_result(eqn)))
    return np.rint(np.asarray(to)).astype(np.intp) - 1


# -- the table -----------------------------------------------------------------


def _lane(params: Any, ndim: int) -> Sequence[int]:
    return [params["axis"]]


def _last(params: Any, ndim: int) -> Sequence[int]:
    return range(ndim - len(params["fft_lengths"]), ndim)


def _side(params: Any, ndim: int) -> Sequence[int]:
    return [ndim - 2 if params["left_side"] else ndim - 1]


_SUMS = "add sub neg add_any convert_element_type reduce_precision copy copy_p real imag complex \
conj div sharding_constraint"
# what shard_map puts between a value that all devices share and one of each, and its transpose
ACROSS_DEVICES = ("pvary", "psum_invariant")
RULES: dict[str, Callable[[Any, list[Cell]], list[Cell]]] = {
    **dict.fromkeys([*_SUMS.split(), *ACROSS_DEVICES], _elementwise),
    "mul": _multiplied,
    "select_n": _chosen,
    "optimization_barrier": _each_alone,
    # moves
    "reshape": _by_numpy(_reshaped),
    "squeeze": _by_numpy(_reshaped),
    "expand_dims": _by_numpy(_reshaped),
    "broadcast_in_dim": _by_numpy(_broadcast),
    "slice": _by_numpy(_sliced),
    "transpose": _by_numpy(lambda i, eqn, params: i.transpose(params["permutation"])),
    "rev": _by_numpy(lambda i, eqn, params: np.flip(i, params["dimensions"])),
    "concatenate": _moved(lambda eqn, ids, _: [np.concatenate(ids, eqn.params["dimension"])]),
    "stack": _moved(lambda eqn, ids, _: [np.stack(ids, eqn.params["axis"])]),
    "split": _moved(_split),
    "pad": _moved(_padded),
    "gather": _moved(_by_itself, 1),
    "dynamic_slice": _moved(_by_itself, 1),
    "dynamic_update_slice": _moved(_by_itself, 2),
    # over axes, along axes
    "reduce_sum": _summed,
    "cumsum": _mixed(_lane),
    "fft": _mixed(_last),
    "triangular_solve": _mixed(_side),
    "custom_linear_solve": all_of_all,
    # products
    "dot_general": _dot,
    # scatters
    "scatter": _scattered,
    "scatter-add": _scattered,
    "scatter-mul": _scaled,
}
