"""A library with the interface of cuDSS on the memory of the host, in place of the real one."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ldiv.engines.libraries import cudss

SOURCE = Path(__file__).parent / "engines" / "direct" / "fake_cudss.cpp"
COMPILER = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
ANALYSIS, FACTORIZATION, REFACTORIZATION, SOLVE = 3, 4, 8, 1008
KINDS = ("handles", "settings", "data", "matrices")


@cache
def compiled() -> Path:
    """The library, compiled now."""
    made = Path(tempfile.mkdtemp()) / "libfake_cudss.so"
    assert COMPILER is not None
    command = [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return made


def install(where: Any = setattr) -> ctypes.CDLL:
    """Put it in place of the real one, on every device; `where` sets an attribute."""
    where(cudss, "path", lambda: str(compiled()))
    where(cudss, "is_available", lambda device: True)
    forget()
    fake = ctypes.CDLL(str(compiled()))
    fake.fake_misuse.restype = ctypes.c_char_p
    fake.fake_stream.restype = ctypes.c_void_p
    fake.fake_fail.argtypes = (ctypes.c_int, ctypes.c_int)
    fake.fake_reset()
    return fake


def forget() -> None:
    cudss.library.cache_clear()
    cudss.missing.cache_clear()
    cudss._idle.clear()


def alive(fake: ctypes.CDLL) -> dict[str, int]:
    return {name: fake.fake_alive(i) for i, name in enumerate(KINDS)}
