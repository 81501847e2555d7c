"""What happened to NumPy arrays is noted down for front ends without a graph of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ldiv.core.rule import Rule
from ldiv.core.trees import Array, Tree, leaves, rebuild


@dataclass(frozen=True)
class Applied:
    """A rule, the leaves of its arguments and its outputs: the arrays, which others may write
    to, and copies of what was in them.
    """

    rule: Rule
    flat: list[Any]
    out: tuple[Any, ...]
    flat_then: list[Any]
    out_then: tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """What happened to NumPy arrays: every rule that was applied, and the (array, copy) of every
    snapshot.
    """

    applied: list[Applied] = field(default_factory=list)
    copies: list[tuple[Any, Any]] = field(default_factory=list)


_record: ContextVar[Record | None] = ContextVar("record", default=None)


@contextmanager
def _record_in(record: Record | None) -> Iterator[Any]:
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def recording() -> AbstractContextManager[Record]:
    """The record of what is done inside, in order."""
    return _record_in(Record())


def is_recording() -> bool:
    """Does somebody note down what is applied?"""
    return _record.get() is not None


def unrecorded() -> AbstractContextManager[None]:
    """What is done inside is nobody's affair."""
    return _record_in(None)


def recorded(rule: Rule, flat: list[Array], outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """The outputs, noted down if somebody records."""
    if (record := _record.get()) is not None:
        record.applied.append(
            Applied(rule, flat, outputs, [x.copy() for x in flat], tuple(y.copy() for y in outputs))
        )
    return outputs


def snapshot(tree: Tree) -> Tree:
    """The arrays as they are now, in memory that their owner cannot write to; derivatives still
    flow back to the owner's.
    """
    flat = leaves(tree)
    copies = [x.clone() if hasattr(x, "clone") else x.copy() for x in flat]
    if (record := _record.get()) is not None:
        record.copies.extend(zip(flat, copies, strict=True))
    return rebuild(tree, copies)
