"""<a, b> = Re tr(a^H b), over all arrays of two trees; None is zero."""

from __future__ import annotations

import numpy as np

from ldiv.core.trees import Tree, leaves


def inner(a: Tree, b: Tree) -> float:
    pairs = zip(leaves(a), leaves(b), strict=True)
    return float(sum(np.real(np.vdot(x, y)) for x, y in pairs if x is not None and y is not None))
