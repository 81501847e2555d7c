"""Deferred checks: on a device the checks of a kernel are read together, at its end, with one wait.

Reading a number from a device waits for all earlier work of the device. So inside of `in_one_wait` a
check is assumed to pass, and its result, one boolean, stays on the device. At the end all results are
read at once. If a check has failed, the outputs are dropped, and the kernel runs again, reading each
check at its place. Then errors, warnings, refinement and the next engine are those of the CPU, and no
output is accepted without its checks.

    assumed_true(ok)    a check that nearly always passes: assumed to pass until the checks are read
    decided(ok)         one that often fails: read now, with all pending checks; if these have passed,
                        earlier results are settled; `all_decided` reads several
    is_pending(x)       x is on a device, and its values are not to be read now
    may_branch(f)       a user's function, whose kernels each read their checks at their end
    after_checks(act)   an effect that others see, done after all pending checks have passed
    if_doubted(undo)    an effect that is undone if a pending check has failed

If NaN takes the place of errors, nothing needs to be read: inside of `without_reads` the checks are
collected, and the caller writes NaN to members whose checks have failed.

    passed(ok)          a check whose failure is an error
    stays_on_device(x)  x is on a device, and its values must not be read at all
    is_elsewhere(x)     is_pending(x) or stays_on_device(x)

On the host, and in a trace, there is nothing to wait for: the checks return bool(ok), and effects
happen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

R = TypeVar("R")
Act = Callable[[], object]


class Device(Protocol):
    """The functions of a front end for arrays that are not on the host."""

    def owns(self, x: Any) -> bool: ...

    def read(self, answers: Sequence[Any]) -> list[bool]:
        """Read all answers by one copy to the host."""

    def every(self, answers: Sequence[Any]) -> Any:
        """Whether all answers are yes, as a boolean on the device."""


class _Doubted(Exception):
    """Raised if an assumed check has failed; the kernel runs again, and may raise an error then."""


class _Pending:
    """Checks on a device that are not read yet, and the effects that depend on them."""

    def __init__(self, device: Device) -> None:
        self.device, self.answers, self.is_doubted = device, [], False
        self.settle: list[Act] = []
        self.undo: list[Act] = []

    answers: list[Any]

    def read(self, asked: Sequence[Any] = ()) -> list[bool]:
        """Read these answers; raise if an earlier check has failed."""
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


class _WithoutReads:
    """Checks on a device that are never read."""

    def __init__(self, device: Device) -> None:
        self.device, self.answers = device, []

    answers: list[Any]


# None: no checks are deferred; False: every check is read at its place
_now: ContextVar[_Pending | _WithoutReads | bool | None] = ContextVar("pending", default=None)


def in_one_wait(device: Device, f: Callable[[], R]) -> R:
    """Call f() with one wait for the device at its end, instead of one wait for each check. Inside
    of another `in_one_wait` it is a plain call.
    """
    if _now.get() is not None:
        return f()
    pending = _Pending(device)
    token = _now.set(pending)
    try:
        results = f()
        pending.read()
        return results
    # an error raised after a deferred check may be a consequence of the failure of that check
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


def may_branch(f: Callable[..., R]) -> Callable[..., R]:
    """Wrap f, a function that may branch on its values: each kernel in f reads its checks at its
    own end, so that f sees no value whose checks may fail later.
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


def without_reads(device: Device, f: Callable[[], R]) -> tuple[R, Any] | None:
    """Return (f(), a boolean on the device: do all checks pass?), without a wait; None if f must
    read values.
    """
    looks = _WithoutReads(device)
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
    """Return the pending checks of this context, if x is on their device."""
    pending = _now.get()
    return pending if isinstance(pending, _Pending) and pending.device.owns(x) else None


def is_pending(x: Any) -> bool:
    """True if the values of x are on a device, and must not be read now."""
    return _of(x) is not None


def stays_on_device(x: Any) -> bool:
    """True if the values of x are on a device, and must not be read at all."""
    return isinstance(looks := _now.get(), _WithoutReads) and looks.device.owns(x)


def is_elsewhere(x: Any) -> bool:
    """True if the values of x are on a device that is not waited for now."""
    return is_pending(x) or stays_on_device(x)


def passed(ok: Any) -> bool:
    """Return ok, a check whose failure is an error."""
    if isinstance(looks := _now.get(), _WithoutReads) and looks.device.owns(ok):
        looks.answers.append(ok)
        return True
    return assumed_true(ok)


def assumed_true(ok: Any) -> bool:
    """Return ok, which nearly always is true: True for now if it is on a device, checked at the end."""
    if stays_on_device(ok):
        raise _Doubted
    if (pending := _of(ok)) is None:
        return bool(ok)
    pending.answers.append(ok)
    return True


def decided(ok: Any) -> bool:
    """Return ok, which often is false, with its true value: all pending checks are read, too."""
    if stays_on_device(ok):
        raise _Doubted
    return bool(ok) if (pending := _of(ok)) is None else pending.read([ok])[0]


def all_decided(oks: Sequence[Any]) -> list[bool]:
    """Return the true values of several checks, read together."""
    if stays_on_device(oks[0]):
        raise _Doubted
    return [bool(ok) for ok in oks] if (pending := _of(oks[0])) is None else pending.read(oks)


def after_checks(act: Act) -> None:
    """Call act() after all pending checks have passed."""
    if isinstance(pending := _now.get(), _Pending):
        pending.settle.append(act)
    else:
        act()


def if_doubted(undo: Act) -> None:
    """Call undo() if a pending check has failed."""
    if isinstance(pending := _now.get(), _Pending):
        pending.undo.append(undo)
