"""M = diag(S)^-1: corrects bad scaling, and nothing else. Cost: a division."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, scatter
from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.preconditioners.approximate_inverse import on_numbers
from ldiv.errors import type_error, value_error
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


@on_numbers
def build(structure: Structure, p: Tree, **options: Any) -> tuple[Structure, Tree]:
    """diag(S)^-1, where zeros count as 1.

    If S is Hermitian and indefinite, absolute values are taken: minres needs a definite M.
    """
    if options:
        raise type_error(
            ", ".join(options), "no options of kind='jacobi'", "some", "Other kinds have options."
        )
    d = diagonal(structure, p)
    xp = namespace(d)
    # 0 d keeps the dtype of complex d
    d = xp.abs(d) + 0 * d if structure.view("H") == structure else d
    return Diagonal(structure.shape[0]), 1 / xp.where(d == 0, 1, d)


def diagonal(structure: Structure, p: Tree) -> Array:
    """The diagonal of S(p), (*batch, n), if its entries are explicit."""
    base, op = structure.unview()
    if VIEWS[op][1]:
        return conj(diagonal(base, p))
    if isinstance(base, Symmetric):
        d = diagonal(base.base, p)
        # the diagonal of (A + A^H) / 2 is real; 0 d keeps the dtype
        return real(d) + 0 * d if base.op == "H" else d
    if isinstance(base, Diagonal):
        return p
    if isinstance(base, Dense):
        return namespace(p).linalg.diagonal(p)
    if isinstance(base, Sparse):
        on = np.flatnonzero(base.pattern.rows == base.pattern.cols)
        # duplicates are summed
        return scatter(p[..., on, None], base.pattern.rows[on], base.shape[0])[..., 0]
    raise value_error(
        "M='jacobi'",
        "a matrix with entries",
        type(base).__name__,
        "Give M as a Matrix or a LinearOperator near the inverse.",
    )
