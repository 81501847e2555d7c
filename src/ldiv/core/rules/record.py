"""A record of the rules applied to NumPy arrays, from which front ends without a graph make one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

from ldiv.core.arrays.shapes import clone
from ldiv.core.frameworks.trees import HostArray, Tree, leaves, rebuild
from ldiv.core.rules.rule import Rule


@dataclass(frozen=True)
class Applied:
    """A rule that was applied, its arguments and outputs, and copies of their values.

    The arrays themselves may be overwritten later, the copies not.
    """

    rule: Rule
    flat: list[Any]
    out: tuple[Any, ...]
    flat_then: list[Any]
    out_then: tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """All rules applied to NumPy arrays, in order, and the (array, copy) of every snapshot."""

    applied: list[Applied] = field(default_factory=list)
    copies: list[tuple[Any, Any]] = field(default_factory=list)


_record: ContextVar[Record | None] = ContextVar("record", default=None)
# The present record, or None; a bound method, since every call asks for it.
present_record: Callable[[], Record | None] = _record.get


class _recording_in:
    """A context in which this record, or none, is made."""

    __slots__ = ("_record", "_token")

    def __init__(self, record: Record | None) -> None:
        self._record = record

    def __enter__(self) -> Any:
        self._token: Token[Record | None] = _record.set(self._record)
        return self._record

    def __exit__(self, *error: object) -> None:
        _record.reset(self._token)


def recording() -> AbstractContextManager[Record]:
    """A context that records the rules applied in it."""
    return _recording_in(Record())


def is_recording() -> bool:
    """Whether a record is being made."""
    return present_record() is not None


def unrecorded() -> AbstractContextManager[None]:
    """A context in which nothing is recorded."""
    return _recording_in(None)


def recorded(
    rule: Rule, flat: list[HostArray], outputs: tuple[HostArray, ...]
) -> tuple[HostArray, ...]:
    """The outputs; the rule is recorded if a record is being made."""
    if (record := _record.get()) is not None:
        record.applied.append(
            Applied(rule, flat, outputs, [x.copy() for x in flat], tuple(y.copy() for y in outputs))
        )
    return outputs


def snapshot(tree: Tree) -> Tree:
    """Copies of the arrays, which later writes do not change; derivatives flow to the originals."""
    record = _record.get()
    if record is None and type(tree) is not tuple:
        return clone(tree)
    flat = leaves(tree)
    copies = [clone(x) for x in flat]
    if record is not None:
        record.copies.extend(zip(flat, copies, strict=True))
    return rebuild(tree, copies)
