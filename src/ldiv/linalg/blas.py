"""Products under the names of BLAS and NumPy: `gemm` and `matmul`, into new memory or into
yours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import alike, batch_of, broadcast, is_complex, numpy_dtype
from ldiv.core.buffers import is_buffer, overlap, require_own_entries
from ldiv.core.dispatch import is_array, namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS
from ldiv.core.trees import Array
from ldiv.core.validate import (
    require_batches,
    require_flag,
    require_float,
    require_scalar,
    together,
    transposition,
)
from ldiv.errors import expected_got, shown
from ldiv.matrices.matrix import common_dtype
from ldiv.rules.gemm import Gemm, Product


@public
def gemm(
    alpha: Any,
    a: Array,
    b: Array,
    beta: Any = 0.0,
    c: Array | None = None,
    trans_a: Any = 0,
    trans_b: Any = 0,
    overwrite_c: bool = False,
) -> Array:
    """Multiply two matrices and add a third, differentiably, in SciPy's signature of BLAS.

        C' = alpha op(A) op(B) + beta C,    op = N, T or H (0, 1 or 2)

    alpha, beta: numbers, or arrays of shape (), which are differentiated; a, b: op(A) (*batch, m,
    k) and op(B) (*batch, k, n), batch axes broadcast; c: (*batch, m, n), not read for the number
    beta = 0, and for an array that is 0 its NaN and infinities are ignored.
    overwrite_c: write the result into c, and return c. On PyTorch this is differentiable too: c
    takes part in the graph as after any in-place operation, and what was saved of its old value
    raises PyTorch's own error. c may not share memory with a or b.
    dtypes: float32, float64, complex64, complex128; of two precisions the wider is used, which must
    be that of an overwritten c.
    Differentiable in alpha, a, b, beta and c in every mode and order: A_bar = op(conj(alpha) C'_bar
    op(B)^H), B_bar = op(conj(alpha) op(A)^H C'_bar), C_bar = conj(beta) C'_bar.
    Cost: 1 product, and 2 for the derivative.
    Raises ValueError for shapes and overlapping memory; TypeError for dtypes, mixed frameworks, and
    for overwrite_c on JAX.
    Source: Dongarra, Du Croz, Hammarling and Duff (1990); Giles (2008), section 2.2.

    >>> import ldiv, numpy as np
    >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
    >>> ldiv.gemm(2.0, a, a, -1.0, c, trans_b=1)
    array([[ 9., 21.], [21., 49.]])
    """
    overwrite_c = require_flag("overwrite_c", overwrite_c)
    op_a, op_b = transposition(trans_a, "trans_a"), transposition(trans_b, "trans_b")
    shape = _shape(_matrix("a", a, a), op_a, _matrix("b", b, a), op_b)
    scale = _scalar("beta", beta, a)
    adds = _is_variable(beta) or bool(beta != 0)
    if (c is None and (adds or overwrite_c)) or (
        c is not None and tuple(_matrix("c", c, a).shape) != shape
    ):
        raise ValueError(
            expected_got(
                "c",
                f"an array of shape {shape}",
                "none" if c is None else str(tuple(c.shape)),
                "It is the shape of the product.",
            )
        )
    if overwrite_c:
        _require_apart("c", c, a=a, b=b)
    scalars = [_scalar("alpha", alpha, a), *([scale] if adds else [])]
    more = [scalars[1], _fresh(c) if overwrite_c else c] if adds else []
    y = bind(Gemm(op_a, op_b, adds), *common_dtype(scalars[0], a, b, *more))[0]
    return _into("c", c, y) if overwrite_c else y


@public
def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """Multiply two matrices, differentiably, also into memory of your own.

        out = A B

    a: (*batch, m, k) or (k,), b: (*batch, k, n) or (k,), batch axes broadcast, vectors as in
    `numpy.matmul`.
    out: an array of the shape and dtype of the product, apart from a and b; it is returned.
    Differentiable on PyTorch, see `gemm`.
    dtypes, derivatives, cost, errors and source as in `gemm`.

    >>> import ldiv, numpy as np
    >>> out = np.empty((2, 2))
    >>> ldiv.matmul(np.eye(2), np.ones((2, 2)), out=out) is out
    True
    """
    left, right = _vector("a", a, a), _vector("b", b, a)
    x, y = a[None, :] if left else a, b[:, None] if right else b
    shape = _shape(x, "N", y, "N")
    if out is not None:
        shape = tuple(
            n
            for n, gone in zip(shape, (*(False for _ in shape[2:]), left, right), strict=True)
            if not gone
        )
        if tuple(require_float("out", out).shape) != shape:
            raise ValueError(
                expected_got(
                    "out",
                    f"shape {shape}",
                    str(tuple(out.shape)),
                    "It is the shape of the product.",
                )
            )
        _require_apart("out", out, a=a, b=b)
    product = bind(Product(), *common_dtype(x, y))[0]
    product = product[..., 0, :] if left else product
    product = product[..., 0] if right else product
    return product if out is None else _into("out", out, product)


# -- what users pass ----------------------------------------------------------


def _matrix(name: str, x: Any, like: Any) -> Array:
    if require_float(name, x).ndim < 2:
        raise ValueError(
            expected_got(
                name,
                "a matrix (*batch, m, n)",
                f"shape {tuple(x.shape)}",
                "Reshape it, or use ldiv.matmul.",
            )
        )
    together(name, x, like)
    return x


def _vector(name: str, x: Any, like: Any) -> bool:
    if require_float(name, x).ndim == 0:
        raise ValueError(expected_got(name, "a vector or a matrix", "a number", "Multiply by it."))
    together(name, x, like)
    return bool(x.ndim == 1)


def _shape(a: Array, op_a: str, b: Array, op_b: str) -> tuple[int, ...]:
    """The shape of op(A) op(B)."""
    (m, k), (l, n) = (
        tuple(x.shape[-2:])[:: -1 if VIEWS[op][0] else 1] for x, op in ((a, op_a), (b, op_b))
    )
    if k != l:
        raise ValueError(
            expected_got(
                "a and b",
                "op(a) (..., m, k) and op(b) (..., k, n)",
                f"({m}, {k}) and ({l}, {n})",
                "Check trans_a and trans_b.",
            )
        )
    require_batches("b", batch_of(a, 2), batch_of(b, 2))
    return (*broadcast(batch_of(a, 2), batch_of(b, 2)), m, n)


def _is_variable(s: Any) -> bool:
    """An array, not a number; NumPy's numbers are numbers."""
    return not isinstance(s, int | float | complex | np.generic) and is_array(s)


def _scalar(name: str, s: Any, like: Array) -> Array:
    """A number as an array of the precision of `like`; an array of shape () itself."""
    if _is_variable(s):
        together(name, require_float(name, s), like)
        if s.ndim == 0:
            return s
        raise ValueError(
            expected_got(
                name,
                "a number or an array of shape ()",
                f"shape {tuple(s.shape)}",
                "It scales the whole matrix.",
            )
        )
    if isinstance(s, bool) or not isinstance(s, int | float | complex | np.number):
        raise TypeError(
            expected_got(
                name, "a number or an array of shape ()", shown(s), "It scales the whole matrix."
            )
        )
    s = require_scalar(name, s, like)
    if not np.iscomplexobj(s) or is_complex(like):
        return namespace(like).asarray(s, **alike(like))
    return namespace(like).asarray(
        s, **alike(like, np.result_type(numpy_dtype(like), np.complex64))
    )


# -- into memory that is there ------------------------------------------------


def _require_apart(name: str, to: Any, **inputs: Array) -> None:
    """Memory that can be written, and that no input lies in."""
    if not is_buffer(to):
        advice = f"Leave {name} out and use the value returned."
        raise TypeError(
            expected_got(name, "an array that can be overwritten", f"a {type(to).__name__}", advice)
        )
    if isinstance(to, np.ndarray) and not to.flags.writeable:
        raise ValueError(
            expected_got(name, "an array that can be written", "a read-only one", "Pass a copy.")
        )
    require_own_entries(name, to)
    for other, x in inputs.items():
        together(name, to, x)
        if overlap(to, x):
            raise ValueError(
                expected_got(
                    name,
                    f"memory apart from that of {other}",
                    "arrays that overlap",
                    f"Copy {other}: it would be overwritten.",
                )
            )


def _fresh(c: Array) -> Array:
    """A copy, differentiable: what is saved of an array that is about to be overwritten would be
    stale.
    """
    return namespace(c).astype(c, c.dtype, copy=True)


def _into(name: str, to: Array, y: Array) -> Array:
    if to.dtype != y.dtype:
        raise TypeError(
            expected_got(
                name,
                f"{y.dtype}, the dtype of the product",
                str(to.dtype),
                "Convert it beforehand.",
            )
        )
    try:
        to[...] = y
    except RuntimeError as error:
        raise ValueError(
            expected_got(
                name, "a tensor that PyTorch lets us overwrite", str(error), "Pass a copy."
            )
        ) from error
    return to
