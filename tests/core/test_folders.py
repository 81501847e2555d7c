"""Plug-ins are one object each, whoever asks first."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ldiv.core.frameworks import folders
from ldiv.engines import registry

THREADS = 8


def test_threads_that_ask_first_at_once_get_the_same_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.engines()  # imported
    monkeypatch.setattr(folders, "_plugins", {})
    together, interval = Barrier(THREADS, timeout=30), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def ask(_: int) -> list[object]:
        together.wait()
        return list(folders.plugins("engine"))

    try:
        with ThreadPoolExecutor(THREADS) as threads:
            first, *others = threads.map(ask, range(THREADS))
    finally:
        sys.setswitchinterval(interval)
    assert all(x is y for other in others for x, y in zip(first, other, strict=True))
