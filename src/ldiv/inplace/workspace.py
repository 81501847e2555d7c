"""Buffers and values that the operations of a tape share.

Scratch memory, the values that the reverse needs, and the recorded reverse steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ldiv.core.arrays.buffers import Buffer, identity, overlap, stamp
from ldiv.core.arrays.shapes import alike, is_complex, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.structure import VIEWS
from ldiv.errors import value_error


class SavedValue:
    """The value of a buffer at a time: the buffer itself until it is overwritten, then a copy."""

    def __init__(self, name: str, buffer: Buffer) -> None:
        self.name, self.buffer, self.stamp = name, buffer, stamp(buffer)
        self.copy: Buffer | None = None

    @property
    def value(self) -> Buffer:
        return self.buffer if self.copy is None else self.copy

    def verify(self) -> None:
        """Raise if the buffer was changed outside the tape."""
        if stamp(self.buffer) != self.stamp:
            what = f"{self.name}, an array of shape {tuple(self.buffer.shape)}"
            advice = "Its value at the time of the call is lost: "
            advice += "record the change too (tape.copy, tape.scale, ...), or use another array."
            expected = f"{what} as the recorded operation saw it, for the reverse"
            raise value_error("tape", expected, "one that was changed since", advice)


class Workspace:
    """Scratch buffers are reused: once every shape has been used, nothing is allocated."""

    def __init__(self) -> None:
        self._free: dict[Hashable, list[Buffer]] = {}
        self._live: dict[Hashable, SavedValue] = {}  # buffers that still hold the saved value
        self._copies: list[Buffer] = []
        self._constants: dict[Hashable, Array] = {}
        self._steps: list[Callable[[], None]] = []
        self._is_reversed = False

    def __len__(self) -> int:
        return len(self._steps)

    # -- scratch -----------------------------------------------------------------------------------

    def borrow(self, like: Buffer, shape: tuple[int, ...]) -> Buffer:
        free = self._free.get(_kind(like, shape))
        fresh: Any = namespace(like)
        return free.pop() if free else fresh.empty(shape, **alike(like))

    def give_back(self, x: Buffer) -> None:
        self._free.setdefault(_kind(x, tuple(x.shape)), []).append(x)

    @contextmanager
    def scratch(self, like: Buffer, shape: tuple[int, ...]) -> Iterator[Buffer]:
        """An uninitialized array with the dtype and device of `like`."""
        x = self.borrow(like, shape)
        try:
            yield x
        finally:
            self.give_back(x)

    @contextmanager
    def view(self, x: Buffer, op: str) -> Iterator[Buffer]:
        """op(x): transposed by strides, conjugated in scratch."""
        transposed, conjugated = VIEWS[op]
        if not (conjugated and is_complex(x)):
            yield transpose(x) if transposed else x
            return
        with self.scratch(x, tuple(x.shape)) as y:
            y[...] = x
            conjugate(y)
            yield transpose(y) if transposed else y

    def product(self, out: Buffer, x: Buffer, op_x: str, y: Buffer, op_y: str) -> None:
        """out = op(x) op(y)."""
        with self.view(x, op_x) as u, self.view(y, op_y) as v:
            namespace(out).matmul(u, v, out=out)

    def constant(self, key: Hashable, make: Callable[[], Array]) -> Array:
        """An array that is made once and cached."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    # -- values ------------------------------------------------------------------------------------

    def keep(self, name: str, x: Buffer) -> SavedValue:
        """The present value of x, for the reverse."""
        key = identity(x)
        if (live := self._live.get(key)) is None:
            live = self._live[key] = SavedValue(name, x)
        else:
            live.verify()
        return live

    @contextmanager
    def writing(self, x: Buffer) -> Iterator[None]:
        """x is overwritten inside: values of it that the reverse needs are copied first."""
        for key, kept in list(self._live.items()):
            if not (hit := overlap(kept.buffer, x)) and not isinstance(kept.stamp, int):
                continue
            kept.verify()
            if hit:
                kept.copy = self.borrow(kept.buffer, tuple(kept.buffer.shape))
                kept.copy[...] = kept.buffer
                self._copies.append(kept.copy)
                del self._live[key]
        # infinite values propagate as in any product, without a warning
        with np.errstate(all="ignore"):
            yield
        # buffers may share a version counter with x, as parts of one array
        for kept in self._live.values():
            if isinstance(kept.stamp, int):
                kept.stamp = stamp(kept.buffer)

    # -- steps -------------------------------------------------------------------------------------

    def record(self, step: Callable[[], None]) -> None:
        """Record the reverse of the operation that has just run."""
        self._steps.append(step)
        self._is_reversed = False

    def reverse(self) -> None:
        """Run all reverse steps, the last one first; write nothing unless all values are intact."""
        if self._is_reversed and not self._steps:
            raise value_error(
                "reverse",
                "operations recorded since the last one",
                "none: they were reversed, and forgotten",
                "Record them again; several seeds at once are a batch.",
            )
        for kept in self._live.values():
            kept.verify()
        self._is_reversed = True
        try:
            with np.errstate(all="ignore"):
                while self._steps:
                    self._steps.pop()()
        finally:
            self.forget()

    def forget(self) -> None:
        """Drop all steps and saved values; the scratch buffers stay."""
        self._steps.clear()
        self._live.clear()
        while self._copies:
            self.give_back(self._copies.pop())


def _kind(x: Buffer, shape: tuple[int, ...]) -> Hashable:
    return shape, x.dtype, x.device


# -- in place -----------------------------------------------------------------


def conjugate(x: Buffer) -> None:
    """x <- conj(x)."""
    if is_complex(x):
        imag = x.imag
        imag *= -1


def scale(x: Buffer, s: complex) -> None:
    """x <- s x, exactly zero for s = 0 whatever x holds."""
    if s == 0:
        x[...] = 0
    elif s != 1:
        x *= s


def add(x: Buffer, s: complex, g: Buffer, op: str) -> None:
    """x <- x + op(s g); g is scratch, and is overwritten."""
    if s != 1:
        g *= s
    transposed, conjugated = VIEWS[op]
    if conjugated:
        conjugate(g)
    x += transpose(g) if transposed else g


def add_inner(x: Buffer, a: Buffer, b: Buffer) -> None:
    """x <- x + <a, b> for a number x; the real part where x is real."""
    xp = namespace(a)
    inner = xp.sum(xp.conj(a) * b)
    x += inner if is_complex(x) else xp.real(inner)
