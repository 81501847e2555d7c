"""Programs that are recorded to run later: make_fx, torch.func.linearize, torch.export,
torch.compile, torch.jit.trace.

Recording a kernel would bake its numbers into the program as constants: a wrong answer without an
error. What reads numbers asks `traced` and raises `recording_error`; rules are recorded as
operators (`recorded`), except by torch.jit.trace. torch.compile can leave a call out of its graph
as well: `_public_call` tells it to, at every public function, unless the graph must be one (fullgraph).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from ldiv.core.calls.public import full_name, guard, public_functions
from ldiv.errors import type_error
from ldiv.frontends.torch import private

# inside of an operator: whether its tensors have numbers
_has_numbers: ContextVar[bool | None] = ContextVar("has_numbers", default=None)


@contextmanager
def values_known() -> Iterator[None]:
    """Mark that the operator runs on values, also while a program is recorded."""
    token = _has_numbers.set(True)
    try:
        yield
    finally:
        _has_numbers.reset(token)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Mark that the operator computes only the shapes of its results."""
    token = _has_numbers.set(False)
    try:
        yield
    finally:
        _has_numbers.reset(token)


# inside of a tangent map that is recorded: torch.func.linearize records it with tangents that
# nobody has filled
_unfilled: ContextVar[bool] = ContextVar("unfilled", default=False)


@contextmanager
def tangents_recorded() -> Iterator[None]:
    """Mark a tangent map: while it is recorded its operators compute only shapes."""
    if private.dispatch_mode(private.PROXY) is None:
        yield
        return
    token = _unfilled.set(True)
    try:
        yield
    finally:
        _unfilled.reset(token)


def unfilled() -> bool:
    """Whether tensors that are recorded now have no meaningful values."""
    return _unfilled.get()


def only_shapes() -> bool:
    """Whether tensors have shapes, and no numbers."""
    return _has_numbers.get() is False


def traced(x: object) -> bool:
    """Whether what is computed now is recorded, to be run later on other values."""
    if (recorder := _has_numbers.get()) is not None:
        return not recorder
    modes = private.count_dispatch_modes() and (
        private.dispatch_mode(private.PROXY)  # make_fx, torch.func.linearize
        or private.dispatch_mode(private.FAKE)  # torch.compile, before it records
    )
    return bool(
        modes
        or private.is_included(private.PRE_DISPATCH)
        or private.tracing_state() is not None  # torch.jit.trace
        or torch.compiler.is_exporting()
    )


def unobserved(in_level: bool = False) -> bool:
    """Whether torch does nothing but compute: no mode, no operator, no recording, and no torch.func,
    but for the level of which a derivative asks (`in_level`).
    """
    return not (
        private.count_dispatch_modes()
        or private.is_included(private.PRE_DISPATCH)
        or private.count_function_modes()
        or (private.are_transforms_active() and not in_level)
        or private.tracing_state() is not None
        or torch.compiler.is_exporting()
        or _has_numbers.get() is not None
    )


def check_or_raise(ok: torch.Tensor, error: Callable[..., Exception], *numbers: Any) -> None:
    if not only_shapes():  # an operator checks when it runs
        raise recording_error()  # asked in a trace only, and `ok` is not known there


def recording_error() -> TypeError:
    came = (
        "one that is recorded (by torch.jit.trace; with a function of yours inside also by make_fx, "
        "torch.func.linearize or torch.export): its numbers would become constants"
    )
    advice = (
        "Call it outside of what is recorded. torch.func.jvp, vjp and vmap record nothing, "
        "torch.compile leaves the call out of its graph."
    )
    return type_error("a call", "one that can read its numbers now", came, advice)


def one_graph_error() -> TypeError:
    advice = (
        "Put it into a function of tensors, which makes the matrix, and decorate that with "
        "torch.compiler.allow_in_graph; or leave fullgraph out."
    )
    came = "a matrix or another object"
    return type_error("a call in one graph", "tensors and options", came, advice)


def _public_call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a public function, while Dynamo traces by a clean graph break or as an operator."""
    if torch.compiler.is_dynamo_compiling():
        if _one_graph():
            if not _is_plain((*args, *kwargs.values())):
                raise one_graph_error()
            return _in_the_graph(full_name(f), args, kwargs)
        return _outside_of_the_graph(f, args, kwargs)
    if not traced(None):
        return f(*args, **kwargs)
    args, kwargs = private.tree_map_only(torch.Tensor, sized, (args, kwargs))
    try:
        return f(*args, **kwargs)
    except Exception as error:
        # sizes are tensors in torch.jit, and export lacks much of torch.func
        if ", got " in str(error):
            raise
        raise recording_error() from error


def sized(x: torch.Tensor) -> torch.Tensor:
    """x with integers for symbolic sizes, since a structure needs its own: one program for each."""
    if all(type(n) is int for n in x.shape) or private.tracing_state() is not None:
        return x
    return x.reshape([int(n) for n in x.shape])


def _one_graph() -> bool:
    """Whether torch.compile must not leave anything out (fullgraph=True, torch.export)."""
    torch.compiler.allow_in_graph(_in_the_graph)
    return private.is_one_graph()


def _in_the_graph(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A public function, which is recorded when it is called with tensors without numbers."""
    args, kwargs = private.tree_map_only(torch.Tensor, sized, (args, kwargs))
    found = public_functions[name](*args, **kwargs)
    if not _is_plain((found,)):
        raise one_graph_error()
    return found


def _is_plain(xs: tuple[Any, ...]) -> bool:
    """Whether all arguments are tensors and options, which a graph can have."""
    for x in xs:
        if isinstance(x, tuple | list):
            if not _is_plain(tuple(x)):
                return False
        elif not (x is None or isinstance(x, torch.Tensor | bool | int | float | complex | str)):
            return False
    return True


def _call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


_outside_of_the_graph = private.outside_of_graphs(_call)
setattr(_one_graph, private.MARKED_CONSTANT, True)  # torch.compile runs this while it traces
guard(_public_call)
