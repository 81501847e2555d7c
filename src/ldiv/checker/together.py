"""A function over several processes is evaluated by all of them, and all judge alike.

A process that takes another branch than the others leaves them waiting. So every error is one of
all processes, of one kind, before anybody looks at it; numbers are compared once they are those of
the whole (`ldiv.checker.inner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ldiv.checker.references import FAILURES
from ldiv.core.arrays.processes import Processes, RankError, groups_of_steps
from ldiv.errors import EngineError, NotDifferentiableError, expected_got, value_error


@contextmanager
def together(processes: Processes | None) -> Iterator[None]:
    """Raise on all processes what one of them raises inside."""
    if processes is None:
        yield
        return
    try:
        with processes.section("gradcheck"):
            yield
            processes.agree("a step of gradcheck")
    except RankError:
        raise
    except Exception as error:
        if len(set(processes.every(_kind(error)))) > 1:
            raise RankError(
                f"the processes raise errors of different kinds, here {type(error).__name__}: "
                f"{error}. gradcheck cannot go on from there."
            ) from error
        raise


def _kind(error: Exception) -> tuple[bool, ...]:
    """The kind of an error, as the checker distinguishes them."""
    return isinstance(error, FAILURES), isinstance(error, NotDifferentiableError)


@contextmanager
def watched() -> Iterator[list[Processes]]:
    """Run as `groups_of_steps` does, and report errors of the user's code to the group that was seen."""
    with groups_of_steps() as groups:
        try:
            yield groups
        except Exception as error:
            if not groups or getattr(error, "agreed", False):
                raise
            with groups[0].section("gradcheck"):
                raise


def only(groups: list[Processes]) -> Processes | None:
    """The group of more than one process; None for a function of this process alone."""
    several = [group for group in groups if group.size > 1]
    if len(several) > 1:
        what, came = "a function over one communicator", f"one over {len(several)}"
        raise EngineError(expected_got("gradcheck", what, came, "Check the parts of it."))
    return several[0] if several else None


def require_same(processes: Processes | None, **settings: Any) -> None:
    """Raise on all processes, if they do not check the same thing."""
    if processes is None:
        return
    for name, value in settings.items():
        every = processes.every(value)
        if any(other != every[0] for other in every):
            advice = "All processes make the same call, each with its parts."
            raise value_error(name, "the same on all processes", f"{value} here", advice)
