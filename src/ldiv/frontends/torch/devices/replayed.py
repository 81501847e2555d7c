"""Steps of an iteration on CUDA, recorded once and replayed.

A step of some fifty small kernels then takes the time of the kernels, and not the time that Python
and the host need to ask for them.
A CUDA graph reads and writes the same memory each time, so the state is copied in, and out again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from ldiv.frontends.torch import private
from ldiv.frontends.torch.recorders import traced

EAGER = 2  # blocks before the recording: libraries create handles in them, and short iterations need no more

Step = Callable[[Any], Any]


class Repeating:
    """(state, times) -> the state after so many steps."""

    def __init__(self, step: Step, is_fixed: bool) -> None:
        self._step, self._blocks = step, 0 if is_fixed else None
        self._graph: Any = None

    def __call__(self, state: Any, times: int) -> Any:
        if self._graph is None and self._is_due(state):
            self._record(state)
        if self._graph is None:
            for _ in range(times):
                state = self._step(state)
            return state
        for kept, x in zip(self._state, state, strict=True):
            kept.copy_(x)
        for _ in range(times):
            self._graph.replay()
        return tuple(x.clone() for x in self._state)

    def _is_due(self, state: Any) -> bool:
        if self._blocks is None:
            return False
        self._blocks += 1
        plain = all(x.is_cuda and not private.is_wrapped(x) for x in state)
        return (
            self._blocks > EAGER
            and plain
            and not traced(None)
            and not private.count_dispatch_modes()
            and not torch.cuda.is_current_stream_capturing()
        )

    def _record(self, state: Any) -> None:
        """Record a step as a CUDA graph; a step that cannot be recorded runs as it is."""
        self._blocks, device, graph = None, state[0].device, torch.cuda.CUDAGraph()
        here, there = torch.cuda.current_stream(device), torch.cuda.Stream(device)
        self._state = tuple(x.clone() for x in state)
        there.wait_stream(here)
        with torch.cuda.stream(there):
            # other threads may use the device meanwhile
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for kept, x in zip(self._state, self._step(self._state), strict=True):
                    kept.copy_(x)
            except BaseException as error:
                with suppress(Exception):
                    graph.capture_end()
                if isinstance(error, Exception):
                    return
                raise  # Ctrl-C
            graph.capture_end()
        here.wait_stream(there)
        self._graph = graph


def repeating(step: Step, is_fixed: bool) -> Repeating:
    return Repeating(step, is_fixed)
