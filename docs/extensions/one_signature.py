"""One signature for a function: that of its implementation. Overloads, one for each flag that
changes what is returned, are for type checkers.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

analyzed = ModuleAnalyzer.analyze


def analyze(self: ModuleAnalyzer) -> None:
    analyzed(self)
    self.overloads = {}


def setup(app: Sphinx) -> dict[str, Any]:
    ModuleAnalyzer.analyze = analyze  # type: ignore[method-assign]
    return {"parallel_read_safe": True}
