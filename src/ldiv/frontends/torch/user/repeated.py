"""Checks of derivatives that repeated evaluations share: of one function at one or many points.

Derivatives inside of a function that is evaluated twice are checked once.

A backward pass cuts the graph under all transforms or under none. If one did, the check is
repeated at the next evaluation, to raise again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ldiv.frontends.torch.user.hooks import without_hooks


@dataclass
class GraphChecks:
    """The result of the checks of all evaluations that run inside of `inside`."""

    are_whole: bool = True
    is_enough: bool = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = _now.set(self)
        try:
            yield
        finally:
            _now.reset(token)
        self.is_enough = self.are_whole


_now: ContextVar[GraphChecks | None] = ContextVar("graph checks", default=None)


def are_whole(look: Callable[[], bool]) -> bool:
    """look(), or True if all derivatives in this function have passed before."""
    if (graph_checks := _now.get()) is not None and graph_checks.is_enough:
        return True
    with without_hooks():  # a user who counts saved tensors gets the same count without a check
        found = look()
    if graph_checks is not None:
        graph_checks.are_whole &= found
    return found


@dataclass
class Once:
    """A function whose derivatives are checked once: derivatives inside of it, and its products.

    `bound`: how near its tangents were to reverse products along one direction, by the transpose of
    the graph (`by_graph`) or by forward mode. `is_right`: forward mode has passed along all
    directions that were requested together. `has_rows`: so have rows that were computed together.
    `kept`: its last argument, with what `pullback_of` returns for it.
    """

    f: Callable[..., Any]
    bound: Callable[[float], float] | None = None
    by_graph: bool = False
    is_right: bool = False
    has_rows: bool = False
    kept: Any = None
    graph_checks: GraphChecks | None = None  # of its pullback, if they are made once


@contextmanager
def looking_once(f: Callable[..., Any], is_near: bool = False) -> Iterator[Once]:
    """A context in which a check of the products of f counts for all points; if the first is near
    them, derivatives inside of f are checked once, too. Hooks of the caller do not hold in it.
    """
    known = once(f)
    if is_near and known.graph_checks is None:
        known.graph_checks = GraphChecks()
    token = _once.set(known)
    try:
        with without_hooks():
            yield known
    finally:
        _once.reset(token)


_once: ContextVar[Once | None] = ContextVar("looked at once", default=None)


def inside_of(f: Callable[..., Any]) -> AbstractContextManager[None]:
    """The context in which f is evaluated, so that derivatives inside of it are checked once."""
    known = _once.get()
    if known is None or known.f is not f or known.graph_checks is None:
        return nullcontext()
    return known.graph_checks.inside()


def once(f: Callable[..., Any]) -> Once:
    """The checks of f so far, or new ones."""
    return found if (found := _once.get()) is not None and found.f is f else Once(f)
