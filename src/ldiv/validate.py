"""What users pass is checked here, once, before any work; nothing below checks it again."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.arrays import broadcast, device_of, numpy_dtype
from ldiv.errors import got
from ldiv.rule import Array, frontend_of, is_array, namespace

DTYPES = ("float32", "float64", "complex64", "complex128")
PROMISES = ("gen", "sym", "her", "pos", "diagonal", "upper triangular", "lower triangular")
_accepted: set[object] = set()  # the frameworks' own names of these dtypes
_TRANS = {"N": "N", "T": "T", "H": "H", "C": "H", 0: "N", 1: "T", 2: "H"}


def require_unmasked(name: str, x: object) -> None:
    """What lies under a mask is no number; NumPy's functions hand it on as one."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(got(name, "an array without a mask", "a masked array", "Fill it, x.filled(0), or leave its masked entries out."))


def require_ours(name: str, x: object) -> None:
    """Sparse matrices of other libraries come in through one door, masked arrays and numpy.matrix not at all."""
    require_unmasked(name, x)
    if isinstance(x, np.matrix):
        raise TypeError(got(name, "an array", "a numpy.matrix, whose operators are others", "Pass numpy.asarray(x)."))
    if hasattr(x, "tocsc") or hasattr(x, "n_sparse") or str(getattr(x, "layout", "torch.strided")) != "torch.strided":
        raise TypeError(got(name, "an array or an ldiv matrix", f"a sparse {type(x).__name__}", "Make it one with ldiv.asarray."))


def require_float(name: str, x: object) -> Array:
    """x, an array of a framework in one of the four floating dtypes."""
    require_ours(name, x)
    if not is_array(x):
        raise TypeError(got(name, "a NumPy, PyTorch or JAX array", type(x).__name__, "Convert it with the array library of your choice."))
    if x.dtype not in _accepted:  # type: ignore[attr-defined]
        dtype = str(x.dtype).rpartition(".")[2]  # type: ignore[attr-defined]
        if dtype in DTYPES:
            _accepted.add(x.dtype)  # type: ignore[attr-defined]
            return x
        raise TypeError(got(name, "one of " + ", ".join(DTYPES), dtype, "Convert it, for instance to float64."))
    return x


def require_option(name: str, value: object, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ValueError(got(name, "one of " + ", ".join(map(repr, options)), repr(value), "Choose one of these."))


def transposition(trans: object) -> str:
    """SciPy's names for op(A): N or 0, T or 1, H or C or 2."""
    if not isinstance(trans, str | int) or trans not in _TRANS:
        raise ValueError(got("trans", "'N', 'T' or 'H' (0, 1 or 2)", repr(trans), "Choose one of these."))
    return _TRANS[trans]


def require_square(name: str, shape: tuple[int, int]) -> None:
    if shape[0] != shape[1]:
        raise ValueError(got(name, "a square matrix", f"{shape[0]} x {shape[1]}", "A rectangular system is a least-squares problem."))


def as_block(name: str, x: Any, n: int, like: Array) -> tuple[Array, bool]:
    """x as (*batch, n, k), and whether it came as a vector (n,); of the framework and device of `like`."""
    x = require_float(name, x)
    together(name, x, like)
    vector = x.ndim == 1
    if x.ndim == 0 or x.shape[0 if vector else -2] != n:
        raise ValueError(got(name, f"shape ({n},) or (..., {n}, k)", str(tuple(x.shape)), "Its rows must match the columns of the matrix."))
    return (x[:, None] if vector else x), vector


def require_batches(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Batch axes must broadcast."""
    try:
        broadcast(a, b)
    except ValueError:
        raise ValueError(got(name, f"batch axes that broadcast with {a}", str(b), "Batch axes come first; a vector has none.")) from None


def together(name: str, x: Array, like: Array) -> None:
    """Both of one framework, on one device."""
    frontend_of(x, like)
    if getattr(x, "device", None) == getattr(like, "device", None):
        return
    here, there = device_of(x), device_of(like)
    if here != there:
        raise ValueError(got(name, f"an array on {there}, where the matrix is", f"one on {here}", "Move one of them."))


def require_pair(name: str, what: str, x: Any) -> tuple[Any, Any]:
    """A tuple of two, as another function returned it."""
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise TypeError(got(name, f"the pair {what}", type(x).__name__, "Pass what the factorization returned."))
    return x[0], x[1]


def common_precision(*arrays: Array) -> list[Array]:
    """The arrays in the widest of their precisions; real ones stay real, and those that fit are returned as they are."""
    if len({x.dtype for x in arrays}) == 1:
        return list(arrays)
    wide = max(np.finfo(numpy_dtype(x)).dtype.itemsize for x in arrays)
    names = {("f", 4): "float32", ("f", 8): "float64", ("c", 4): "complex64", ("c", 8): "complex128"}
    out = []
    for x in arrays:
        name = names[numpy_dtype(x).kind, wide]
        out.append(x if numpy_dtype(x).name == name else namespace(x).astype(x, getattr(namespace(x), name)))
    return out
