"""Cases of the adversary, and the faults that they find.

A kind of cases is a module with `cases(seed)`, which yields `Case`s, endlessly or not, the same for
the same seed; `fuzz.KINDS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Wrong(Exception):
    """A fault: a complaint that is the same for all cases of the kind, and the details of this one."""

    def __init__(self, complaint: str, details: object = "") -> None:
        super().__init__(f"{complaint}: {details}")
        self.complaint = complaint


class Case(NamedTuple):
    """`check` returns an outcome in a word or two, which are counted, and raises where it finds a
    fault: `Wrong`, or whatever came.

    Faults of one label and one complaint are one failure; of these the case of the smallest size is
    shown, by the Python that `source` writes, after it was made smaller still: `smaller` yields
    cases that might fail alike.
    """

    label: str
    size: int
    check: Callable[[], str]
    source: Callable[[], str]
    smaller: Callable[[], Iterable[Case]] = tuple
