"""f(A) for a public function, in the arrays of the caller: complex for a real A where it has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import astype, numpy_dtype
from ldiv.core.arrays.validate import require_flag
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace, traced
from ldiv.linalg.arguments.dense_arguments import require_square_array
from ldiv.rules.matrix_map import ComplexValueError, MatrixFunction, matrix_map

FOR_SPARSE = (
    "f(A) of a sparse matrix is dense: a.toarray(), or for exp(t A) b ldiv.expm_multiply, for a "
    "Hermitian A and some of its eigenvalues ldiv.spectral_function."
)


def applied(f: MatrixFunction, name: str, a: Any, instead: str = FOR_SPARSE) -> Any:
    """f(A), A an array (*batch, n, n)."""
    a = require_square_array(name, a, instead=instead)
    try:
        return matrix_map(f, a)
    except ComplexValueError:
        if traced(a):
            raise
        return matrix_map(f, astype(a, np.result_type(numpy_dtype(a), np.complex64)))


def with_residual(disp: Any, x: Any, residual: Callable[[Array, Array], Array], a: Any) -> Any:
    """X, or as in SciPy with disp=False X and |R(X, A)|_1 / |A|_1."""
    if require_flag("disp", disp):
        return x
    x_now, a = constant(x), constant(require_square_array("A", a))
    return x, column_norm(residual(x_now, a)) / column_norm(a)


def column_norm(x: Array) -> Array:
    """|X|_1."""
    xp = namespace(x)
    return xp.max(xp.sum(xp.abs(x), axis=-2), axis=-1)
