"""One verdict, one wait: on a device the looks of a kernel are read together, where it ends.

To read a number of a device is to wait for all that it was asked to do before. So inside of
`in_one_wait` a look is believed to find what it usually finds, and its answer, one boolean, stays on
the device. At the end all of them are read at once. If one of them was not as believed, what was
made is thrown away, and all runs again, with each look read where it is made: errors and warnings,
refinement and the next engine are those of the cpu, and nothing is accepted that was not looked at.

    believed(ok)        an answer that is nearly always yes
    decided(ok)         one that is not: read now, with those that are pending; what was made until
                        then is settled; `all_decided` several of them
    is_pending(x)       are the numbers of x elsewhere, and not to be read now?
    apart(f)            a function of the user's, whose kernels end as they do outside
    once_settled(act)   what is to be seen by others, who look no more
    if_doubted(undo)    what was seen by nobody else

Where NaN takes the place of errors nothing needs to be read: inside of `unread` the looks that refuse
are collected, and whoever called masks by them what was made.

    passed(ok)          an answer that an error follows if it is no
    is_unread(x)        are the numbers of x on a device, and is nobody to ask for them at all?
    is_elsewhere(x)     is one of the two so?

On the host, and in a trace, there is nothing to wait for: these are bool(ok), and act().
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

R = TypeVar("R")
Act = Callable[[], object]


class Device(Protocol):
    """What a front end knows of arrays that are not on the host."""

    def owns(self, x: Any) -> bool: ...

    def read(self, answers: Sequence[Any]) -> list[bool]:
        """All of them, by one copy to the host."""

    def every(self, answers: Sequence[Any]) -> Any:
        """Whether all of them are yes, on the device."""


class _Doubted(Exception):
    """What was believed is not so: no error, unless it is found again."""


class _Pending:
    """The answers that nobody has read yet, and what depends on them."""

    def __init__(self, device: Device) -> None:
        self.device, self.answers, self.is_doubted = device, [], False
        self.settle: list[Act] = []
        self.undo: list[Act] = []

    answers: list[Any]

    def read(self, asked: Sequence[Any] = ()) -> list[bool]:
        """The answers to what is asked now; raises if one of those before was no."""
        if before := self.answers:
            self.answers = []
            sure, *found = self.device.read([self.device.every(before), *asked])
            self.is_doubted |= not sure
        else:
            found = self.device.read(asked) if asked else []
        if self.is_doubted:
            raise _Doubted
        settle, self.settle, self.undo = self.settle, [], []
        for act in settle:
            act()
        return found


class _Unread:
    """The answers that nobody will read."""

    def __init__(self, device: Device) -> None:
        self.device, self.answers = device, []

    answers: list[Any]


# None: no device is waited for; False: every look is read where it is made
_now: ContextVar[_Pending | _Unread | bool | None] = ContextVar("pending", default=None)


def in_one_wait(device: Device, f: Callable[[], R]) -> R:
    """f(), with one wait for the device instead of one for each look; part of an outer one."""
    if _now.get() is not None:
        return f()
    pending = _Pending(device)
    token = _now.set(pending)
    try:
        results = f()
        pending.read()
        return results
    # whatever is raised after a look that was not read may follow from what it would have found
    except Exception:
        _undone(pending)
    except BaseException:
        _undone(pending)
        raise
    finally:
        _now.reset(token)
    token = _now.set(False)
    try:
        return f()
    finally:
        _now.reset(token)


def apart(f: Callable[..., R]) -> Callable[..., R]:
    """f, which may decide by what it computes: the looks of its kernels are read where each ends, so
    that it sees no number that is doubted later.
    """

    def call(*args: Any) -> R:
        if not isinstance(_now.get(), _Pending):
            return f(*args)
        token = _now.set(None)
        try:
            return f(*args)
        finally:
            _now.reset(token)

    return call


def unread(device: Device, f: Callable[[], R]) -> tuple[R, Any] | None:
    """(f(), whether nothing in it is refused, on the device), without a wait; None if f has to ask."""
    looks = _Unread(device)
    token = _now.set(looks)
    try:
        results = f()
    except _Doubted:
        return None
    finally:
        _now.reset(token)
    return results, device.every(looks.answers) if looks.answers else True


def _undone(pending: _Pending) -> None:
    for undo in reversed(pending.undo):
        undo()


def _of(x: Any) -> _Pending | None:
    """What x is pending with, if its numbers are on the device."""
    pending = _now.get()
    return pending if isinstance(pending, _Pending) and pending.device.owns(x) else None


def is_pending(x: Any) -> bool:
    """Whether the numbers of x are elsewhere, and not to be read now."""
    return _of(x) is not None


def is_unread(x: Any) -> bool:
    """Whether the numbers of x are elsewhere, and not to be read at all."""
    return isinstance(looks := _now.get(), _Unread) and looks.device.owns(x)


def is_elsewhere(x: Any) -> bool:
    """Whether the numbers of x are on a device that is not waited for now."""
    return is_pending(x) or is_unread(x)


def passed(ok: Any) -> bool:
    """Whether ok; an error is to follow if it is not."""
    if isinstance(looks := _now.get(), _Unread) and looks.device.owns(ok):
        looks.answers.append(ok)
        return True
    return believed(ok)


def believed(ok: Any) -> bool:
    """Whether ok, which nearly always holds."""
    if is_unread(ok):
        raise _Doubted
    if (pending := _of(ok)) is None:
        return bool(ok)
    pending.answers.append(ok)
    return True


def decided(ok: Any) -> bool:
    """Whether ok, which often does not hold."""
    if is_unread(ok):
        raise _Doubted
    return bool(ok) if (pending := _of(ok)) is None else pending.read([ok])[0]


def all_decided(oks: Sequence[Any]) -> list[bool]:
    """Whether each of them, read together."""
    if is_unread(oks[0]):
        raise _Doubted
    return [bool(ok) for ok in oks] if (pending := _of(oks[0])) is None else pending.read(oks)


def once_settled(act: Act) -> None:
    """act(), as soon as nothing that was believed can be doubted any more."""
    if isinstance(pending := _now.get(), _Pending):
        pending.settle.append(act)
    else:
        act()


def if_doubted(undo: Act) -> None:
    """undo(), if what was believed is not so."""
    if isinstance(pending := _now.get(), _Pending):
        pending.undo.append(undo)
