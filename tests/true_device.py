"""CUDA in place of the pretend accelerator: PyTorch itself tells how often the host waited for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ldiv.frontends.torch.devices.pretend_device import Waits


def install() -> torch.device:
    return torch.device("cuda", 0)


@contextmanager
def waits() -> Iterator[Waits]:
    """Count the waits inside; the number of values is not known."""
    counted = Waits()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield counted
        finally:
            torch.cuda.set_sync_debug_mode("default")
    counted.number = sum("synchronizing CUDA operation" in str(x.message) for x in said)
