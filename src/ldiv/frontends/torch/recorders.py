"""Programs that are recorded to run later (make_fx, torch.jit.trace, torch.export) are refused.

Recording a kernel would bake its numbers into the program as constants: a wrong answer without an
error. What reads numbers asks `traced` and raises `recording_error`. torch.compile records as well,
but it can leave a call out of its graph: `_door` tells it to, at every public function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ldiv.core.public import guard
from ldiv.core.trees import Array
from ldiv.errors import expected_got

_PROXY = torch._C._TorchDispatchModeKey.PROXY


def traced(x: object) -> bool:
    """Whether what is computed now is recorded, to be run later on other values."""
    return (
        torch._C._get_dispatch_mode(_PROXY) is not None  # make_fx, torch.func.linearize
        or torch._C._get_tracing_state() is not None  # torch.jit.trace
        or torch.compiler.is_exporting()
    )


def check_or_raise(ok: Array, error: Callable[..., Exception], *numbers: Any) -> None:
    raise recording_error()  # asked in a trace only, and `ok` is not known there


def recording_error() -> TypeError:
    came = "one that is recorded (by torch.func.linearize, make_fx, torch.jit.trace or torch.export): its numbers would become constants"
    advice = "Call it outside of what is recorded. torch.func.jvp, vjp and vmap record nothing, torch.compile leaves the call out of its graph."
    return TypeError(expected_got("a call", "one that can read its numbers now", came, advice))


def _door(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """While Dynamo traces: a clean graph break, instead of NumPy traced inside the kernels."""
    if torch.compiler.is_dynamo_compiling():
        if torch.compiler.is_exporting():  # a graph break is an error there
            raise recording_error()
        return _outside_of_the_graph(f, args, kwargs)
    if torch._C._get_tracing_state() is None and not torch.compiler.is_exporting():
        return f(*args, **kwargs)
    try:
        return f(*args, **kwargs)
    except Exception as error:  # sizes are tensors there, and much of torch.func is missing
        raise recording_error() from error


def _call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


# unlike torch.compiler.disable, loads Dynamo only when it is called
_outside_of_the_graph = torch._disable_dynamo(_call)  # type: ignore[attr-defined]

guard(_door)
