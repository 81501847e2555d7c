"""Dtypes, shapes and batches of arrays, where frameworks differ; leading axes are batch axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace, on_host
from ldiv.core.frameworks.frontend import Specs
from ldiv.core.frameworks.trees import Arrays, Tree, Trees, leaves, rebuild

X = TypeVar("X")  # arrays of one type


def numpy_dtype(x: Any) -> np.dtype[Any]:
    """The dtype of x under NumPy's name, whatever the framework."""
    if isinstance(x, np.ndarray):
        own: np.dtype[Any] = x.dtype
        return own
    if (dtype := _dtypes.get(x.dtype)) is None:
        dtype = _dtypes[x.dtype] = np.dtype(str(x.dtype).rpartition(".")[2])
    return dtype


_dtypes: dict[Any, np.dtype[Any]] = {}


def result_dtype(*trees: Tree) -> np.dtype[Any]:
    """The dtype to which all arrays of these trees are promoted."""
    return np.result_type(*map(numpy_dtype, leaves(trees)))


def astype(x: X, dtype: np.dtype[Any]) -> X:
    """x in this dtype of NumPy; x itself if it has it already."""
    return (
        x if numpy_dtype(x) == dtype else namespace(x).astype(x, getattr(namespace(x), dtype.name))
    )


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these broadcast to, fast in the common case that it is one of them."""
    different = {*shapes} - {()}
    if len(different) > 1:
        return np.broadcast_shapes(*different)
    return different.pop() if different else ()


def is_complex(x: Any) -> bool:
    return numpy_dtype(x).kind == "c"


def conj(x: X) -> X:
    """The complex conjugate; a real array is returned as it is."""
    if type(x) is np.ndarray:
        values: Any = x
        return values.conj() if values.dtype.kind == "c" else values
    return frontend_of(x).conj(x) if is_complex(x) else x


def clone(x: Array) -> Array:
    """x in memory of its own, in the same graph."""
    return x.copy() if type(x) is np.ndarray else frontend_of(x).clone(x)


def writable(x: Any) -> bool:
    """Whether entries of x can be overwritten."""
    return type(x) is np.ndarray or frontend_of(x).put is None


def put(x: Any, index: Any, value: Any) -> Array:
    """x with x[index] = value; in place where arrays allow it: x must not be shared."""
    if type(x) is not np.ndarray and (put := frontend_of(x).put) is not None:
        return put(x, index, value)
    x[index] = value
    return x


def real(x: X) -> X:
    """The real part; a real array is returned as it is."""
    found: X = namespace(x).real(x) if is_complex(x) else x
    return found


def or_one(size: Array) -> Array:
    """`size`, with 1 in place of 0: a divisor."""
    return namespace(size).where(size == 0, 1, size)


def eps(x: Array) -> float:
    """The machine epsilon of the dtype of x."""
    if (found := _eps.get(dtype := numpy_dtype(x))) is None:
        found = _eps[dtype] = float(np.finfo(dtype).eps)
    return found


_eps: dict[np.dtype[Any], float] = {}


def factors(w: Array, core: int = 2) -> Array:
    """w (*batch,) with so many axes more: what members of a batch are multiplied by."""
    return namespace(w).reshape(w, (*w.shape, *[1] * core))


def unit_columns(like: Array, n: int, columns: range) -> Array:
    """The columns of the identity of size n in this range, (n, k), of the kind of `like`."""
    xp, k = namespace(like), len(columns)
    found: Array = xp.eye(n, k, k=-columns.start, **alike(like))
    return found


def alike(x: Any, dtype: np.dtype[Any] | None = None) -> dict[str, Any]:
    """Keyword arguments of asarray, zeros and their like: the dtype of x, and its device.

    `dtype` takes the place of that of x. The device is left out on the cpu.
    """
    return {"dtype": x.dtype if dtype is None else getattr(namespace(x), dtype.name), **beside(x)}


def beside(x: Any) -> dict[str, Any]:
    """Keyword arguments of asarray, eye and their like: the device of x, left out on the cpu."""
    return {} if device_of(x) == "cpu" else {"device": x.device}


def masked(x: Array, inside: np.ndarray[Any, Any]) -> Array:
    """x where `inside`, zeros elsewhere."""
    xp = namespace(x)
    return xp.where(xp.asarray(inside, **beside(x)), x, xp.zeros_like(x))


def transpose(x: X) -> X:
    """The last two axes exchanged."""
    given: Any = x
    return given.mT


def adjoint(x: X) -> X:
    """x^H of the last two axes."""
    return conj(transpose(x))


def hermitian(x: X) -> X:
    """(X + X^H) / 2."""
    given: Any = x
    return (given + adjoint(given)) / 2


def dots(x: Array, y: Array) -> Array:
    """x_j^H y_j of the columns."""
    if type(x) is np.ndarray:
        found: Array = np.vecdot(x, y, axis=-2)  # type: ignore[call-overload]
        return found
    return namespace(x).sum(conj(x) * y, axis=-2)


def device_of(x: Any) -> str:
    """`cpu`, `cuda:0` ...; NumPy arrays are on the cpu."""
    if type(x) is np.ndarray:
        return "cpu"
    where: str = frontend_of(x).device(x)
    return where


def shape_of(x: Any) -> tuple[int, ...] | str:
    """The shape of an array, the type of anything else: for error messages."""
    return tuple(x.shape) if hasattr(x, "shape") else type(x).__name__


def batch_of(x: Array, core: int) -> tuple[int, ...]:
    """The batch axes of x, whose own axes are the last `core`."""
    return tuple(x.shape[: x.ndim - core])


def common_batch(core: Tree, args: Tree) -> tuple[int, ...]:
    """The batch axes to which all arrays of a tree broadcast.

    `core` says how many trailing axes of each array are its own; those before are batch axes.
    """
    pairs = zip(leaves(args), leaves(core), strict=True)
    return broadcast(*[x.shape[: x.ndim - c] for x, c in pairs if x.ndim > c])


def conform(g: Array, x: Array) -> Any:
    """A cotangent in the space of x: real if x is, summed over the axes that were broadcast."""
    if g.dtype == x.dtype and g.shape == x.shape:
        return g
    xp, g = namespace(g), g if is_complex(x) else real(g)
    if (extra := g.ndim - x.ndim) > 0:
        g = xp.sum(g, axis=tuple(range(extra)))
    if stretched := tuple(axis for axis, n in enumerate(x.shape) if n == 1 != g.shape[axis]):
        g = xp.sum(g, axis=stretched, keepdims=True)
    return astype(g, numpy_dtype(x))


def join(x: Array, y: Array, core: int) -> Array:
    """Concatenated along the first of their last `core` axes, their batch axes broadcast."""
    xp, batch = namespace(x), broadcast(batch_of(x, core), batch_of(y, core))
    return xp.concat([spread(z, batch, core) for z in (x, y)], axis=-core)


def take(x: Array, index: np.ndarray[Any, Any]) -> Array:
    """x[..., index], written so that PyTorch can differentiate it twice under vmap."""
    if isinstance(x, np.ndarray):
        return x[..., index]
    xp = namespace(x)
    if index.min(initial=0) < 0:
        index = np.where(index < 0, index + x.shape[-1], index)
    where = xp.asarray(index.ravel(), **beside(x))
    return xp.reshape(xp.take(x, where, axis=-1), (*x.shape[:-1], *index.shape))


def spread(x: Array, batch: tuple[int, ...], core: int = 2) -> Array:
    """x (*, n, k) broadcast to (*batch, n, k), or with another number of own axes."""
    return (
        x
        if batch_of(x, core) == batch
        else namespace(x).broadcast_to(x, (*batch, *x.shape[x.ndim - core :]))
    )


def one_by_one(core: Tree, args: Tree) -> Iterator[Tree]:
    """The members of a batch, one after the other: trees of arrays without batch axes."""
    batch = common_batch(core, args)
    wide = [spread(x, batch, own) for x, own in zip(leaves(args), leaves(core), strict=True)]
    return (rebuild(core, [x[i] for x in wide]) for i in np.ndindex(*batch))


def each_on_host(f: Callable[..., Arrays], core: Tree, args: Trees, specs: Specs) -> Any:
    """f(*args) of each member of a batch, of NumPy arrays: results of these shapes and dtypes."""
    batch = common_batch(core, args)

    def each(*flat: Any) -> tuple[Any, ...]:
        out = tuple([np.empty(*spec) for spec in specs])
        problems = one_by_one(core, rebuild(core, flat))
        for i, problem in zip(np.ndindex(batch), problems, strict=True):
            for y, found in zip(out, f(*problem), strict=True):
                y[i] = found
        return out

    return on_host(each, specs, *leaves(args))


def of_each(f: Callable[..., Arrays], core: Tree, args: Trees, most: int = 1) -> Any:
    """f(*args) of each member of a batch, if there is one, which is not empty: one after the other,
    stacked, or up to `most` together, if the framework can map f over them.

    A traced batch is a loop, which is compiled once for all members.
    """
    batch, flat = common_batch(core, args), leaves(args)
    if not batch:
        return f(*args)
    xp = namespace(flat[0])
    own = [x.shape[x.ndim - c :] for x, c in zip(flat, leaves(core), strict=True)]
    rows = [
        xp.reshape(xp.broadcast_to(x, (*batch, *s)), (math.prod(batch), *s))
        for x, s in zip(flat, own, strict=True)
    ]
    found = frontend_of(*flat).user.members(lambda *one: f(*rebuild(core, one)), rows, most)
    return tuple([xp.reshape(y, (*batch, *y.shape[1:])) for y in found])


def leading(xs: Sequence[X], cores: Sequence[int], dims: Sequence[int | None]) -> list[X]:
    """The arrays with one more axis in front of their batch axes: the axis `dims` of each that is
    mapped over. Their batch axes are filled up to one number by axes of one.
    """
    of_each: Any = list(zip(xs, cores, dims, strict=True))
    depth = max(x.ndim - c - (d is not None) for x, c, d in of_each)

    def lead(x: Any, core: int, dim: int) -> Any:
        xp, new = namespace(x), (1,) * (depth - (x.ndim - 1 - core))
        x = xp.moveaxis(x, dim, 0)
        return xp.reshape(x, (x.shape[0], *new, *x.shape[1:]))

    return [x if d is None else lead(x, c, d) for x, c, d in of_each]


def fold(x: Array) -> Array:
    """(*batch, n, k) -> (n, batch * k): a batch of right-hand sides of one matrix as one block."""
    if x.ndim == 2:
        return x
    xp, count = namespace(x), math.prod(x.shape[:-2])
    flat = xp.permute_dims(xp.reshape(x, (count, *x.shape[-2:])), (1, 0, 2))
    return xp.reshape(flat, (x.shape[-2], count * x.shape[-1]))


def unfold(x: Array, batch: tuple[int, ...], k: int) -> Any:
    """(n, batch * k) -> (*batch, n, k), the inverse of `fold`."""
    if not batch:
        return x
    xp, n = namespace(x), x.shape[0]
    count = math.prod(batch)
    return xp.reshape(xp.permute_dims(xp.reshape(x, (n, count, k)), (1, 0, 2)), (*batch, n, k))
