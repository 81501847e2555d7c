"""autograd.numpy in the dialect of the array API standard, with the functions that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import autograd.numpy as anp
import numpy as np
from autograd.extend import defjvp, defvjp, primitive
from autograd.tracer import getval

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import HostArray
from ldiv.frontends import numpy as plain
from ldiv.frontends.autograd.values import constant, lifted, owns


def product(a: Array, x: Array) -> Array:
    return lifted(anp.matmul(a, x))


def stacked(xs: list[Array]) -> Array:
    return lifted(anp.stack(xs))


@primitive
def _scattered(x: Any, index: HostArray, size: int) -> Any:
    return plain.scatter(x, index, size)


defvjp(_scattered, lambda ans, x, index, size: lambda g: g[..., index, :], argnums=(0,))
defjvp(_scattered, lambda g, ans, x, index, size: _scattered(g, index, size), argnums=(0,))


def scatter(x: Array, index: HostArray, size: int) -> Array:
    return lifted(_scattered(x, index, size))


def put(x: Array, index: Any, value: Any) -> Array:
    inside = np.zeros(x.shape, bool)
    inside[index] = True
    at = np.zeros(x.shape, np.intp)
    at[index] = np.arange(int(inside.sum())).reshape(at[index].shape)
    spread = anp.reshape(anp.broadcast_to(value, at[index].shape), (-1,))[at]
    return lifted(anp.where(inside, spread, x))


def _astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    if np.dtype(dtype).kind == "c" and x.dtype.kind != "c":
        return x * np.ones((), dtype)  # autograd's own derivative of `astype` warns of real parts
    return x.astype(dtype)


def _asarray(x: Any, dtype: Any = None, **_: Any) -> Any:
    x = x if owns(x) else constant(np.asarray(x, dtype))
    return x if dtype is None or x.dtype == dtype else _astype(x, dtype)


def _take(x: Any, index: Any, axis: int = -1) -> Any:
    where: list[Any] = [slice(None)] * x.ndim
    where[axis] = np.asarray(getval(index))
    return x[tuple(where)]


def _take_along_axis(x: Any, index: Any, axis: int = -1) -> Any:
    index = np.asarray(getval(index))
    shape = np.broadcast_shapes(
        *((*a.shape[:axis], 1, *a.shape[axis % a.ndim + 1 :]) for a in (x, index))
    )
    where: list[Any] = list(np.ogrid[tuple(map(slice, shape))])
    where[axis] = index
    return x[tuple(where)]


def _flip(x: Any, axis: int | tuple[int, ...]) -> Any:
    where: list[Any] = [slice(None)] * x.ndim
    for one in (axis,) if isinstance(axis, int) else axis:
        where[one] = slice(None, None, -1)
    return x[tuple(where)]


def _trace(x: Any) -> Any:
    return anp.sum(_diagonal(x), axis=-1)


def _diagonal(x: Any, offset: int = 0) -> Any:
    """The diagonal of matrices in the last two axes, which autograd does not differentiate."""
    i, j = np.nonzero(np.eye(x.shape[-2], x.shape[-1], offset))
    return x[..., i, j]


def _vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    return anp.sum(anp.conj(x) * y, axis=axis)


def _vector_norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The 2-norm, with derivative 0 at 0 as in the other frameworks."""
    squares = anp.sum(anp.real(x * anp.conj(x)), axis=axis, keepdims=keepdims)
    vanishes = squares == 0
    return anp.where(vanishes, 0.0, anp.sqrt(anp.where(vanishes, 1.0, squares)))


def _constants(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, whose results beside recorded arrays are of this front end."""

    def of(*args: Any, **kwargs: Any) -> Any:
        return lifted(f(*args, **kwargs))

    return of


class Namespace:
    """autograd.numpy, in the dialect of the array API standard."""

    own: ClassVar[dict[str, Any]] = {
        "asarray": _asarray,
        "astype": _astype,
        "concat": anp.concatenate,
        "cumulative_sum": lambda x, axis=-1: anp.cumsum(x, axis),
        "flip": _flip,
        "matrix_transpose": lambda x: anp.swapaxes(x, -1, -2),
        "permute_dims": anp.transpose,
        "take": _take,
        "take_along_axis": _take_along_axis,
    }
    linalg = SimpleNamespace(
        diagonal=_constants(_diagonal),
        matmul=_constants(anp.matmul),
        trace=_constants(_trace),
        vecdot=_constants(_vecdot),
        vector_norm=_constants(_vector_norm),
    )
    fft = SimpleNamespace(**{name: _constants(getattr(anp.fft, name)) for name in ("fft", "ifft")})

    def __getattr__(self, name: str) -> Any:
        f = self.own.get(name) or getattr(anp, name)
        return _constants(f) if callable(f) and not isinstance(f, type) else f


NAMESPACE = Namespace()


def namespace(x: Array) -> Any:
    return NAMESPACE
