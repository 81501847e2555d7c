"""J v = 0 and u^H J = 0 of a singular Jacobian, the least v^T H v of a Hessian, in words.

The vectors name unknowns and equations.
Those of J belong to the smallest singular value, after rows and then columns are scaled to 1. Of a
large J only rows and columns of zeros are looked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.structure import Structure

DENSE = 500  # unknowns of which a dense matrix is made for an error
NAMED = 3  # unknowns in an error
LEAST = 0.01  # of a vector: smaller parts are not named
SHIFT = 1e-8  # of the largest sum of a column, below 0: the eigenvalue nearest to it is named


def named(structure: Structure, values: HostArray, is_hessian: bool) -> str:
    """Return a sentence for an error; nothing where no unknown stands out."""
    m, n = structure.shape
    if not np.isfinite(values).all() or not 0 < m == n:
        return ""
    if is_hessian:
        return _curvature(structure, values)
    if n <= DENSE:
        left, right = _vectors(np.asarray(structure.todense(values)))
    elif structure.pattern is not None:
        entries = abs(structure.pattern.csc(structure.slot_values(values)))
        # equations are rows of zeros, unknowns are columns of zeros
        left, right = (1.0 * (entries.sum(axis) == 0) for axis in (1, 0))
    else:
        return ""
    unknowns, equations = _words("x", right), _words("f", left)
    if not unknowns and not equations:
        return ""
    return f": f does not change along ({unknowns}), and of its equations ({equations}) one is too many"


def _curvature(structure: Structure, values: HostArray) -> str:
    from scipy.sparse.linalg import ArpackError, eigsh

    assert structure.pattern is not None
    h = structure.pattern.csc(structure.slot_values(values).astype(np.float64))
    size = float(abs(h).sum(axis=0).max())
    try:
        w, v = (
            np.linalg.eigh(h.toarray()) if h.shape[0] <= DENSE else eigsh(h, 1, sigma=-SHIFT * size)
        )
    except (ArpackError, np.linalg.LinAlgError, RuntimeError):  # of SuperLU
        return ""
    # else another one, farther away, is negative
    return (
        f": f curves by {w[0]:.1e} along ({_words('x', v[:, 0])})" if w[0] <= SHIFT * size else ""
    )


def _vectors(j: Any) -> tuple[HostArray, HostArray]:
    # J' = D_r^-1 J D_c^-1
    scales = []
    for axis in (1, 0):
        size = abs(j).max(axis, keepdims=True)
        scales.append(np.where(size > 0, size, 1))
        j = j / scales[-1]
    u, _, vh = np.linalg.svd(j)
    # u^H J' = 0 and J' v = 0 give (D_r^-1 u)^H J = 0 and J (D_c^-1 v) = 0
    left, right = u[:, -1] / scales[0][:, 0], vh[-1] / scales[1][0]
    return left / np.linalg.norm(left), right / np.linalg.norm(right)


def _words(name: str, vector: HostArray) -> str:
    largest = np.argsort(-abs(vector), kind="stable")[:NAMED]
    # v and -v are alike: the largest part is shown positive
    vector = vector * np.sign(vector[largest[0]])
    return ", ".join(
        f"{name}[{i}] {vector[i]:+.2f}" for i in largest.tolist() if abs(vector[i]) > LEAST
    )
