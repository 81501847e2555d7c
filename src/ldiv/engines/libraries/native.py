"""ldiv._native, what is compiled of ldiv: is it here, and else why not?

The law: a native call accepts an answer, or declines. It never decides that a matrix is singular:
what it does not accept goes the way that is written in Python, to one verdict. Without it answers
are the same, and come later.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

VARIABLE = "LDIV_NATIVE"  # 0 switches it off


def _load() -> tuple[Any, str]:
    """The module, or None and why."""
    if os.environ.get(VARIABLE) == "0":
        return None, f"switched off by {VARIABLE}=0"
    if importlib.util.find_spec("ldiv._native") is None:
        return None, "these sources were not compiled: that takes a C++ compiler, and pip install"
    try:
        return importlib.import_module("ldiv._native"), ""
    except ImportError as error:
        return None, str(error)


native, why_not = _load()
