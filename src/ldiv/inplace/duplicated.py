"""Duplicated(value, shadow): an array and the buffer into which its cotangent is accumulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import numpy as np

from ldiv.core.arrays.buffers import Buffer, is_buffer, overlap, require_buffer
from ldiv.core.arrays.pytree import ArrayHolder
from ldiv.core.arrays.shapes import is_complex
from ldiv.core.arrays.typing import AnyArray, ArrayT
from ldiv.core.arrays.validate import require_array, require_float, require_scalar, together
from ldiv.core.frameworks.dispatch import asnumpy, is_array
from ldiv.errors import type_error, value_error


@dataclass(frozen=True, eq=False)
class Duplicated(ArrayHolder, Generic[ArrayT]):
    """An array and its shadow, the buffer of its cotangent, for `autodiff` and `Tape`.

        dL = Re tr(shadow^H d value)

    Parameters
    ----------
    value : array
        A NumPy or PyTorch buffer; a number is an array of shape ().
    shadow : array
        A writable buffer of the same shape, dtype and device, which shares no memory with the
        value.

    Raises
    ------
    ValueError
        For a read-only shadow, for shapes that differ and for shared memory.
    TypeError
        For dtypes, and for JAX, which has no buffers.

    Notes
    -----
    The shadow of an output holds dL/d output when the reverse begins. To the shadows of inputs the
    cotangents are added: start them with zeros.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.Duplicated(np.eye(2), np.zeros((2, 2))).shadow.sum()
    np.float64(0.0)
    """

    value: ArrayT
    shadow: ArrayT

    def __post_init__(self) -> None:
        value, shadow = require_float("value", self.value), require_float("shadow", self.shadow)
        together("shadow", shadow, value)
        if value.shape != shadow.shape or value.dtype != shadow.dtype:
            here, there = (f"{x.dtype} of shape {tuple(x.shape)}" for x in (value, shadow))
            raise value_error(
                "shadow", f"the kind of its value, {here}", there, "Make it with zeros_like."
            )
        require_buffer("value", value, written=False)
        require_buffer("shadow", shadow, written=True)
        if overlap(value, shadow):
            raise value_error(
                "shadow",
                "memory of its own",
                "memory shared with its value",
                "Make it with zeros_like.",
            )


Operand: TypeAlias = AnyArray | Duplicated[Any]  # a constant, or an argument with a shadow


def value(x: Any) -> Any:
    """The array itself."""
    return x.value if isinstance(x, Duplicated) else x


def shadow(x: Any) -> Any:
    """The shadow, None for a constant."""
    return x.shadow if isinstance(x, Duplicated) else None


def block(x: Any) -> Any:
    """A vector as one column, in the same memory; a block of columns itself."""
    if value(x).ndim != 1:
        return x
    return (
        Duplicated(x.value[:, None], x.shadow[:, None]) if isinstance(x, Duplicated) else x[:, None]
    )


def number(name: str, x: Any, like: Buffer) -> Any:
    """The present value of a number or of an array of shape (); real where the arrays are real."""
    s = value(x)
    if not isinstance(s, int | float | complex | np.generic) and is_array(s):
        together(name, require_array(name, s), like)
        if s.ndim:
            raise value_error(
                name,
                "a number or an array of shape ()",
                f"shape {tuple(s.shape)}",
                "It scales the whole matrix.",
            )
        s = asnumpy(s)[()]
    if isinstance(s, bool) or not isinstance(s, int | float | complex | np.number):
        raise type_error(
            name,
            "a number or an array of shape ()",
            type(s).__name__,
            "It scales the whole matrix.",
        )
    s = require_scalar(name, s, like)
    if np.iscomplexobj(s) and not is_complex(like):
        raise type_error(
            name,
            "a real number, as the arrays are real",
            repr(s),
            "Make the arrays complex: buffers keep their dtype.",
        )
    return complex(s) if np.iscomplexobj(s) else float(np.real(s))


def operands(**named: Any) -> None:
    """The matrices of one operation: buffers of one framework, device and dtype."""
    first_name, first = next(iter(named.items()))
    for name, x in named.items():
        array = require_float(name, value(x))
        together(name, array, value(first))
        if array.dtype != value(first).dtype:
            advice = "In place nothing is converted."
            raise type_error(
                name, f"{value(first).dtype}, as {first_name}", str(array.dtype), advice
            )
        require_buffer(name, array, written=False)


def require_same_shape(x: Any, y: Any) -> None:
    here, there = (tuple(value(v).shape) for v in (y, x))
    if here != there:
        raise value_error("x", f"shape {here}, as y", str(there), "In place nothing is broadcast.")


def output(name: str, x: Any, /, **inputs: Any) -> None:
    """Check an output: writable, apart from all inputs, with a shadow if any input has one."""
    require_buffer(name, value(x), written=True)
    if shadow(x) is None and any(shadow(i) is not None for i in inputs.values()):
        given = ", ".join(key for key, i in inputs.items() if shadow(i) is not None)
        raise value_error(
            name,
            f"a Duplicated, as it depends on {given}",
            "an array without a shadow",
            "Pass Duplicated(value, shadow).",
        )
    for one, i in inputs.items():
        for other, j in inputs.items():
            if shadow(i) is not None and is_buffer(value(j)) and overlap(shadow(i), value(j)):
                raise value_error(
                    f"the shadow of {one}",
                    "memory of its own",
                    f"memory shared with {other}",
                    "Make it with zeros_like.",
                )
    for other, i in inputs.items():
        if is_buffer(value(i)) and overlap(value(x), value(i)):
            raise value_error(
                name,
                f"memory apart from that of {other}",
                "arrays that overlap",
                f"Copy {other}: it would be overwritten.",
            )
        for of_x, of_i in ((shadow(x), value(i)), (shadow(x), shadow(i)), (value(x), shadow(i))):
            if of_x is not None and is_buffer(of_i) and overlap(of_x, of_i):
                advice = "Every array has a shadow of its own."
                raise value_error(
                    f"the shadow of {name} or {other}",
                    "memory of its own",
                    "arrays that overlap",
                    advice,
                )
