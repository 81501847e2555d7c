"""dy = J dx, by forward mode; by rows of J where a framework has none for a function.

    dy_i = Re <J^H e_i, dx>,  and i Re <J^H (i e_i), dx> for a complex y

A row is a reverse product: as many as y has numbers, some at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, conj, is_complex, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays

ROWS = 64  # at a time


class OnlyReverse(Exception):
    """Raised by a front end that has no forward mode for a function."""


def jvp(f: Callable[..., Any], xs: tuple[Any, ...], dxs: tuple[Any, ...]) -> tuple[Any, Any]:
    """y = f(*xs), and its tangent."""
    frontend = frontend_of(*xs)
    try:
        y, dy = frontend.user.jvp(f, xs, dxs)
    except OnlyReverse:
        y, pull = frontend.user.vjp(f, xs)
        if not isinstance(y, tuple):
            return y, _by_rows(pull, y, dxs)
        dy = tuple(_by_rows(partial(_one, pull, y, i), v, dxs) for i, v in enumerate(y))
    return y, dy


def _one(pull: Callable[[Any], Arrays], y: Arrays, i: int, r: Array) -> Any:
    """Pull back a cotangent that is nonzero in y_i alone."""
    return pull(tuple(r if j == i else namespace(v).zeros_like(v) for j, v in enumerate(y)))


def _by_rows(pull: Callable[[Array], Arrays], y: Array, dxs: Arrays) -> Array:
    xp, size = namespace(y), int(np.prod(y.shape))

    def along(unit: complex) -> Array:
        parts = [xp.zeros((0,), **alike(real(y)))]
        for start in range(0, size, ROWS):
            units = unit * np.eye(min(ROWS, size - start), size, start)
            r = xp.reshape(xp.asarray(units, **alike(y)), (-1, *y.shape))
            rows = frontend_of(y).user.pulled(pull, r)
            terms = [
                xp.sum(xp.reshape(real(conj(x_bar) * dx), (r.shape[0], -1)), axis=-1)
                for x_bar, dx in zip(rows, dxs, strict=True)
            ]
            parts.append(reduce(add, terms))
        return xp.reshape(xp.concat(parts), y.shape)

    return along(1) + 1j * along(1j) if is_complex(y) else along(1)
