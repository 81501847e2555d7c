"""Validation of what users pass: done here, once, before any work, and nowhere below."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from ldiv.core.arrays.inputs import moved, promoted
from ldiv.core.arrays.pytree import ArrayHolder
from ldiv.core.arrays.shapes import astype, broadcast, device_of, is_complex, numpy_dtype
from ldiv.core.arrays.typing import ArrayT, Assumption
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import (
    asnumpy,
    constant,
    frontend_of,
    host,
    is_array,
    numbers,
    signature,
    sparse_home,
    traced,
)
from ldiv.core.frameworks.trees import HostArray
from ldiv.errors import NotNumbersError, expected_got, meant, shown, type_error, value_error

DTYPES = ("float32", "float64", "complex64", "complex128")
HALVES = ("float16", "bfloat16")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
ASSUMPTIONS: tuple[str, ...] = get_args(Assumption)
PLAIN = (np.ndarray, np.memmap)
_accepted: set[object] = set()  # the frameworks' own names of these dtypes
_TRANS = {"N": "N", "T": "T", "H": "H", "C": "H", 0: "N", 1: "T", 2: "H"}
LARGEST = np.iinfo(np.intp).max
OF_RECTANGLES = "a rectangular system is a least-squares problem."
STATIC = "It is static: not an array of a framework."


# -- flags, numbers and names -------------------------------------------------


def require_flag(name: str, value: object) -> bool:
    """A flag; also 0 or 1, as C and Fortran write it."""
    whole = isinstance(value, int | np.integer) and value in (0, 1)
    if not (whole or isinstance(value, bool | np.bool_)):
        raise type_error(name, "True or False", shown(value), STATIC)
    return bool(value)


def require_int(
    name: str,
    value: object,
    low: int = -LARGEST,
    high: int = LARGEST,
    *,
    what: str = "",
    advice: str = STATIC,
) -> int:
    """A Python integer between low and high: whatever can be an index, except bool."""
    number = _index(value)
    if number is None or not low <= number <= high:
        bounds = (
            f"an integer from {low} to {high}"
            if high < LARGEST
            else "an integer" + f" >= {low}" * (low > -LARGEST)
        )
        raise _not_a_number(name, what or bounds, value, advice, int)
    return number


def _not_a_number(
    name: str, expected: str, value: Any, advice: str, read: Callable[[Any], Any]
) -> ValueError:
    """The error for a wrong number; for what is none, with Python's own words for it."""
    if isinstance(value, str | list | tuple | dict | set):
        try:
            read(value)
        except (TypeError, ValueError) as problem:
            advice = f"{problem}. {advice}"
            return NotNumbersError(expected_got(name, expected, shown(value), advice))
    return value_error(name, expected, shown(value), advice)


def _index(value: Any) -> int | None:
    if isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool"):
        return None
    try:
        return operator.index(value)
    except Exception:  # TypeError, or whatever a framework raises for a value that is no number
        return None


def require_number(
    name: str, value: Any, low: float = -math.inf, *, above: bool = False, advice: str = STATIC
) -> float:
    """A finite real number of Python or NumPy, at least `low`, or `above` it."""
    plain = isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )
    try:
        number = float(value) if plain else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < low or (above and number == low):
        bounds = "" if low == -math.inf else f" > {low:g}" if above else f" >= {low:g}"
        what = "a finite real number" + bounds
        raise _not_a_number(name, what, value, advice, lambda given: given < low)
    return number


def require_scalar(name: str, c: Any, like: Array) -> Any:
    """A finite number in the range of the dtype of `like`.

    It is returned as it is, or as a float or complex if the frameworks do not know its type.
    """
    try:
        finite = cmath.isfinite(c)
    except OverflowError:
        finite = False
    if not finite:
        raise value_error(name, "a finite number", shown(c), "Look at where it comes from.")
    most = float(np.finfo(numpy_dtype(like)).max)
    if max(abs(float(c.real)), abs(float(c.imag))) > most:
        raise value_error(
            name,
            f"a number of at most {most:.1e}, the largest of {numpy_dtype(like)}",
            shown(c),
            "Compute in float64.",
        )
    if isinstance(c, np.longdouble | np.clongdouble) or (isinstance(c, int) and abs(c) > LARGEST):
        return complex(c) if np.iscomplexobj(c) else float(c)
    return c


def require_option(
    name: str, value: object, options: tuple[str, ...], advice: str = "Choose one of these."
) -> str:
    if not isinstance(value, str) or value not in options:
        what = "one of " + ", ".join(map(repr, options))
        raise value_error(name, what, shown(value), meant(value, options) + advice)
    return value


def require_callable(name: str, f: object, what: str, advice: str) -> None:
    if not callable(f):
        raise type_error(name, what, shown(f), advice)


def transposition(trans: object, name: str = "trans") -> str:
    """SciPy's names for op(A): N or 0, T or 1, H or C or 2."""
    op = _TRANS.get(trans if isinstance(trans, str) else _index(trans))
    if op is None:
        raise value_error(name, "'N', 'T' or 'H' (0, 1 or 2)", shown(trans), "Choose one of these.")
    return op


# -- shapes -------------------------------------------------------------------


def require_shape(name: str, shape: object) -> tuple[int, int]:
    """(rows, columns)."""
    sizes = (
        [-1 if (size := _index(s)) is None else size for s in shape]
        if isinstance(shape, tuple | list)
        else []
    )
    if len(sizes) != 2 or min(sizes) < 0 or max(sizes) > LARGEST:
        raise value_error(
            name,
            f"(rows, columns), integers of at most {LARGEST}",
            shown(shape),
            "Batch axes belong to the values.",
        )
    return sizes[0], sizes[1]


def require_square(
    name: str, shape: tuple[int, ...], advice: str = "Last 2 dimensions of the array must be square"
) -> None:
    if shape[0] != shape[1]:
        came = f"{shape[0]} x {shape[1]}"
        raise value_error(name, "a square matrix", came, f"{advice}; {OF_RECTANGLES}")


def require_two_dimensions(name: str, x: Array) -> None:
    """Raise for what is no matrix."""
    if x.ndim < 2:
        came = f"shape {tuple(x.shape)}"
        advice = "It must be at least two-dimensional: add the missing axis."
        raise value_error(name, "a matrix (..., m, n)", came, advice)


# -- arrays -------------------------------------------------------------------


def require_unmasked(name: str, x: object) -> None:
    """Raise for masked arrays: NumPy's functions would use the values under the mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise type_error(
            name,
            "an array without a mask",
            "a masked array",
            "Fill it, x.filled(0), or leave its masked entries out.",
        )


def require_dense(name: str, x: object, instead: str = "") -> None:
    """Raise for a sparse matrix, ours or another library's; `instead` says what works with it."""
    if type(x) is np.ndarray or not (hasattr(type(x), "tocsc") or sparse_home(x) is not None):
        return
    kind = type(x).__name__
    method = next((m for m in ("toarray", "to_dense", "todense") if hasattr(x, m)), "toarray")
    raise type_error(
        name,
        "a dense array",
        f"a {kind}" if "parse" in kind else f"a sparse {kind}",
        instead or f"This function works on dense arrays: {name}.{method}().",
    )


def require_ours(name: str, x: object) -> None:
    """Raise for foreign types: sparse matrices are converted by `ldiv.asarray` only.

    Masked arrays and numpy.matrix are not accepted at all.
    """
    require_unmasked(name, x)
    if isinstance(x, np.matrix):
        raise type_error(
            name, "an array", "a numpy.matrix, whose operators are others", "Pass numpy.asarray(x)."
        )
    # of the class: an object that answers to every name is no matrix
    if not isinstance(x, ArrayHolder) and (hasattr(type(x), "tocsc") or sparse_home(x) is not None):
        raise type_error(
            name,
            "an array or an ldiv matrix",
            f"a sparse {type(x).__name__}",
            "Make it one with ldiv.asarray.",
        )


def require_array(name: str, x: Any, instead: str = "") -> Array:
    """x, which must be an array with values; `instead` as in `require_dense`."""
    require_dense(name, x, instead)
    require_ours(name, x)
    if not is_array(x):
        came, advice = _no_array(x)
        raise type_error(name, "a NumPy, PyTorch or JAX array", came, advice)
    if (
        isinstance(x, np.ndarray)
        and type(x) not in PLAIN
        and frontend_of(x).__name__ == "ldiv.frontends.numpy"
    ):
        advice = (
            "Subclasses have a meaning of their own: convert it, for instance with numpy.asarray."
        )
        raise type_error(
            name, "a plain NumPy array", f"{type(x).__module__}.{type(x).__qualname__}", advice
        )
    require_memory(name, x)
    return x


def _no_array(x: object) -> tuple[str, str]:
    """Describe the object that came instead of an array, with advice."""
    if isinstance(x, list | tuple):
        inner = next((y for y in x if is_array(y) or isinstance(y, ArrayHolder)), None)
        if inner is not None:
            came = f"a {type(x).__name__} of {type(inner).__module__}.{type(inner).__name__}"
            return came, "Stack them with the function of their library."
        if is_array(promoted(x)):
            return f"a {type(x).__name__}", "Make it an array with numpy.asarray."
        return f"a {type(x).__name__} that is no rectangular array of numbers", "Look at its items."
    if callable(getattr(type(x), "solve", None)):
        if isinstance(getattr(type(x), "matrix", None), property):
            return f"a {_name(x)}", "Pass its matrix, x.matrix, or call its own method, x.solve(b)."
        return f"a {_name(x)}", "It is factored already: call its own method, x.solve(b)."
    if callable(getattr(type(x), "toarray", None)):
        return f"a {_name(x)}", "Write it out as a dense array, x.toarray()."
    advice = "Convert it with the array library of your choice."
    return f"{_name(x)}, a type not understood", advice


def require_memory(name: str, x: Any) -> None:
    """Raise for what its framework stores in another way than as an array with values."""
    if (words := frontend_of(x).refusal(x)) is not None:
        raise type_error(name, *words)


def _name(x: object) -> str:
    return f"the class {x.__name__}" if isinstance(x, type) else type(x).__name__


def require_numbers(name: str, x: Any) -> Array:
    """x, an array of floats, or of integers or booleans, which are promoted with other numbers."""
    if was_validated(x):
        return x
    x = native(require_array(name, x))
    if x.dtype in _accepted:
        return x
    dtype = str(x.dtype)
    if dtype.rpartition(".")[2] not in (*DTYPES, *INTEGERS, "bool") or frontend_of(x).stored_only(
        x
    ):
        advice = "Convert it, for instance to float64."
        raise type_error(
            name,
            "numbers: integers, or one of " + ", ".join(DTYPES),
            dtype.rpartition(".")[2],
            advice,
        )
    return x


def native(x: Array) -> Array:
    """x in the byte order of the machine."""
    if isinstance(x, np.ndarray) and not x.dtype.isnative:
        return x.astype(x.dtype.newbyteorder("="))
    return x


def as_integers(name: str, x: Any, advice: str, *others: Any) -> Array:
    """x, an array or list of integers, or of floats that are whole, as integers; of the framework
    of the others.
    """
    if isinstance(x, list | tuple):
        x = promoted(x)
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and (x == np.rint(x)).all():
        x = x.astype(np.intp)
    x = require_integers(name, x, advice)
    for other in others:
        x = moved(x, other)
    return x


def require_integers(name: str, x: Any, advice: str) -> Array:
    """x, an array of integers, of a dtype with which its framework computes."""
    x = native(require_array(name, x))
    dtype = str(x.dtype)
    if dtype.rpartition(".")[2] not in INTEGERS or frontend_of(x).stored_only(x):
        raise type_error(
            name, "an array of integers, int32 or int64", dtype.rpartition(".")[2], advice
        )
    return x


def require_float(name: str, x: Any, instead: str = "") -> Array:
    """x, an array in one of the four floating dtypes; signatures found valid are remembered."""
    if (known_as := signature(x)) is not None and known_as in _valid_signatures:
        return x
    require_array(name, x, instead)
    if x.dtype not in _accepted:
        dtype = str(x.dtype).rpartition(".")[2]
        if dtype in DTYPES:
            _accepted.add(x.dtype)
            return _remember_valid(x, known_as)
        kind = x.dtype.kind if isinstance(x, np.ndarray) else ""
        advice = "Convert it, for instance to float64."
        if dtype in HALVES:
            kind, advice = "", f"No LAPACK computes with {dtype}: convert it to float32 or float64."
        if kind and kind in "OSUVmM":
            # SciPy's svds and its det
            advice = f"`{name}` must be of numeric data type, and {dtype} cannot be cast to float(32, 64). {advice}"
        raise (NotNumbersError if kind and kind in "OSUV" else TypeError)(
            expected_got(name, "one of " + ", ".join(DTYPES), dtype, advice)
        )
    return _remember_valid(x, known_as)


def as_float(name: str, x: Any, *others: Any, instead: str = "") -> Array:
    """x, or what SciPy makes of it, in one of the four floating dtypes.

    A constant of NumPy comes back in the framework of the others; `instead` as in `require_dense`.
    """
    if not was_validated(x):
        x = require_float(name, promoted(x), instead)
    for other in others:
        if type(other) is not type(x):
            x = moved(x, other)
    return x


def was_validated(x: Any) -> bool:
    """Whether x is an array of a kind that was found valid before."""
    return (kind := signature(x)) is not None and kind in _valid_signatures


_valid_signatures: set[object] = set()


def _remember_valid(x: Array, kind: object) -> Array:
    if kind is not None:
        _valid_signatures.add(kind)
    return x


def require_known(name: str, x: Array, advice: str) -> HostArray:
    """The numbers of x, by which something is decided: not where they come later, or are mapped over."""
    found = None if traced(x) else numbers(x) if host(x) else asnumpy(constant(x))
    if found is None or found.shape != tuple(x.shape):
        raise type_error(name, "known numbers", "a trace (jit, vmap)", advice)
    return found


def as_block(name: str, x: Any, n: int, like: Any) -> tuple[Array, bool]:
    """x as (*batch, n, k) of the framework and device of `like`; was it a vector (n,)?"""
    x = as_float(name, x, like)
    together(name, x, like)
    vector = x.ndim == 1
    if x.ndim == 0 or x.shape[0 if vector else -2] != n:
        raise value_error(
            name,
            f"shape ({n},) or (..., {n}, k)",
            str(tuple(x.shape)),
            "Its rows must match the columns of the matrix."
            + f" One vector for each matrix of a batch is {name}[..., None]."
            * (x.ndim > 1 and x.shape[-1] == n),
        )
    return (x[:, None] if vector else x), vector


def require_batches(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Batch axes must broadcast."""
    try:
        broadcast(a, b)
    except ValueError:
        raise value_error(
            name,
            f"batch axes that broadcast with {a}",
            str(b),
            "Batch axes come first; a vector has none.",
        ) from None


def together(name: str, x: Array, like: Array) -> None:
    """Raise unless both are of one framework, on one device."""
    frontend_of(x, like)
    if getattr(x, "device", None) == getattr(like, "device", None):  # tracers of JAX have none
        return
    here, there = device_of(x), device_of(like)
    if here != there:
        raise value_error(
            name, f"an array on {there}, where the matrix is", f"one on {here}", "Move one of them."
        )


def moved_together(name: str, arrays: list[Array], like: Array) -> list[Array]:
    """The arrays, constants of NumPy in the framework of `like`; raise unless all are on its device."""
    found = [moved(x, like) for x in arrays]
    for x in found:
        together(name, x, like)
    return found


def require_pair(name: str, what: str, x: Any) -> tuple[Any, Any]:
    """A tuple of two, as another function returns it."""
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise type_error(
            name, f"the pair {what}", type(x).__name__, "Pass what the factorization returned."
        )
    return x[0], x[1]


def common_precision(*arrays: ArrayT) -> list[ArrayT]:
    """The arrays in the widest of their precisions; real arrays stay real."""
    if len({x.dtype for x in arrays}) == 1:
        return list(arrays)
    wide = np.result_type(*(np.finfo(numpy_dtype(x)).dtype for x in arrays))
    return [
        astype(x, np.result_type(wide, np.complex64) if is_complex(x) else wide) for x in arrays
    ]
