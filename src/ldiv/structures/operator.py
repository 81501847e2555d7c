"""S(p) x = matvec(p, x), a function of the user, differentiated by the user's framework.

push(p, dp, x)    d/dp matvec(p, x)[dp]
outer(p, u, v)    the VJP of p -> matvec(p, v) with cotangent u
S^H u             rmatvec(p, u), or the VJP of x -> matvec(p, x), which is linear
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ldiv.core.arrays.shapes import (
    batch_of,
    broadcast,
    common_batch,
    conj,
    fold,
    is_complex,
    numpy_dtype,
    shape_of,
    spread,
    unfold,
    unit_columns,
)
from ldiv.core.arrays.validate import common_precision, require_float, together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.pushforward import jvp
from ldiv.core.rules.structure import VIEWS, Structure, compose
from ldiv.errors import type_error, value_error

Matvec = Callable[[Any, Array], Array]
_ITSELF = {"gen": "N", "sym": "T", "her": "H", "pos": "H"}  # the view that equals the operator


@dataclass(frozen=True)
class Operator(Structure):
    """A matrix known by its products with blocks of columns.

    Parameters: the arrays of the user, unbatched, with `axes` axes each.
    """

    matvec: Matvec
    rmatvec: Matvec | None
    size: tuple[int, int]
    axes: tuple[int, ...]
    assume_a: str = "gen"
    op: str = "N"

    on_host = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.size[::-1] if VIEWS[self.op][0] else self.size

    @property
    def core(self) -> Tree:
        return self.axes

    @property
    def definite(self) -> bool:
        return self.assume_a == "pos"

    @property
    def states_adjoint(self) -> bool:
        return self.rmatvec is not None or self.assume_a != "gen"

    def view(self, op: str) -> Structure:
        itself = _ITSELF[self.assume_a]
        op = compose(self.op, op)
        return replace(self, op=min(op, compose(itself, op), key="NCHT".index))

    def unview(self) -> tuple[Structure, str]:
        return (self, "N") if self.op == "N" else (replace(self, op="N"), self.op)

    def matmul(self, p: Tree, x: Array) -> Array:
        transposed, conjugated = VIEWS[self.op]
        f = partial(
            frontend_of(x, *leaves(p)).user.call,
            self._adjoint if transposed else partial(self._call, self.matvec, self.size[0]),
        )
        x = _complex(x) if any(map(is_complex, p)) else x
        return f(p, x) if transposed == conjugated else conj(f(p, conj(x)))

    def _adjoint(self, p: Tree, u: Array) -> Array:
        if self.rmatvec is not None:
            return self._call(self.rmatvec, self.size[1], p, u)
        zero = namespace(u).zeros_like(u[..., :1, :])
        x = namespace(u).broadcast_to(zero, (*u.shape[:-2], self.size[1], u.shape[-1]))
        batch = broadcast(common_batch(self.axes, p), batch_of(u, 2))
        forward = partial(self._call, self.matvec, self.size[0], p)
        x, u = spread(x, batch), spread(u, batch)
        return frontend_of(u).user.vjp(forward, (x,))[1](u)[0]

    def _call(self, f: Matvec, rows: int, p: Tree, x: Array) -> Array:
        """f(p, x) for any batch of blocks, by calls of f with one block (n, k).

        A batch of blocks is folded into a wider one; batches of parameters are mapped over by vmap.
        If the parameters are real, the real and imaginary parts of x are two blocks: frameworks do
        not multiply a real by a complex matrix.
        """
        if is_complex(x) and not any(map(is_complex, p)):
            xp, k = namespace(x), x.shape[-1]
            y = self._call(f, rows, p, xp.concat([xp.real(x), xp.imag(x)], axis=-1))
            return y[..., :k] + 1j * y[..., k:]
        f = partial(_checked, "matvec" if f is self.matvec else "rmatvec", f, rows)
        if not common_batch(self.axes, p):
            return unfold(f(p, fold(x)), batch_of(x, 2), x.shape[-1])
        batch = broadcast(common_batch(self.axes, p), batch_of(x, 2))
        flat, axes = [*leaves(p), x], [*self.axes, 2]
        mapped = [0 if y.ndim > c else None for y, c in zip(flat, axes, strict=True)]
        flat = [
            y if a is None else _one_batch(y, c, batch)
            for y, c, a in zip(flat, axes, mapped, strict=True)
        ]
        y = frontend_of(*flat).user.vmap(lambda *args: f(args[:-1], args[-1]), tuple(mapped))(*flat)
        return namespace(y).reshape(y, (*batch, rows, x.shape[-1]))

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        moving = [dx is not None for dx in dp]
        tangents = tuple(dx for dx in dp if dx is not None)
        return jvp(
            self._as_function_of(p, moving, x),
            tuple(y for y, m in zip(p, moving, strict=True) if m),
            tangents,
        )[1]

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        wanted = tuple(x for x, n in zip(p, need, strict=True) if n)
        batch = broadcast(common_batch(self.axes, p), batch_of(u, 2), batch_of(v, 2))
        u, v = spread(u, batch), spread(v, batch)
        found = iter(frontend_of(u).user.vjp(self._as_function_of(p, need, v), wanted)[1](u))
        return tuple(next(found) if n else None for n in need)

    def _as_function_of(self, p: Tree, which: Any, x: Array) -> Callable[..., Array]:
        """The product as a function of the parameters that `which` marks; the others are fixed."""

        def f(*values: Array) -> Array:
            given = iter(values)
            return self.matmul(
                tuple(next(given) if w else y for y, w in zip(p, which, strict=True)), x
            )

        return f

    def todense(self, p: Tree) -> Array:
        return self.matmul(p, unit_columns(leaves(p)[0], self.shape[1], range(self.shape[1])))


def _one_batch(x: Array, core: int, batch: tuple[int, ...]) -> Array:
    return namespace(x).reshape(
        spread(x, batch, core), (math.prod(batch), *x.shape[x.ndim - core :])
    )


def _checked(name: str, f: Matvec, rows: int, p: Tree, x: Array) -> Array:
    y = f(p, x)
    if (came := shape_of(y)) != (rows, x.shape[-1]):
        raise value_error(
            name,
            f"a result of shape {(rows, x.shape[-1])} for a block {tuple(x.shape)}",
            came,
            f"{name}(params, x) takes the parameters, then a block of columns (n, k), k >= 1; it returns one.",
        )
    together(name, require_float(name, y), x)
    if is_complex(y) and not any(map(is_complex, (*p, x))):
        what = "real numbers, as those of params and the block"
        raise type_error(name, what, numpy_dtype(y), "What is complex in it is one of params.")
    return common_precision(y, x)[0]


def _complex(x: Array) -> Array:
    return x if is_complex(x) else x + 0j
