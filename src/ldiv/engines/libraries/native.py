"""ldiv._native, the compiled part of ldiv, or the reason why it is missing.

The law: a native call accepts an answer, or declines. It never decides that a matrix is singular:
what it does not accept goes the way that is written in Python, to one verdict. Without it answers
are the same, and come later; entries of inverses and factors of large sparse matrices are refused.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from hashlib import sha256
from pathlib import Path
from typing import Any
from warnings import warn

from ldiv.core.rules.compiled import offered
from ldiv.errors import EngineError

SOURCES = Path(__file__).parents[4] / "native"  # where ldiv runs from its sources
VARIABLE = "LDIV_NATIVE"  # 0 switches it off
NOT_COMPILED = "these sources were not compiled: that takes a C++ compiler, and pip install"
PYTHON_ALONE = (
    "this package is Python alone; small systems take longer, programs of JAX call Python, and "
    "selected inverses of large sparse matrices are refused. A compiled wheel has it, and so have "
    "the sources where pip install finds a C++ compiler"
)
FEW = 2000  # rows of a sparse matrix that do without it: by dense L, and by n solves


def _load() -> tuple[Any, str]:
    """The module, or None and why."""
    if os.environ.get(VARIABLE) == "0":
        return None, f"switched off by {VARIABLE}=0"
    if importlib.util.find_spec("ldiv._native") is None:
        return None, NOT_COMPILED if SOURCES.is_dir() else PYTHON_ALONE
    why_not = ""
    try:
        module = importlib.import_module("ldiv._native")
    except ImportError as error:
        why_not = str(error)
    else:
        # a module that was compiled from other sources must not be used
        if SOURCES.is_dir() and module.fingerprint != _fingerprint():
            why_not = "it was compiled from other sources than those in native/: pip install again"
    if why_not:
        warn(f"ldiv does without its compiled part, and is slower: {why_not}", stacklevel=2)
        return None, why_not
    return module, ""


def _fingerprint() -> str:
    """The fingerprint of the sources, computed as CMakeLists.txt does."""
    paths = sorted([*SOURCES.rglob("*.?pp"), SOURCES / "CMakeLists.txt"], key=Path.as_posix)
    return sha256("".join(sha256(p.read_bytes()).hexdigest() for p in paths).encode()).hexdigest()


def require(what: str, n: int) -> None:
    """Raise if the compiled part is missing, and a matrix has too many rows to do without it."""
    if native is None and n > FEW:
        raise EngineError(
            f"{what} need ldiv's compiled part, ldiv._native: without it ldiv takes up to {FEW:,} "
            f"rows. It is not here: {why_not}."
        )


native, why_not = _load()
if native is not None:
    offered.update(native.xla_calls())
