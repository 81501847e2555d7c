"""Arguments of derivatives of users' functions, validated: the function, the point, and the pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import is_complex, numpy_dtype
from ldiv.core.arrays.typing import AnyArray, IndexLike
from ldiv.core.arrays.validate import require_callable, require_float, require_ours, together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, recorder
from ldiv.core.frameworks.pattern import Index, Pattern
from ldiv.engines.factors.analyses import analysed
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.entries import index_vector
from ldiv.matrices.foreign_entries import entries_of
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse

Function = Callable[[Any], Any]  # of users, on arrays of their framework
# A sparse matrix of any library, or (rows, columns).
PatternLike: TypeAlias = SparseArray | AnyArray | tuple[IndexLike, IndexLike]


def require_vector(name: str, x: Any) -> Array:
    x = require_float(name, x)
    if x.ndim != 1 or is_complex(x):
        came = f"shape {tuple(x.shape)} of {numpy_dtype(x)}"
        shape = tuple(x.shape)
        advice = (
            "Take real and imaginary parts as 2 n unknowns."
            if is_complex(x)
            else f"Pass {name}.reshape(-1), and lambda x: f(x.reshape({shape})).reshape(-1)."
        )
        raise value_error(name, "a real array (n,)", came, advice)
    if type(x) is np.ndarray and recorder("numpy") is None:
        advice = (
            "Write f with autograd.numpy after `import autograd` (pip install 'ldiv[autograd]'), or pass "
            "an array of PyTorch or JAX; of one rule ldiv.vjp has the pullback."
        )
        raise value_error(name, "an array whose operations are recorded", "one of NumPy", advice)
    return x


def require_function(f: Function) -> None:
    require_callable("f", f, "a function of x", "It returns an array.")


def output_size(f: Function, x: Array) -> int:
    require_function(f)
    y = f(x)
    if not is_array(y) or y.ndim != 1:
        raise value_error(
            "f",
            "a function with values (m,)",
            shown(y),
            "Flatten arrays. The gradient of one number is jacrev's of torch.func or jax, or "
            "ldiv.vjp(f, x)[1](1.0)[0]; its second derivatives are ldiv.hessian(f, x).",
        )
    return int(require_real_values(y, x).shape[0])


def require_real_values(y: Array, x: Array) -> Array:
    """Check y = f(x): an array of real values."""
    is_alike = type(y) is type(x) and y.dtype == x.dtype
    if is_alike and getattr(y, "device", None) == getattr(x, "device", None):
        return y
    require_ours("f", y)
    together("f", y, x)
    dtype = str(y.dtype).rpartition(".")[2]
    if dtype not in ("float32", "float64"):
        advice = "Take real and imaginary parts together, xp.concat([y.real, y.imag]); integers have no derivatives."
        raise type_error("f", "a function with real floating values", dtype, advice)
    return y


def on_pattern(pattern: Any, shape: tuple[int, int]) -> Sparse:
    rows, cols, own = _places(pattern, shape)
    outside = np.flatnonzero((rows < 0) | (rows >= shape[0]) | (cols < 0) | (cols >= shape[1]))
    if own != shape or len(outside):
        came = (
            f"shape {own}"
            if own != shape
            else f"the entry ({rows[outside[0]]}, {cols[outside[0]]})"
        )
        raise value_error(
            "pattern",
            f"entries of a matrix {shape}",
            came,
            "Rows are those of f (of a Hessian, of x), columns those of x, counted from 0.",
        )
    of_matrix = pattern.structure if isinstance(pattern, Matrix) else None
    if isinstance(of_matrix, Sparse) and not of_matrix.pattern.has_duplicates:
        return of_matrix  # with the coloring that is cached on it
    places = distinct(rows.astype(np.int64) * shape[1] + cols.astype(np.int64))
    found = Sparse(Pattern(places // shape[1], places % shape[1], shape))
    same: Sparse = analysed(
        "pattern", found, lambda: found
    )  # for equal patterns, with its coloring
    return same


def _places(pattern: Any, shape: tuple[int, int]) -> tuple[Index, Index, tuple[int, int]]:
    """Rows, columns and the shape of the matrix that the pattern belongs to."""
    if isinstance(pattern, SparseArray):
        m, n = pattern.structure.shape
        return pattern.row, pattern.col, (m, n)
    if (found := entries_of("pattern", pattern)) is not None:
        return found.rows, found.cols, found.shape
    if not isinstance(pattern, tuple | list) or len(pattern) != 2:
        raise type_error(
            "pattern",
            "a sparse matrix or a pair (rows, columns)",
            shown(pattern),
            "ldiv.detect_pattern makes one.",
        )
    rows, cols = (
        index_vector(f"{name} of pattern", v)
        for name, v in zip(("rows", "columns"), pattern, strict=True)
    )
    if len(rows) != len(cols):
        raise value_error(
            "pattern",
            "a row and a column for each entry",
            f"{len(rows)} rows, {len(cols)} columns",
            "They go together.",
        )
    return rows, cols, shape
