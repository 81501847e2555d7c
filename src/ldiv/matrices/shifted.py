"""K_1 x K_2 x ... + s I as a Matrix on dense arrays, by whose eigenvalues it is solved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ldiv.core.arrays.inputs import moved
from ldiv.core.arrays.shapes import is_complex, unit_columns
from ldiv.core.arrays.validate import require_batches, require_float, require_square, together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure, matmul
from ldiv.errors import type_error
from ldiv.matrices.matrix import Matrix, common_dtype, scalar
from ldiv.matrices.operator_protocol import NUMBERS
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.shifted_kronecker import shifted_kronecker


def shifted(product: Matrix, s: Any) -> Matrix:
    """A Kronecker product plus s I; each factor becomes a dense array."""
    factors = list(_factors(product.structure, product.params))
    s = _shift(s, factors[0])
    require_batches("shift", product.batch, tuple(s.shape))
    structure = shifted_kronecker(*(k.shape[-1] for k in factors))
    return Matrix(structure, common_dtype(*factors, s))


def _factors(structure: Structure, p: Tree) -> Iterator[Array]:
    """The factors of a product of products, as dense arrays."""
    if isinstance(structure, Kronecker):
        for part, q in zip(structure.parts, p, strict=True):
            yield from _factors(part, q)
        return
    require_square("kron", structure.shape)
    n = structure.shape[0]
    whole = isinstance(structure, Dense)
    yield p if whole else matmul(structure, p, unit_columns(leaves(p)[0], n, range(n)))


def _shift(s: Any, like: Array) -> Array:
    """A real number, or one for each member of a batch."""
    if isinstance(s, NUMBERS):
        s = scalar("shift", s, like)
    else:
        s = moved(require_float("shift", s), like)
        together("shift", s, like)
    if is_complex(s):
        what = "real numbers, so that the matrix is Hermitian"
        raise type_error("shift", what, "complex ones", "Take the real part.")
    return s
